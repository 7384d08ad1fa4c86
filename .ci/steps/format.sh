# The format of all sources.
formatted() {
    cargo fmt --all --check
    cargo fmt --all --check $LAB
    rustfmt --check --edition 2024 lab/sdks/programs/*.rs # they are included, so cargo does not see them
}
