# The arithmetic of the shared words: each law proved by z3 from the sources, each change of the sources
# found by a law, and the walk held against the compiled sources.
has_z3() {
    command -v z3 >/dev/null
}

proofs() {
    install has_z3 z3
    if ! has_z3; then
        skip "z3 is not installed"
        return
    fi
    linted test "${PROGRAMS[@]}" --test real
    "$CARGO_TARGET_DIR/debug/proofs"
    "$CARGO_TARGET_DIR/debug/proofs" --mutants | tail -n 1
    ends_with 0 "$CARGO_TARGET_DIR/debug/proofs" --help
    ends_with 2 "$CARGO_TARGET_DIR/debug/proofs" --only no-such-law
}
