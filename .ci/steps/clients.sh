# Fails if the tables of error codes need a crate beyond `resile`: the clients are optional.
alone() {
    local tree
    tree="$(cargo tree -p resile-clients --no-default-features --edges normal --depth 1 --prefix none)"
    printf '%s\n' "$tree"
    if [ "$(wc -l <<<"$tree")" -ne 2 ]; then
        echo "resile-clients must depend on resile alone" >&2
        return 1
    fi
}

# The parts of `.ci/clients`.
PARTS=(sql brokers rabbitmq hooks http mongodb kube stores services sdks whole minimums)

has_postgres() {
    command -v postgres || compgen -G '/usr/lib/postgresql/*/bin/postgres'
}

has_mariadb() {
    PATH="$PATH:/usr/sbin" command -v mariadbd
}

# Installs the servers. SQLite is in its client.
sql_servers() {
    install has_postgres postgresql
    install has_mariadb mariadb-server
    has_postgres && has_mariadb
}

has_redis() {
    command -v redis-server
}

has_nats() {
    PATH="$PATH:/usr/sbin" command -v nats-server
}

# The step `server` installs Redis or Valkey. These tests want Redis.
broker_servers() {
    install has_redis redis-server
    install has_nats nats-server
    has_redis && has_nats
}

has_rabbitmq() {
    compgen -G /usr/lib/rabbitmq/bin/rabbitmq-server
}

rabbitmq_server() {
    install has_rabbitmq rabbitmq-server
    has_rabbitmq
}

# against FEATURE SERVERS: installs the servers of a part by the command SERVERS, and runs its tests. The
# tests of the crate run too, because some of them need the clients of this part.
against() {
    if ! "$2"; then
        skip "a server is missing"
        return
    fi
    cargo test -p resile-clients -p resile-clients-servers --features "resile-clients-servers/$1"
}

# Lints, docs and the public API with all clients at once.
whole_clients() {
    strictly -p resile-clients -p resile-clients-servers --all-targets --all-features
    RUSTDOCFLAGS="-D warnings" cargo doc --quiet --no-deps --all-features -p resile-clients
    link_to_no_file resile_clients
    api --clients
}

# Each feature of `resile-clients` and the oldest Rust that builds it, with the versions of the lock file.
CLIENT_MINIMUMS="
async-nats-0_51     1.89
aws-smithy-1        1.94
hyper-1             1.85
kube-5              1.89
lapin-4             1.88
mongodb-3           1.88
object_store-0_14   1.85
opendal-0_59        1.91
recoverable-0_3     1.95
redis-1             1.85
rmcp-3              1.88
sqlx-0_9            1.94
sqlx-0_9-mysql      1.94
sqlx-0_9-postgres   1.94
tokio-postgres-0_7  1.85
tonic-0_14          1.85
"

# Builds each feature alone on its oldest Rust, and fails if a feature is not in the table.
client_minimums() {
    local feature version listed run
    listed="$(awk 'NF { print $1 }' <<<"$CLIENT_MINIMUMS" | sort)"
    if [ "$listed" != "$(cd crates/resile-clients && features | sort)" ]; then
        echo "the features of resile-clients are not those of CLIENT_MINIMUMS in .ci/steps/clients.sh" >&2
        return 1
    fi
    if ! command -v rustup >/dev/null; then
        skip "no rustup to install an older Rust"
        return
    fi
    while read -r feature version <&3; do
        run=(rustup run "$version" cargo)
        if ! "${run[@]}" --version >/dev/null 2>&1 &&
            ! rustup toolchain install "$version" --profile minimal --no-self-update; then
            skip "rustup cannot install Rust $version"
            continue
        fi
        printf -- '--- %s on %s\n' "$feature" "$("${run[@]}" --version)"
        RUSTFLAGS="--cap-lints allow" CARGO_TARGET_DIR="$CARGO_TARGET_DIR/minimum-$version" \
            "${run[@]}" check --quiet --locked -p resile-clients --lib --no-default-features --features "$feature"
    done 3< <(awk NF <<<"$CLIENT_MINIMUMS")
}
