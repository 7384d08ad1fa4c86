# Compares the public API of each package with that of its last release, by the listings in `tests/api`. A line
# that is gone breaks programs, and so does a new variant or field of a type that had no `#[non_exhaustive]`.
# Then the version must say so. A tag such as `resile-llm-v0.1.0` names a release.
compatible() {
    local listing package tag before now lines failed=0
    for listing in tests/api/resile*.txt; do
        package="$(basename "$listing" .txt)"
        package="${package%-wasm}" # the listing of another target
        tag="$(git describe --tags --abbrev=0 --match "$package-v[0-9]*" 2>/dev/null || true)"
        if [ -z "$tag" ]; then
            printf '%s: no release yet, so nothing to compare with\n' "$listing"
            continue
        fi
        before="${tag#"$package-v"}"
        now="$(version_of "$package")"
        lines="$(breaking <(git show "$tag:$listing") "$listing")"
        if [ -z "$lines" ]; then
            printf '%s: nothing breaks programs written for %s\n' "$listing" "$before"
        elif [ "$(series "$before")" != "$(series "$now")" ]; then
            printf '%s: %s lines break programs written for %s, as version %s says\n' \
                "$listing" "$(wc -l <<<"$lines")" "$before" "$now"
        else
            printf '%s: this breaks programs written for %s, so %s is not enough:\n%s\n' \
                "$listing" "$before" "$now" "$lines" >&2
            failed=1
        fi
    done
    return "$failed"
}

# version_of PACKAGE: prints the version in its manifest.
version_of() {
    local manifest="crates/$1/Cargo.toml"
    [ -f "$manifest" ] || manifest="Cargo.toml"
    sed -n 's/^version = "\([^"]*\)".*/\1/p' "$manifest" | head -1
}

# series VERSION: prints the part that is the same in compatible versions: `0.1` of 0.1.7, `1` of 1.4.2.
series() {
    case "$1" in
        0.*) cut -d . -f 1,2 <<<"$1" ;;
        *) cut -d . -f 1 <<<"$1" ;;
    esac
}

# breaking BEFORE NOW: prints the lines of the listing BEFORE that NOW lacks, and the variants and fields that NOW
# adds to a type which programs may match or build as a whole.
breaking() {
    awk '
        # Returns the type of a variant or of a field, such as `a::B` of `pub a::B::C(u8)` and of `pub a::B::c: u8`.
        function owner(line) {
            if (line !~ /^pub resile[a-z_]*::/) return ""
            sub(/^pub /, "", line)
            gsub(/<[^>]*>/, "", line)
            sub(/:?[ ({].*$/, "", line)
            sub(/::[^:]*$/, "", line)
            return line
        }
        FNR == NR {
            before[$0] = 1
            if ($0 ~ /^pub (enum|struct) /) { path = $3; sub(/[<({].*/, "", path); whole[path] = 1 }
            if ((of = owner($0)) != "") has[of] = 1
            next
        }
        { now[$0] = 1; of = owner($0); if (!($0 in before) && of in whole && of in has) print "+ " $0 }
        END { for (line in before) if (!(line in now)) print "- " line }
    ' "$1" "$2"
}

# Does on a copy what the first release does to the repository: the address of the repository, the badges, the
# versions in chapters and the dates. Nothing may be left that waits for it.
rehearsal() {
    local copy="$CARGO_TARGET_DIR/rehearsal" address="https://forge.example/owner/resile" left
    rm -rf "$copy"
    mkdir -p "$copy"
    git ls-files -z | xargs -0 cp --parents -t "$copy"
    (
        cd "$copy"
        git init --quiet
        git add --all
        ends_with 2 .ci/announce "$address"
        .ci/announce "$address" 2026-01-01
        left="$(git grep -nE '^ *#: |\<ADDRESS\>|<!-- (until|from) the release|unreleased\)|not published yet' \
            -- '*.md' '*Cargo.toml' .github llms.txt ':!CONTRIBUTING.md' || true
            git grep -nF 'path = "../resile' -- '*.md' || true)"
        if [ -n "$left" ]; then
            printf 'this still waits for the release:\n%s\n' "$left" >&2
            return 1
        fi
        answers "$(<README.md)" 'cargo add resile anyhow' "$address/actions"
        answers "$(<CHANGELOG.md)" '## 0.1.0 (2026-01-01)'
        answers "$(<docs/guide/first_call.md)" 'resile = { version = "0.1", features = ["reqwest"] }'
        left="$(cargo metadata --offline --no-deps --format-version 1 | grep -o "\"repository\":\"$address\"" | wc -l)"
        if [ "$left" -ne 5 ]; then
            printf '%s packages instead of 5 have the address of the repository\n' "$left" >&2
            return 1
        fi
    )
}
