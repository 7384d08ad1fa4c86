# The lints of the laboratory. `rivals` and `sdks` are linted while they are built.
lab_lints() {
    cargo clippy --quiet --all-targets $LAB -p storm -p soak -- -D warnings
    cargo clippy --quiet $LAB -p resile-model -- -D warnings # without the tests of the crate's files
}

# The claims in their reduced form, and the programs.
lab_tests() {
    cargo test $LAB -p storm
    cargo build --quiet $LAB --bin storm --bin soak
}

# `storm` draws the published claims in their reduced form. It exits with 2 on unknown arguments,
# and if it cannot write to its folder.
storm() {
    local bin="$CARGO_TARGET_DIR/debug/storm" out="$CARGO_TARGET_DIR/storm" said name
    said="$("$bin" --quick --out "$out")"
    tail -n 1 <<<"$said"
    for name in $("$bin" --list); do
        case "$name" in
            arithmetic | bedrock | limit | neighbour) ;; # a few numbers have no picture
            *) grep -q '</svg>' "$out/$name.svg" ;;
        esac
    done
    ends_with 0 "$bin" --help
    ends_with 2 "$bin" --no-such-argument
    ends_with 2 "$bin" --only no-such-claim
    ends_with 2 "$bin" --out Cargo.toml
}

# `soak` loses nothing in a short run from a fixed seed, on one thread and on two. It exits with 2 on
# unknown arguments.
soak() {
    local bin="$CARGO_TARGET_DIR/debug/soak" threads
    for threads in 1 2; do
        "$bin" --calls 100000 --seed 1 --threads "$threads"
    done
    ends_with 0 "$bin" --help
    ends_with 2 "$bin" --no-such-argument
    ends_with 2 "$bin" --threads 0
}
