# Lints and tests the members of the workspace in one build, with each feature but the clients of `resile-clients`:
# those are the parts of `.ci/clients`. The tests wait more than they work, so six run side by side.
members() {
    local name feature list="" packages=(-p resile-clients)
    for name in resile-llm resile-tower resile-redis; do
        packages+=(-p "$name")
        for feature in $(cd "crates/$name" && features); do
            list+="$name/$feature,"
        done
    done
    linted test "${packages[@]}" --features "${list%,}" -- --test-threads 6
}
