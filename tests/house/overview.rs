//! `llms.txt`, the overview for programs that write code: its items, its files and its size.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

fn read(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// Returns the paths of all public items, without their generics.
fn items() -> BTreeSet<String> {
    let packages = ["resile", "resile-clients", "resile-llm", "resile-redis", "resile-tower"];
    let mut items = BTreeSet::new();
    for package in packages {
        let listing = read(&format!("tests/api/{package}.txt"));
        for line in listing.lines().filter(|line| !line.starts_with("impl")) {
            let line = without_generics(line);
            let name = line.split('(').next().unwrap_or_default();
            let is_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
            items.extend(name.split(|c| !is_path(c)).map(|it| it.trim_end_matches(':').to_owned()));
        }
    }
    items
}

/// Returns a line of a listing without what stands in angle brackets.
fn without_generics(line: &str) -> String {
    let (mut kept, mut depth) = (String::new(), 0_u32);
    for c in line.chars() {
        match c {
            '<' => depth += 1,
            '>' if depth > 0 => depth -= 1,
            _ if depth == 0 => kept.push(c),
            _ => {}
        }
    }
    kept
}

/// Returns the paths of items in the code of a text.
fn named(text: &str) -> impl Iterator<Item = &str> {
    let code = text.split('`').skip(1).step_by(2);
    code.filter(|code| code.starts_with("resile") && code.contains("::"))
}

#[test]
fn the_items_and_files_of_the_overview_exist() {
    let (text, items) = (read("llms.txt"), items());
    let unknown = |text: &str| -> Vec<String> {
        named(text).filter(|path| !items.contains(*path)).map(str::to_owned).collect()
    };
    assert_eq!(unknown(&text), [""; 0]);
    assert!(named(&text).count() > 25, "{text}");
    assert_eq!(unknown("`resile::Budget`, `resile::Nothing`"), ["resile::Nothing"]);

    let links: Vec<_> =
        text.split("](").skip(1).filter_map(|rest| rest.split(')').next()).collect();
    assert!(links.len() > 15, "{links:?}");
    for link in links {
        assert!(Path::new(env!("CARGO_MANIFEST_DIR")).join(link).is_file(), "{link}");
    }
    let length = text.lines().count();
    assert!((40..=80).contains(&length), "{length} lines");
}
