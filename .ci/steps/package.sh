# Packs all crates that would be published, and builds each from its package. Then looks at the files
# in the packages.
packed() {
    rm -rf "$CARGO_TARGET_DIR/package" # it may have other versions
    # Cargo keeps what an earlier run in this folder has packed, and would build the members with it.
    rm -rf "${CARGO_HOME:-$HOME/.cargo}"/registry/src/-*/resile-[0-9]* \
        "$CARGO_TARGET_DIR"/debug/.fingerprint/resile-*
    cargo publish --workspace --dry-run --quiet --allow-dirty
    cargo package --quiet --allow-dirty --no-verify # leaves the package for the minimum Rust
    contains resile LICENSE-{APACHE,MIT} {CHANGELOG,COMPARE,CONTRIBUTING,DESIGN,README,SECURITY}.md \
        docs/guide/{fleet,guide,load,quotas}.md docs/{collapse,fleet,fleet-redis,limit,parts,priority,quota,storm,which-part}.svg llms.txt
    contains resile-llm LICENSE-{APACHE,MIT} {CHANGELOG,README}.md docs/agent.md docs/guide/failures.md
    contains resile-clients LICENSE-{APACHE,MIT} {CHANGELOG,README}.md data/errors.csv
    contains resile-tower LICENSE-{APACHE,MIT} {CHANGELOG,DESIGN,README}.md examples/{client,server}.rs
    contains resile-redis LICENSE-{APACHE,MIT} {CHANGELOG,README}.md examples/share.rs src/scripts/lease.lua
}

# contains PACKAGE FILE…: fails unless the package has the files and nothing of the other folders.
contains() {
    local package="$1" file list
    shift
    list="$(cargo package --quiet --allow-dirty --no-verify --list -p "$package")"
    for file in Cargo.toml src/lib.rs "$@"; do
        if ! grep -qx "$file" <<<"$list"; then
            echo "the package $package lacks $file" >&2
            return 1
        fi
    done
    if grep -E '^(target|\.cargo|\.ci|\.github|crates|fuzz|lab|tests/house)/' <<<"$list"; then
        echo "the package $package has the files above, which it must not have" >&2
        return 1
    fi
    printf '%s files in %s\n' "$(wc -l <<<"$list")" "$package"
}

# Prints a configuration of cargo that replaces the build script of aws-lc-sys by what it printed in
# this target directory. It builds a large library in C, which is the same for each Rust. Prints
# nothing if it did not run yet.
prebuilt() {
    local host output
    host="$(rustc -vV | sed -n 's/^host: //p')"
    for output in "$CARGO_TARGET_DIR"/debug/build/aws-lc-sys-*/output; do
        if [ -f "$output" ]; then
            sed -n "s/^cargo:libcrypto=\(.*\)_crypto$/[target.$host.\1]/p" "$output"
            awk '
                !sub(/^cargo:/, "") || /^(warning|rerun)/ { next }
                { key = $0; sub(/=.*/, "", key); sub(/^[^=]*=/, "") }
                key ~ /^rustc-/ { list[key] = list[key] "\"" $0 "\", "; next }
                { print key " = \"" $0 "\"" }
                END { for (key in list) print key " = [" list[key] "]" }
            ' "$output"
            return
        fi
    done
}

# Runs the tests of the core on the minimum Rust.
minimums() {
    on_minimum core_on_minimum
}

# Runs the tests of the members on the minimum Rust.
member_minimums() {
    on_minimum members_on_minimum
}

# on_minimum COMMAND: calls the command with cargo on the minimum Rust of Cargo.toml, in the package that would
# be published, with the lowest versions that it declares. Indirect dependencies have the newest versions
# that fit. The members are beside it. The build has its own directory, because it cannot use files of
# another Rust. It uses the C library of the other build. Warnings are off, because the lints of the newer
# Rust count.
on_minimum() {
    local version copy="$CARGO_TARGET_DIR/minimums" run
    version="$(sed -n 's/^rust-version = "\([0-9.]*\)".*/\1/p' Cargo.toml)"
    if [ -z "$version" ]; then
        echo "no rust-version found in Cargo.toml" >&2
        return 1
    fi
    if ! command -v rustup >/dev/null; then
        skip "no rustup to install Rust $version"
        return
    fi
    if ! rustup run "$version" cargo --version >/dev/null 2>&1 &&
        ! rustup toolchain install "$version" --profile minimal --no-self-update; then
        skip "rustup cannot install Rust $version"
        return
    fi
    rustup run "$version" rustc --version
    prebuilt >"$CARGO_TARGET_DIR/prebuilt.toml"
    run=(rustup run "$version" cargo --config "$CARGO_TARGET_DIR/prebuilt.toml")
    rm -rf "$copy"
    mkdir -p "$copy/crates"
    tar -xzf "$CARGO_TARGET_DIR"/package/resile-[0-9]*.crate -C "$copy" --strip-components 1
    rm "$copy/Cargo.lock"
    cp -RL crates/resile-clients crates/resile-redis crates/resile-llm crates/resile-tower "$copy/crates/"
    rm -rf "$copy/crates/resile-llm/fuzz" "$copy/crates/resile-clients/tests/servers"
    few_dependencies <crates/resile-clients/Cargo.toml >"$copy/crates/resile-clients/Cargo.toml"
    few_dependencies <crates/resile-llm/Cargo.toml >"$copy/crates/resile-llm/Cargo.toml"
    few_dependencies <"$copy/Cargo.toml.orig" >"$copy/Cargo.toml"
    (
        cd "$copy"
        # The option of cargo is unstable, so RUSTC_BOOTSTRAP allows it for this command alone.
        RUSTC_BOOTSTRAP=1 "${run[@]}" update --quiet -Z direct-minimal-versions
        "${run[@]}" tree --locked --all-features --edges normal --depth 1 --workspace
        export CARGO_TARGET_DIR="$CARGO_TARGET_DIR/minimum-rust" RUSTFLAGS="--cap-lints allow"
        export PROPTEST_CASES=16 # the inputs are searched on the other Rust
        "$1" "${run[@]}"
    )
}

# Left out: what reads the repository, the sizes of futures, which have tokio's timer in them, and the long
# simulations.
core_on_minimum() {
    "$@" test --quiet --locked --all-features --lib --test calls --test upstream \
        -- --skip keep_their_sizes --skip learning::
}

# Not with the clients that need a newer Rust.
members_on_minimum() {
    "$@" test --quiet --locked --all-features --lib -p resile-llm --test llm
    "$@" test --quiet --locked -p resile-clients --test clients
    "$@" test --quiet --locked --all-features --lib -p resile-redis
    "$@" test --quiet --locked --all-features --lib -p resile-tower --test tower
}

# Leaves out what these tests do not need: pictures, progress bars and benches. Leaves out what
# the minimum Rust cannot build: some clients, and the tests on servers.
few_dependencies() {
    awk '
        /^\[/ { table = $0 }
        table == "[features]" && /^(async-nats|aws-smithy|kube|lapin|mongodb|opendal|recoverable|rmcp|sqlx)-[0-9]/ { next }
        table == "[dependencies]" && /^(async-nats|aws-smithy-.*|kube-client|lapin|mongodb|opendal-core|recoverable|rmcp|sqlx) =/ { next }
        table == "[workspace]" && /resile-clients\/tests\/servers/ { next }
        table == "[dev-dependencies]" && /^(criterion|indicatif|lexopt|plotters) =/ { next }
        table == "[[bench]]" { next }
        { print }
    '
}
