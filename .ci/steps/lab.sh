# What one build makes of the laboratory. `rivals` is checked and `sdks` is linted while they are built.
PROGRAMS=($LAB -p storm -p soak -p proofs -p originals -p linear -p operating -p resile-model)

lab_programs() {
    linted build --quiet "${PROGRAMS[@]}" --bins --tests
}

# The claims in their reduced form.
lab_tests() {
    linted test "${PROGRAMS[@]}" --test claims --test short --test queries
}

# The alerts fire in a bad hour and stay silent in a calm one, as Prometheus says.
alerts() {
    install has_promtool prometheus
    if has_promtool >/dev/null; then
        promtool test rules lab/operating/alerts_test.yml
    else
        omit "the alerts, because promtool is not installed"
    fi
}

has_promtool() {
    command -v promtool
}

# `storm` draws the published claims in their reduced form. It exits with 2 on unknown arguments,
# and if it cannot write to its folder.
storm() {
    local bin="$CARGO_TARGET_DIR/debug/storm" out="$CARGO_TARGET_DIR/storm" said name
    said="$("$bin" --quick --out "$out")"
    tail -n 1 <<<"$said"
    for name in $("$bin" --list | grep -o '^[a-z]\+'); do
        case "$name" in
            arithmetic | bedrock | crowd | freeze | moving | neighbour | pairs | partition | ramp | throttle) ;; # a few numbers have no picture
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
