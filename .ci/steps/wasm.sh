for_wasm() {
    local command="$1" python="$CARGO_TARGET_DIR/python/bin/python"
    shift
    CARGO_PROFILE_DEV_DEBUG=line-tables-only \
        CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUNNER="$CARGO_TARGET_DIR/debug/runner" \
        CARGO_TARGET_WASM32_WASIP2_RUNNER="$python $PWD/tests/wasm/wasi.py" \
        cargo "$command" --locked $LAB "$@"
}

# Builds the programs for the tests and for the page together, so that they share their dependencies.
wasm_tools() {
    for_wasm build --quiet -p runner -p resile-browser
}

# Adds the targets by rustup.
wasm_targets() {
    local target
    for target in "$WASM" wasm32-wasip2; do
        if ! has_target "$target" && ! { command -v rustup && rustup target add "$target"; }; then
            skip "no target $target"
            return
        fi
    done
}

# Each feature compiles for JavaScript without a further setting.
wasm_features() {
    local feature
    if ! has_target "$WASM"; then
        skip "no target $WASM"
        return
    fi
    strictly --lib --target "$WASM" --no-default-features
    for feature in default $(features); do
        printf -- '--- %s\n' "$feature"
        strictly --lib --target "$WASM" --no-default-features --features "$feature"
    done
}

# Elsewhere `browser` adds nothing, so its pairs are for JavaScript.
wasm_pairs() {
    if ! has_target "$WASM"; then
        skip "no target $WASM"
        return
    fi
    pairs -p 'browser-and-*' --target "$WASM"
}

# Runs the laws in Node: without the feature `browser` and with it.
wasm_node() {
    if ! has_target "$WASM"; then
        skip "no target $WASM"
        return
    fi
    install has_node nodejs
    if ! has_node; then
        skip "no Node: install nodejs"
        return
    fi
    wasm_tools
    for_wasm build --quiet --target "$WASM" -p resile-wasm --example page --features browser
    for_wasm test --target "$WASM" -p resile-wasm --test bare
    for_wasm test --target "$WASM" -p resile-wasm --test script --features browser
}

has_node() {
    command -v node
}

# Runs the laws in a window and in a worker of a browser without a screen.
wasm_browser() {
    if ! has_target "$WASM"; then
        skip "no target $WASM"
        return
    fi
    install has_browser chromium-driver chromium-chromedriver
    if ! has_browser; then
        skip "no Chromium with its driver: install chromium and chromium-driver"
        return
    fi
    wasm_tools
    WASM_BINDGEN_USE_BROWSER=1 for_wasm test --target "$WASM" -p resile-wasm --test script --features browser
    WASM_BINDGEN_USE_DEDICATED_WORKER=1 for_wasm test --target "$WASM" -p resile-wasm --test script --features browser
}

# The runner starts the driver, and the driver starts the browser.
has_browser() {
    command -v chromedriver && browser
}

browser() {
    command -v chromium || command -v chromium-browser || command -v google-chrome
}

# Builds the page of `lab/browser` and opens it in a browser without a screen: once with retries
# that keep the server down, once with the default budget and breaker, and once with a learned limit.
# Then it presses buttons.
wasm_page() {
    local page
    if ! has_target "$WASM"; then
        skip "no target $WASM"
        return
    fi
    wasm_tools
    page="$(RUSTFLAGS="-D warnings" "$CARGO_TARGET_DIR/debug/build-page")"
    printf '%s, %s bytes\n' "$page" "$(wc -c <"$page")"
    if ! browser >/dev/null; then
        skip "no Chromium"
        return
    fi
    shows "$page" "The server does not recover"
    shows "$page?at-once" "The server does not recover"
    shows "$page?at-once#9,4,0,2,4,3,6,3,0,0" "The server recovers after"
    shows "$page?at-once#9,4,0,2,4,3,0,0,2,0" "The server recovers at once" \
        "The bulkhead ends with a limit of" 'aria-pressed="true">Learned limit<'
    presses "$page" "No retry" "The server recovers after"
    presses "$page" "Naive retries" "The server does not recover"
    presses "$page" "All defaults" "The server recovers after"
}

# shows PAGE WORDS…: opens the page and fails unless it has its picture and these words, and no error.
#
# The browser's virtual time goes on while another thread compiles the models. A busy machine
# compiles them too late, so the page is opened again: five times at most.
shows() {
    local data="$CARGO_TARGET_DIR/chromium" page="$1" dom
    shift
    for _ in 1 2 3 4 5; do
        rm -rf "$data"
        dom="$("$(browser)" --headless --no-sandbox --disable-gpu --disable-quic --no-first-run \
            --disable-background-networking --disable-component-update --disable-sync \
            --user-data-dir="$data" --virtual-time-budget=30000 --dump-dom "file://$page" 2>/dev/null)" || true
        rm -rf "$data"
        [[ $dom == *'role="status">The models are loading.<'* ]] || break
        echo "The models were not compiled in time."
    done
    grep -o '<p id="\(outcome\|error\)"[^/]*' <<<"$dom" || true
    answers "$dom" '</svg>' 'id="error" role="alert" hidden' "$@" && rows="$(grep -o '<tbody id="rows">.*' <<<"$dom")"
}

# presses PAGE NAME WORDS: presses the button of a client and opens a claim. The sliders must then
# have the settings of this client, so that both of their rows are the same.
presses() {
    local page="${1%.html}-pressed.html" name="$2" rows row
    cat "$1" - >"$page" <<END
<script>
addEventListener("load", function press() {
    const button = [...document.querySelectorAll("#clients button")].find(each => each.textContent === "$name");
    button ? button.click() : setTimeout(press, 50);
    document.querySelectorAll("#claims details").forEach((each, at) => { each.open = at === 6; });
});
</script>
END
    shows "$page?at-once" "aria-pressed=\"true\">$name<" "$3" '<b>Shows: </b>' '<b>Do: </b>'
    row="$(sed -n "s|.*>$name</span></th>\(.*\)|\1|p" <<<"$rows" | sed 's|</tr>.*||')"
    printf '%s: %s\n' "$name" "$row"
    answers "$rows" ">Yours</span></th>$row</tr>"
}

# Runs the laws on WASI, in the Wasmtime of a package registry.
wasm_wasi() {
    if ! has_target wasm32-wasip2; then
        skip "no target wasm32-wasip2"
        return
    fi
    strictly --lib --target wasm32-wasip2 --no-default-features
    strictly --lib --target wasm32-wasip2 --features metrics,serde,http,stream,chaos
    for_wasm test --target wasm32-wasip2 -p resile-wasm --test wasi --no-run
    if ! pip_install wasmtime==50.0.1; then
        # No distribution has Wasmtime, so this is no failure: the laws are built above.
        omit "the laws do not RUN on WASI, because no Python has the package wasmtime"
        return
    fi
    for_wasm test --target wasm32-wasip2 -p resile-wasm --test wasi
}
