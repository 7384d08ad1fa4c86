# Scripts of outcomes, decided by the originals in Python, in Node and in Rust, and by the crate.
ORIGINALS_PYTHON="botocore==1.44.8 urllib3==2.8.0 tenacity==9.2.1 google-api-core==2.44.0 pymongo==4.20.1"
ORIGINALS_NODE="@grpc/grpc-js@1.14.7 cockatiel@3.2.1 opossum@10.0.0"

originals() {
    local python="$CARGO_TARGET_DIR/python/bin/python" node="$CARGO_TARGET_DIR/originals"
    local drivers="$PWD/lab/originals/drivers" bin="$CARGO_TARGET_DIR/debug/originals" name
    install has_npm nodejs npm
    for name in $ORIGINALS_PYTHON; do
        pip_install "$name" || break
    done
    mkdir -p "$node"
    # shellcheck disable=SC2086 # a list of packages
    (cd "$node" && { [ -f package.json ] || npm init --yes >/dev/null; } &&
        npm install --silent --no-audit --no-fund $ORIGINALS_NODE) || true
    if ! [ -x "$python" ] || ! [ -d "$node/node_modules/opossum" ]; then
        skip "the originals for Python and Node are not installed"
        return
    fi
    {
        "$python" "$drivers/originals.py" 1000 1
        (cd "$node" && node "$drivers/originals.mjs" 1000 1)
        cat lab/originals/vectors/*.jsonl
    } | "$bin" 1000 1
    ends_with 2 "$bin" --no-such-argument
}

has_npm() {
    command -v node && command -v npm
}
