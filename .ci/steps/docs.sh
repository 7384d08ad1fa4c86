# Warnings of rustdoc are errors. A link to an item of a feature fails where that feature is off.
docs() {
    local features
    for features in --no-default-features --features=default --all-features; do
        RUSTDOCFLAGS="-D warnings" cargo doc --quiet --no-deps "$features"
        link_to_no_file resile
    done
}

# link_to_no_file CRATE: fails if its docs have a page's own links to files, which are dead there. The
# links that rustdoc reads come first.
link_to_no_file() {
    if grep -srlE 'href="[^":]*\.(md|rs)["#]' "$CARGO_TARGET_DIR/doc/$1"/{index.html,guide}; then
        echo "the docs above link to a file" >&2
        return 1
    fi
}

# The same for the members but `resile-clients`, whose docs need all clients: `.ci/clients` makes them.
member_docs() {
    RUSTDOCFLAGS="-D warnings" cargo doc --quiet --no-deps --all-features -p resile-llm -p resile-redis -p resile-tower
    link_to_no_file resile_llm
    link_to_no_file resile_tower
}

# Makes the docs as docs.rs does, for both of its targets, and looks for the note on a feature.
# docs.rs has a nightly Rust. RUSTC_BOOTSTRAP allows the same here, without a second build of all
# dependencies. Only rustdoc may see that variable, because build scripts read it too.
docs_rs() {
    local rustdoc="$CARGO_TARGET_DIR/rustdoc" docs=(cargo doc --quiet --no-deps --all-features)
    printf '#!/bin/sh\nRUSTC_BOOTSTRAP=1 exec "%s/bin/rustdoc" "$@"\n' "$(rustc --print sysroot)" >"$rustdoc"
    chmod +x "$rustdoc"
    RUSTDOC="$rustdoc" RUSTDOCFLAGS="--cfg docsrs -D warnings" "${docs[@]}"
    answers "$(<"$CARGO_TARGET_DIR/doc/resile/http/index.html")" 'feature <code>http</code>'
    if ! has_target "$WASM"; then
        skip "no target $WASM"
        return
    fi
    RUSTDOC="$rustdoc" RUSTDOCFLAGS="--cfg docsrs -D warnings" "${docs[@]}" --target "$WASM"
    answers "$(<"$CARGO_TARGET_DIR/$WASM/doc/resile/time/struct.BrowserTimer.html")" 'feature <code>browser</code>'
}
