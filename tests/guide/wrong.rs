//! The ten wrong retries: the programs, their lines of the log and their numbers are those of the page.

use crate::log;
use crate::page::{Block, blocks, read};

/// A program of the folder `wrong`.
macro_rules! program {
    ($name:ident) => {
        #[allow(clippy::unused_async, reason = "a stand-in waits for nothing")]
        mod $name {
            include!(concat!("wrong/", stringify!($name), ".rs"));
            pub(super) fn run() {
                main();
            }
        }
    };
}

program!(hint_ignored);
program!(hint_too_long);
program!(nested);
program!(no_cap);
program!(no_delay);
program!(no_jitter);
program!(post_twice);
program!(transaction);
program!(truncated);
program!(unauthorized);

/// A program with its name.
type Program = (&'static str, fn());

/// The pages, each with its programs in their order.
const PAGES: [(&str, [Program; 5]); 2] = [
    (
        "wrong_retries",
        [
            ("no_cap", no_cap::run),
            ("no_delay", no_delay::run),
            ("no_jitter", no_jitter::run),
            ("nested", nested::run),
            ("hint_ignored", hint_ignored::run),
        ],
    ),
    (
        "wrong_results",
        [
            ("hint_too_long", hint_too_long::run),
            ("unauthorized", unauthorized::run),
            ("post_twice", post_twice::run),
            ("truncated", truncated::run),
            ("transaction", transaction::run),
        ],
    ),
];

/// The section of a program on its page.
struct Section {
    text: String,
    program: String,
    /// The lines of its log. A `…` stands for any number of lines.
    log: Vec<String>,
}

/// Returns the sections of a page that have a program.
fn sections(page: &str) -> Vec<Section> {
    let sections = page.split("\n# ").map(|text| (text, blocks(text)));
    let of = |blocks: &[Block], language: &str| -> String {
        blocks.iter().filter(|it| it.language == language).map(|it| &*it.text).collect()
    };
    sections
        .map(|(text, blocks)| Section {
            text: text.to_owned(),
            program: of(&blocks, "rust"),
            log: of(&blocks, "text").lines().map(as_on_the_page).collect(),
        })
        .filter(|section| !section.program.is_empty())
        .collect()
}

/// Returns a line without its random delay, and with the file of a reader. A delay may be below 1 ms, or so close
/// to the wait of the upstream that the line does not name the wait a second time.
fn as_on_the_page(line: &str) -> String {
    let line = line.replace("retrying within 1ms: ", "retrying in 1ms: ");
    let line =
        line.replace(", as the upstream asked: ", ", the upstream asked for a wait of 1.0s: ");
    let words = line.split(' ').map(|word| {
        let is_time = word.starts_with(|c: char| c.is_ascii_digit())
            && ["s", "s:", "s,", "s)"].iter().any(|unit| word.ends_with(unit));
        let place = word.rsplit_once(".rs:").map(|(_, place)| format!("src/main.rs:{place}"));
        place.unwrap_or_else(|| if is_time { "…".to_owned() } else { word.to_owned() })
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Returns whether `shown` are the lines of `log`, where a line `…` stands for any number of them.
fn shows(shown: &[String], log: &[String]) -> bool {
    match (shown, log) {
        ([], log) => log.is_empty(),
        ([first, rest @ ..], log) if first == "…" => {
            (0..=log.len()).any(|from| shows(rest, &log[from..]))
        }
        ([first, rest @ ..], [line, log @ ..]) => first == line && shows(rest, log),
        _ => false,
    }
}

/// Returns the numbers of a text without the commas or underscores within them.
fn numbers(text: &str) -> Vec<String> {
    let text = text.replace(['_', ','], "");
    let words = text.split(|c: char| !c.is_ascii_digit()).filter(|word| !word.is_empty());
    words.map(str::to_owned).collect()
}

#[test]
fn each_program_of_a_page_does_and_logs_what_the_page_says() {
    for (page, programs) in PAGES {
        let sections = sections(&read(&format!("docs/guide/{page}.md")));
        assert_eq!(sections.len(), programs.len(), "{page}");
        for (section, (name, run)) in sections.iter().zip(programs) {
            assert_eq!(section.program, read(&format!("tests/guide/wrong/{name}.rs")), "{name}");
            // A random delay may be drawn as zero.
            let has_delays = !section.text.contains("retrying at once");
            let drawn = |line: &String| {
                if has_delays {
                    line.replace("retrying at once: ", "retrying in 0ms: ")
                } else {
                    line.clone()
                }
            };
            let log = log::of(run).into_iter();
            let log: Vec<_> = log.map(|line| as_on_the_page(&drawn(&line))).collect();
            // Hundreds of lines without an order are not on the page.
            assert!(name == "no_jitter" || shows(&section.log, &log), "{name}: {log:#?}");
            assert_eq!(section.log.is_empty(), name == "no_jitter", "{name}");
        }
    }
}

#[test]
fn the_numbers_of_a_page_are_those_of_its_programs() {
    for (page, _) in PAGES {
        for Section { text, program, .. } in sections(&read(&format!("docs/guide/{page}.md"))) {
            let title = text.lines().next().unwrap().to_owned();
            let bold: Vec<_> = text.split("**").skip(1).step_by(2).collect();
            let (mended, claims): (Vec<_>, Vec<_>) =
                bold.into_iter().partition(|it| *it == "Mended:");
            assert_eq!((mended.len(), claims.len()), (1, 1), "{title}");
            let asserts = program.lines().filter(|line| line.contains("assert"));
            let asserted: Vec<_> = asserts.flat_map(numbers).collect();
            let claimed = numbers(claims[0]);
            assert!(!claimed.is_empty(), "{title}");
            for number in claimed {
                assert!(asserted.contains(&number), "{title}: {number} is not asserted");
            }
        }
    }
}

#[test]
fn a_log_that_differs_is_found() {
    let lines = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    for (shown, log, is_so) in [
        ("a b", "a b", true),
        ("a", "a b", false),
        ("a b", "a", false),
        ("a … c", "a b b c", true),
        ("a … c", "a c", true),
        ("… c", "a b", false),
    ] {
        assert_eq!(shows(&lines(shown), &lines(log)), is_so, "{shown} {log}");
    }
    let line =
        "WARN a: retrying in 2.9ms, the upstream asked for a wait of 30.0s: at /x/y.rs:3:4: b";
    let page = "WARN a: retrying in … the upstream asked for a wait of … at src/main.rs:3:4: b";
    assert_eq!(as_on_the_page(line), page);
    let line = "WARN a: retrying in 30.0s, as the upstream asked: at /x/y.rs:3:4: b";
    assert_eq!(as_on_the_page(line), page);
}
