# api ARGUMENT…: compares the public API, and the foreign crates in it, with the files in `tests/api`. The
# files are those of one version of Rust, because each version may print other things.
api() {
    local version run=(cargo run --quiet --locked --manifest-path tests/api/Cargo.toml --)
    version="$(sed -n 's/^channel = "\([0-9.]*\)".*/\1/p' tests/api/rust-toolchain.toml)"
    if [ "$(rustc --version | cut -d ' ' -f 2)" != "$version" ]; then
        if ! rustup run "$version" cargo --version 2>/dev/null &&
            ! rustup toolchain install "$version" --profile minimal --target "$WASM" --no-self-update; then
            omit "the API, because rustup cannot install Rust $version"
            return
        fi
        run=(rustup run "$version" "${run[@]}")
    fi
    "${run[@]}" "$@"
}
