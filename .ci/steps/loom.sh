# Models of the shared state, under every interleaving. The cfg changes every dependency, so they
# have their own directory.
loom() {
    RUSTFLAGS="--cfg loom -D warnings" CARGO_TARGET_DIR="$CARGO_TARGET_DIR/loom" \
        cargo test --release --locked $LAB -p resile-loom
}
