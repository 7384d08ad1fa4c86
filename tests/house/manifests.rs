//! The manifests of the published packages: what a registry shows of them is whole.

use std::fs;
use std::path::Path;

/// The published packages with their folders.
const PACKAGES: [(&str, &str); 5] = [
    ("resile", ""),
    ("resile-clients", "crates/resile-clients/"),
    ("resile-llm", "crates/resile-llm/"),
    ("resile-redis", "crates/resile-redis/"),
    ("resile-tower", "crates/resile-tower/"),
];

fn read(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// Returns what a manifest lacks.
fn faults(package: &str, manifest: &str) -> Vec<String> {
    let table = manifest.split("[package]\n").nth(1).unwrap_or_default();
    let table = table.split("\n[").next().unwrap_or_default();
    let value = |key: &str| {
        let start = format!("{key} = ");
        table.lines().find_map(|line| line.strip_prefix(&start)).unwrap_or_default()
    };
    let list = |key: &str| value(key).matches('"').count() / 2;
    let documentation = format!("\"https://docs.rs/{package}\"");
    let description = value("description").trim_matches('"');
    let has_address = ["repository.workspace = true", "#: repository.workspace = true"]
        .iter()
        .any(|line| table.lines().any(|it| it == *line));
    let demands = [
        ("name", value("name") == format!("\"{package}\"")),
        ("documentation", value("documentation") == documentation),
        ("description: for Rust", description.contains("Rust")),
        ("description: at most 100 characters", description.chars().count() <= 100),
        ("readme", value("readme") == "\"README.md\""),
        ("keywords: five", list("keywords") == 5),
        ("categories: one to five", (1..=5).contains(&list("categories"))),
        ("license", value("license.workspace") == "true"),
        ("rust-version", value("rust-version.workspace") == "true"),
        ("repository", has_address),
    ];
    let missing = demands.iter().filter(|(_, is_met)| !is_met);
    missing.map(|(name, _)| format!("{package}: {name}")).collect()
}

#[test]
fn manifests_have_what_a_registry_shows() {
    for (package, folder) in PACKAGES {
        assert_eq!(faults(package, &read(&format!("{folder}Cargo.toml"))), [""; 0]);
    }
    let short = "[package]\nname = \"resile\"\nkeywords = [\"a\", \"b\"]\n\n[features]\n";
    assert_eq!(faults("resile", short).len(), 8, "a manifest with little more than a name");
}

/// Only the root manifest has the address of the repository, so `.ci/announce` sets it once.
#[test]
fn the_address_of_the_repository_stands_in_one_manifest() {
    let has_address = |line: &str| line.trim_start_matches("#: ").starts_with("repository = ");
    for (package, folder) in PACKAGES {
        let count =
            read(&format!("{folder}Cargo.toml")).lines().filter(|it| has_address(it)).count();
        assert_eq!(count, usize::from(folder.is_empty()), "{package}");
    }
}
