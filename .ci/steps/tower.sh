# Lints the layers with few features. `members` has all of them.
tower_lints() {
    local features
    for features in --no-default-features --features=http --features=grpc; do
        strictly -p resile-tower --lib "$features"
    done
}

# The examples have their servers inside, and end with 1 if an answer is not what it should be.
tower_examples() {
    local name
    for name in client server; do
        timeout 60 "$CARGO_TARGET_DIR/debug/examples/$name"
    done
}

# The same for the clients that the laboratory builds.
tower_clients() {
    local name
    linted build --quiet $LAB -p resile-tonic -p resile-kube
    cargo test --quiet $LAB -p resile-tonic
    for name in tonic_stream kube_client; do
        timeout 60 "$CARGO_TARGET_DIR/debug/$name"
    done
}
