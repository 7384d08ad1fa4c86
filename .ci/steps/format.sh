# The format of all sources.
formatted() {
    cargo fmt --all --check
    cargo fmt --all --check $LAB
    # They are included, so cargo does not see them.
    rustfmt --check --edition 2024 lab/sdks/programs/*.rs crates/resile-llm/examples/chat/program.rs \
        tests/house/front_page/program.rs
    # As wide as on the page of the guide.
    rustfmt --check --edition 2024 --config max_width=80 tests/guide/ends/*.rs tests/guide/wrong/*.rs \
        crates/resile-tower/tests/tower/migrating/program.rs
}
