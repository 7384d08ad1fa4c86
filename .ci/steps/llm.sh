# `classify` answers each line with a line, and explains an answer on the command line. It exits
# with 1 on input that it cannot read, and with 2 on unknown arguments.
classify() {
    local bin="$CARGO_TARGET_DIR/debug/examples/classify" out
    out="$(printf '%s\n' '{"id":"a","status":429,"body":"{\"error\":{\"code\":\"insufficient_quota\"}}"}' | "$bin")"
    printf '%s\n' "$out"
    answers "$out" '"id":"a"' '"kind":"quota_exhausted"' '"retryable":false'
    out="$("$bin" --explain 529 '{"error":{"type":"overloaded_error","message":"Overloaded"}}')"
    printf '%s\n' "$out"
    answers "$out" overloaded yes found 'how sure'
    ends_with 0 "$bin" --help
    ends_with 1 "$bin" <<<'no JSON'
    ends_with 2 "$bin" --no-such-argument
    ends_with 2 "$bin" --explain </dev/null
}

# Holds the laws of the LLM classifier against mutated answers, from a fixed seed. An input that
# breaks a law is left in `fuzz/found/`.
fuzz() {
    (cd crates/resile-llm/fuzz && cargo run --quiet --profile fuzz -- 10 1)
}

# Holds the guide's programs with SDKs against the real SDKs and a local server.
sdks() {
    linted test $LAB -p resile-sdks
}
