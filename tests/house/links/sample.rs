//! The laws of the check itself, with a small repository.

use std::collections::BTreeMap;

use super::Repository;

/// The guide of the small repository: a chapter with a figure, and a page of the root with a hidden picture.
const GUIDE: &str = "#![doc = include_str!(\"chapters.md\")]
#![doc = include_str!(\"../docs/guide/guide.md\")]

macro_rules! chapter { () => { #[doc = include_str!(\"chapters.md\")] } }

chapter! {
    load [] [ \"crate::Budget\" \"crate::breaker::State#when-not\" \"#storm\" ]
    include_str!(\"../docs/guide/load.md\"),
    \"<figure id=\\\"storm\\\">\"
}

#[doc = include_str!(\"../DESIGN.md\")]
#[doc = \"<style>img[src='docs/fleet.svg'] { display: none }</style>\"]
pub mod design {}";

const LIB: &str = "#![doc = \"[Front]: crate::guide::load\"]
#![doc = \"[Guide]: crate::guide\"]
#![doc = include_str!(\"../README.md\")]

mod budget;
pub mod breaker;
pub mod guide;
pub use breaker::Breaker;
pub use budget::{Budget, Withdrawal};";

const LOAD: &str = "[`B`][crate::Budget] [a][crate::breaker::State#when-not] [b][#storm] [`load`]

[crate::Budget]: ../../src/budget.rs
[crate::breaker::State#when-not]: ../../src/breaker/state.rs
[#storm]: ../fleet.svg
[`load`]: load.md";

/// Returns a small repository with that text as one of its pages.
pub(super) fn sample(page: &str, text: &str) -> Repository {
    let files = [
        ("src/lib.rs", LIB),
        ("src/budget.rs", "/// # Defaults\npub struct Budget<T>;\nimpl Budget { pub fn new() {} }"),
        ("src/breaker/mod.rs", "mod state;\n//! # When not\npub struct Breaker;"),
        ("src/breaker/state.rs", "pub enum State { Open }"),
        ("src/guide.rs", GUIDE),
        ("src/chapters.md", "[`load`]: crate::guide::load"),
        ("docs/guide/guide.md", "[`load`]\n\n[`load`]: load.md"),
        ("docs/guide/load.md", LOAD),
        ("docs/fleet.svg", ""),
        (
            "README.md",
            "# One, `two` & three\n# One, `two` & three\n[Front] [Guide]\n\n\
            [Front]: docs/guide/load.md\n[Guide]: docs/guide/guide.md",
        ),
        ("DESIGN.md", "## Time"),
        ("lab/rivals/Cargo.toml", ""),
        ("crates/member/src/lib.rs", "#![doc = include_str!(\"../README.md\")]"),
        ("crates/member/README.md", ""),
        ("crates/member/fuzz/seed", ""),
    ];
    let mut files: BTreeMap<_, _> =
        files.into_iter().map(|(file, text)| (file.to_owned(), text.to_owned())).collect();
    files.insert(page.to_owned(), text.to_owned());
    let excluded = ["lab", "crates", "crates/member/fuzz"].map(str::to_owned).into();
    Repository { files, excluded }
}

#[test]
fn links_of_every_form_are_accepted() {
    let root = "[a](README.md) [b](README.md#one-two--three) [c](README.md#one-two--three-1) [d](#top)
![e](docs/fleet.svg 'title') [f][É] [`g`] \\[h] `[i](j)` [k](DESIGN.md#time) [l](https://example.com/#m)
<img src=\"docs/fleet.svg\"> [n](docs) [o](mailto:a@example.com)\n```\n[p](q)\n```\n# Top
[é]: DESIGN.md\n[`g`]: src/lib.rs";
    assert_eq!(sample("PAGE.md", root).faults("PAGE.md"), [""; 0]);
    let small = sample("PAGE.md", "");
    for page in small.pages() {
        assert_eq!(small.faults(page), [""; 0]);
    }
    let design = "[a](#top) ![b](docs/fleet.svg) ![b][c] [d](https://example.com)\n# Top\n[c]: docs/fleet.svg";
    assert_eq!(sample("DESIGN.md", design).faults("DESIGN.md"), [""; 0]);
    let below = "[a](../README.md) ![b](fleet.svg) [c](./guide/load.md)";
    assert_eq!(sample("docs/agent.md", below).faults("docs/agent.md"), [""; 0]);
    // The docs of a crate do not have a page of another one. They have a label for what they say of it.
    let labels =
        "[Front] [Guide]\n\n[Front]: crates/member/README.md\n[Guide]: crates/member/README.md";
    assert_eq!(sample("README.md", labels).faults("README.md"), [""; 0]);
    let up = "crates/member/CHANGELOG.md";
    assert_eq!(sample(up, "[a](../../README.md)").faults(up), [""; 0]);
    let beside = "[a](README.md)";
    let member = "crates/member/CHANGELOG.md";
    assert_eq!(sample(member, beside).faults(member), [""; 0]);
}

#[test]
fn a_broken_link_is_named_by_page_line_and_link() {
    let faults = sample("PAGE.md", "# A\n\n```\n[b](c)\n```\ntext [d](e.md)").faults("PAGE.md");
    assert_eq!(faults, ["PAGE.md:6: e.md: no such file: e.md"]);
    for link in [
        "[a](READ.md)",
        "![a](docs/none.svg)",
        "[![a](docs/none.svg)](README.md)",
        "<img src=\"docs/none.svg\">",
        "[a](#none)",
        "[a](README.md#none)",
        "[a](src/lib.rs#none)",
        "[a](lab/rivals/Cargo.toml)",
        "[a](lab)",
        "[a](crates/member/src/lib.rs)",
        "[a](crates/member/README.md#none)",
        "[a][b]",
        "[a][]",
        "## [Unreleased]",
        "[`a`]",
        "[a]\n\n[a]: none",
    ] {
        let faults = sample("PAGE.md", link).faults("PAGE.md");
        assert_eq!(faults.len(), 1, "{link}: {faults:?}");
    }
}

/// In rustdoc a relative link is dead. On the forge the path of an item and an id of rustdoc are.
#[test]
fn a_link_that_is_dead_in_one_of_its_places_is_found() {
    let load = "docs/guide/load.md";
    for (page, text, fault) in [
        (
            "README.md",
            "[Front] [a](DESIGN.md)\n\n[Front]: docs/guide/load.md",
            "is dead in rustdoc",
        ),
        (load, &*format!("[a](../fleet.svg)\n{LOAD}"), "is dead in rustdoc"),
        ("DESIGN.md", "[a](README.md)", "is dead in rustdoc"),
        ("crates/member/README.md", "[a](src/lib.rs)", "is dead in rustdoc"),
        (load, &*format!("[a](crate::Budget)\n{LOAD}"), "no such file"),
        (load, &*format!("[a](#storm)\n{LOAD}"), "no heading"),
        ("DESIGN.md", "[a](#storm)", "no heading"),
        ("crates/member/CHANGELOG.md", "[a](../../src/lib.rs)", "not in the package"),
        ("crates/member/CHANGELOG.md", "[a](fuzz/seed)", "not in the package"),
        ("README.md", "[Front]", "the label is not defined"),
        ("README.md", "[Front] [b]\n\n[Front]: docs/guide/load.md\n[b]: DESIGN.md", "for rustdoc"),
        ("README.md", "[a](https://example.com)", "no link has this label"),
        ("README.md", "[Front]\n\n[Front]: docs/guide/guide.md", "is in another chapter"),
        ("README.md", "[Guide]\n\n[Guide]: docs/guide/load.md", "is in another chapter"),
        (
            load,
            &*LOAD.replace("src/budget.rs", "src/lib.rs"),
            "is in src/budget, and not in src/lib.rs",
        ),
        (load, &*LOAD.replace("[`load`]: load.md", ""), "the label is not defined"),
        ("README.md", "[a](crates/member/README.md)", "is dead in rustdoc"),
        ("README.md", "[m]\n\n[m]: crates/member/README.md", "for rustdoc"),
        ("README.md", "[Front]\n\n[Front]: crates/member/README.md#none", "has no heading"),
        ("src/guide.rs", &*GUIDE.replace("crate::Budget", "crate::Nothing"), "for rustdoc"),
        ("src/guide.rs", &*GUIDE.replace("\\\"storm", "\\\"other"), "the docs have no `#storm`"),
        ("src/budget.rs", "pub struct Other;", "src/budget has no `Budget`"),
        ("src/breaker/mod.rs", "pub struct State;", "has no heading `when-not`"),
        ("src/chapters.md", "", "for rustdoc"),
    ] {
        let repository = sample(page, text);
        let page = if page.starts_with("src/") { load } else { page };
        let faults = repository.faults(page);
        assert!(faults.iter().any(|it| it.contains(fault)), "{page}: {text}: {faults:?}");
    }
}
