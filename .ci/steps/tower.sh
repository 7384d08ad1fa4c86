# Lints the layers with few features and with all.
tower_lints() {
    local features
    for features in --no-default-features --features=http --features=grpc; do
        strictly -p resile-tower --lib "$features"
    done
    strictly -p resile-tower --all-targets --all-features
}

# The examples have their servers inside, and end with 1 if an answer is not what it should be.
tower_examples() {
    local name
    cargo build --quiet -p resile-tower --examples
    for name in client server; do
        timeout 60 "$CARGO_TARGET_DIR/debug/examples/$name"
    done
}

# The same for the clients that the laboratory builds. Clippy compiles them, so each client is built once.
tower_clients() {
    local name
    RUSTC_WORKSPACE_WRAPPER=clippy-driver cargo build --quiet $LAB -p resile-tonic -p resile-kube
    for name in tonic_stream kube_client; do
        timeout 60 "$CARGO_TARGET_DIR/debug/$name"
    done
}
