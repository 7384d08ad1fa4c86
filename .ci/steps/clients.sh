# Fails if the tables of error codes need a crate beyond `resile`: the clients are optional.
alone() {
    local tree
    tree="$(cargo tree -p resile-clients --no-default-features --edges normal --depth 1 --prefix none)"
    printf '%s\n' "$tree"
    if [ "$(wc -l <<<"$tree")" -ne 2 ]; then
        echo "resile-clients must depend on resile alone" >&2
        return 1
    fi
}
