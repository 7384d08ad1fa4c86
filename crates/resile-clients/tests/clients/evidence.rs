//! The words `real-server` and `real-client` of the data file mean that a test in `tests/servers` provokes the row.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::data::rows;
use super::provoked::PROVOKED;

type Key<'a> = (&'a str, &'a str);

fn listed() -> BTreeSet<Key<'static>> {
    PROVOKED.iter().map(|[family, code, _]| (*family, *code)).collect()
}

#[test]
fn each_row_of_a_real_server_names_its_test() {
    let rows = rows();
    let real =
        rows.iter().filter(|row| row.evidence.starts_with("real-") && row.evidence != "real-type");
    let real: BTreeSet<_> = real.map(|row| (row.family, row.code)).collect();
    let unnamed: Vec<_> = real.difference(&listed()).copied().collect();
    assert!(
        unnamed.is_empty(),
        "real-server or real-client, but not in `provoked.rs`: {unnamed:?}"
    );
    let unmarked: Vec<_> = listed().difference(&real).copied().collect();
    assert!(
        unmarked.is_empty(),
        "in `provoked.rs`, but neither real-server nor real-client: {unmarked:?}"
    );
    assert_eq!(listed().len(), PROVOKED.len(), "a row of `provoked.rs` stands twice");
}

/// A package that is published lacks the tests on servers.
#[test]
fn each_named_test_asks_for_its_row() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers");
    if !root.exists() {
        return;
    }
    for [family, code, test] in PROVOKED {
        let (module, name) = test.rsplit_once("::").unwrap();
        let file = root.join(module.replace("::", "/")).with_extension("rs");
        let text = fs::read_to_string(&file).unwrap_or_else(|why| panic!("{test}: {why}"));
        let body = text.split_once(&format!("async fn {name}()"));
        let (_, body) = body.unwrap_or_else(|| panic!("{test} is not in {}", file.display()));
        let body = body.split_once("\n}").unwrap().0;
        assert!(asked(body).contains(&(*family, *code)), "{test} does not ask for {family} {code}");
    }
    let mut found = 0;
    for file in sources(&root) {
        let text = fs::read_to_string(&file).unwrap();
        let stray: Vec<_> = asked(&text).difference(&listed()).copied().map(own).collect();
        assert!(stray.is_empty(), "in {}, but not in `provoked.rs`: {stray:?}", file.display());
        found += asked(&text).len();
    }
    assert!(found >= PROVOKED.len());
}

fn own((family, code): Key<'_>) -> (String, String) {
    (family.to_owned(), code.to_owned())
}

/// Returns the rows that a source asks for: `row("postgres", "40001")`.
fn asked(text: &str) -> BTreeSet<Key<'_>> {
    let calls = text.split("row(\"").skip(1);
    let keys = calls.filter_map(|call| call.split_once("\")")?.0.split_once("\", \""));
    keys.collect()
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(sources(&path));
        } else if path.extension().is_some_and(|it| it == "rs") {
            files.push(path);
        }
    }
    files
}

/// The README shows the programs that tests run against PostgreSQL.
#[test]
fn the_recipes_are_the_programs_of_their_tests() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers/sql");
    if !folder.exists() {
        return;
    }
    for name in ["recipe.rs", "payment.rs", "sale.rs", "name.rs"] {
        let recipe = fs::read_to_string(folder.join(name)).unwrap().replace("pub(crate) ", "");
        assert!(include_str!("../../README.md").contains(&recipe), "{recipe}");
    }
    let test = fs::read_to_string(folder.join("postgres/limits.rs")).unwrap();
    let canceled = &test[test.find("fn canceled").unwrap()..];
    let canceled = &canceled[..canceled.find("\n}\n").unwrap()];
    assert!(include_str!("../../README.md").contains(canceled), "{canceled}");
    let test = fs::read_to_string(folder.join("postgres/ignored.rs")).unwrap();
    let savepoint = &test[test.find("            let mut savepoint").unwrap()..];
    let savepoint = &savepoint[..savepoint.find("            Ok(").unwrap()];
    let savepoint = savepoint.replace("\n            ", "\n");
    assert!(include_str!("../../README.md").contains(savepoint.trim_start()), "{savepoint}");
}
