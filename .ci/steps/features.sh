each_feature() {
    local feature list
    list="$(features)"
    if [ -z "$list" ]; then
        echo "no features found in Cargo.toml" >&2
        return 1
    fi
    for feature in $list; do
        printf -- '--- %s\n' "$feature"
        strictly --lib --no-default-features --features "$feature"
    done
}

# pairs OPTION…: checks each pair of features with the options. In one run cargo builds a package
# with one set of features, so each pair is a package of its own: the library and a copy of its
# manifest. They are checked side by side and share the dependencies. So a dependency may have more
# features than a pair asks for. In the step "each feature alone" it has no more.
pairs() {
    local dir="$CARGO_TARGET_DIR/pairs" one two
    rm -rf "$dir"
    mkdir "$dir"
    cp Cargo.lock "$dir"
    printf '[workspace]\nresolver = "3"\nmembers = ["*-and-*"]\n' >"$dir/Cargo.toml"
    for one in $(features); do
        for two in $(features); do
            if [[ "$one" < "$two" && "$one" != full && "$two" != full ]]; then
                mkdir "$dir/$one-and-$two"
                pair "$one" "$two" >"$dir/$one-and-$two/Cargo.toml"
            fi
        done
    done
    printf '%s pairs in all\n' "$(find "$dir" -name '*-and-*' | wc -l)"
    cargo check --quiet --manifest-path "$dir/Cargo.toml" "$@"
}

# pair ONE TWO: prints the manifest of a package that is the library with two features.
pair() {
    printf '[package]\nname = "%s-and-%s"\nversion = "0.0.0"\nedition = "2024"\n' "$1" "$2"
    printf '[lib]\nname = "resile"\npath = "%s/src/lib.rs"\n' "$PWD"
    printf '[lints.rust]\nwarnings = "deny"\nunexpected_cfgs = { level = "allow", priority = 1 }\n'
    # Some awks have `default` as a word of their own.
    awk -v both="default = [\"$1\", \"$2\"]" '
        /^\[/ { table = $0 }
        table == "[features]" && /^default =/ { $0 = both }
        table == "[features]" || table == "[dependencies]" || table ~ /^\[target\..*\.dependencies\]$/
    ' Cargo.toml
}
