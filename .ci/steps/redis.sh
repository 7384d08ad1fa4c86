# Returns whether a server is there. Each test and the example start their own on a free port.
has_server() {
    command -v redis-server || command -v valkey-server
}

# Installs a server if there is none.
server() {
    install has_server redis-server valkey-server valkey
    if ! has_server; then
        skip "no Redis server: install redis-server or valkey-server"
    fi
}

# `fleet` starts real processes. It exits with 1 if they do no better as a fleet, and with 2 on
# unknown arguments, without a server, and if it cannot write to its folder.
fleet() {
    local bin="$CARGO_TARGET_DIR/debug/examples/fleet" out="$CARGO_TARGET_DIR/fleet"
    ends_with 0 "$bin" --help
    ends_with 2 "$bin" --no-such-argument
    ends_with 2 "$bin" --out Cargo.toml
    ends_with 2 "$bin" --out "$out" --redis redis://127.0.0.1:1
    ends_with 2 env PATH=/nonexistent "$bin" --out "$out"
    if ! has_server >/dev/null; then
        skip "no Redis server"
        return
    fi
    rm -rf "$out"
    "$bin" --quick --out "$out"
    grep -q '</svg>' "$out/fleet-redis.svg"
}

# `top` reads a server of its own. It exits with 2 on wrong arguments, and with 3 without an answer.
top() {
    local bin="$CARGO_TARGET_DIR/debug/examples/top"
    ends_with 0 "$bin" --help
    ends_with 2 "$bin"
    ends_with 2 "$bin" redis://127.0.0.1:1 resile more
    ends_with 3 "$bin" redis://127.0.0.1:1
}
