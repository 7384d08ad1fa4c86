# What the steps of `.ci/quick` and `.ci/run` share. It is sourced at the root of the clone.
set -euo pipefail

exec </dev/null
export CARGO_TERM_COLOR="${CARGO_TERM_COLOR:-never}"
export CARGO_TARGET_DIR="$PWD/target" RUSTC_WRAPPER="" # use the cache of this clone only
export CARGO_INCREMENTAL=0                             # each crate is built once, so incremental files would never be used
export CARGO_PROFILE_DEV_DEBUG=0                       # a panic names its line without it

WASM="wasm32-unknown-unknown"
LAB="--manifest-path lab/Cargo.toml"

current="starting"
trap 'code=$?; if [ "$code" -ne 0 ]; then printf "\n%s: FAILED at step \"%s\" (exit %s)\n" "$0" "$current" "$code" >&2; fi' EXIT

# step NAME COMMAND…: prints the name, runs the command and prints its time. The first failure ends
# the run.
step() {
    current="$1"
    shift
    printf '\n=== %s: %s\n' "$current" "$*"
    local began=$SECONDS
    "$@"
    printf '=== %s: ok, %d s\n' "$current" "$((SECONDS - began))"
}

# skip REASON: skips the current step on a machine that cannot run it. In CI this is a failure.
# Elsewhere the last line of the run repeats the reason.
skipped=""
skip() {
    if [ "${CI:-}" = true ]; then
        printf '!!! step "%s" cannot run: %s\n' "$current" "$1" >&2
        return 1
    fi
    printf '!!! step "%s" is SKIPPED: %s\n' "$current" "$1" >&2
    skipped="$skipped, but \"$current\" was SKIPPED ($1)"
}

# omit REASON: leaves out a part that not every machine can run. This is no failure in CI either.
# The last line of the run repeats the reason.
omit() {
    printf '!!! step "%s" leaves out: %s\n' "$current" "$1" >&2
    skipped="$skipped, but \"$current\" left out: $1"
}

# Prints the compiler, and adds the components that the first steps need.
tools() {
    rustc --version
    component fmt rustfmt
    component clippy clippy
}

# component COMMAND NAME: adds a component that the toolchain lacks, by rustup.
component() {
    if ! cargo "$1" --version >/dev/null 2>&1; then
        rustup component add "$2"
        cargo "$1" --version
    fi
}

# Prints the names in the [features] table, so a new feature is covered at once.
features() {
    awk '
        /^\[/ { inside = ($0 == "[features]"); next }
        inside && /^[A-Za-z0-9_-]+[ \t]*=/ { sub(/[ \t]*=.*/, ""); if ($0 != "default") print }
    ' Cargo.toml
}

# Warnings are errors for the crate alone, and not for its dependencies.
strictly() {
    cargo clippy --quiet "$@" -- -D warnings
}

# linted COMMAND…: runs cargo with clippy as the compiler of the members, so that the build is the lint too and
# no dependency is checked beside it. Warnings are errors, as `strictly` makes them.
linted() {
    RUSTC_WORKSPACE_WRAPPER=clippy-driver CLIPPY_ARGS="-Dwarnings__CLIPPY_HACKERY__" cargo "$@"
}

# turn K N COMMAND…: runs the command in one of N commits: when their number leaves the rest K. The last line of
# the run names it otherwise.
turn() {
    local rest="$1" of="$2"
    shift 2
    if [ "$(($(git rev-list --count HEAD) % of))" -eq "$rest" ]; then
        "$@"
    else
        omit "all of it, because it runs in one commit of $of"
    fi
}

# answers TEXT PART…: fails unless the text has every part.
answers() {
    local text="$1" part
    shift
    for part in "$@"; do
        if ! grep -qF -- "$part" <<<"$text"; then
            printf 'missing in the answer: %s\n' "$part" >&2
            return 1
        fi
    done
}

# ends_with CODE COMMAND…: fails unless the command exits with that code.
ends_with() {
    local wanted="$1" code=0
    shift
    "$@" >/dev/null 2>&1 || code=$?
    if [ "$code" -ne "$wanted" ]; then
        printf 'exit code %s instead of %s: %s\n' "$code" "$wanted" "$*" >&2
        return 1
    fi
}

# Returns whether a target is installed.
has_target() {
    [ -d "$(rustc --print sysroot)/lib/rustlib/$1/lib" ]
}

# install HAS PACKAGE…: installs the first package that makes the command HAS succeed, if it does not
# succeed yet and if that needs no password.
install() {
    local has="$1" apt="" name
    shift
    if "$has" >/dev/null || ! command -v apt-get >/dev/null; then
        return
    fi
    if [ "$(id -u)" -eq 0 ]; then
        apt="apt-get"
    elif [ "${CI:-}" = true ] && sudo -n true 2>/dev/null; then
        apt="sudo -n apt-get"
    fi
    if [ -n "$apt" ]; then
        $apt update --quiet || true # the lists may be good enough
        for name in "$@"; do
            if $apt install --quiet --yes --no-install-recommends "$name" && "$has"; then
                break
            fi
        done
    fi
}

has_venv() {
    python3 -c 'import ensurepip, venv'
}

# pip_install PACKAGE: adds a package to the Python of this clone. Some packages are programs.
pip_install() {
    local python="$CARGO_TARGET_DIR/python"
    install has_venv python3-venv
    { [ -x "$python/bin/python" ] || python3 -m venv "$python"; } &&
        "$python/bin/python" -m pip install --quiet --disable-pip-version-check "$1"
}

# Prints that all steps have passed.
finished() {
    current="done"
    printf '\n%s: all steps passed%s, %d s\n' "$0" "$skipped" "$SECONDS"
}
