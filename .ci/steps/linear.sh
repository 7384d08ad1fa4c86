# What threads are told by the shared parts, explained by an order of single steps, and a careless twin
# that is found. The program exits with 2 on unknown arguments.
linear() {
    local bin="$CARGO_TARGET_DIR/debug/linear"
    "$bin" --runs 500
    ends_with 0 "$bin" --help
    ends_with 2 "$bin" --no-such-argument
}
