# The lease protocol of `resile-redis` in every order of events, in a reduced form, and broken protocols that
# it must reject. Then random walks, of which the script answers each exchange on a server as the model does,
# and broken scripts that the walks must find. The program exits with 2 on unknown arguments.
lease_model() {
    local bin="$CARGO_TARGET_DIR/debug/lease_model"
    "$bin" --quick
    "$bin" --walks 100
    ends_with 0 "$bin" --help
    ends_with 2 "$bin" --no-such-argument
}
