# Whole calls of threads on one upstream under random schedules: nothing is lost, and careless twins are
# found. The program exits with 2 on unknown arguments.
schedules() {
    local bin="$CARGO_TARGET_DIR/debug/schedules"
    linted build --quiet $LAB -p resile-shuttle
    "$bin" --runs 2000 2>/dev/null # where it prints the faults of the twins
    ends_with 0 "$bin" --help
    ends_with 2 "$bin" --no-such-argument
}
