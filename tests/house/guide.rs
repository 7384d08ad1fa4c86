//! The guides in `docs/guide/`: their programs can be pasted, and their pictures show in rustdoc.

use std::fs;
use std::path::Path;

/// The chapters in their order, with the page after the last one.
const CHAPTERS: [&str; 19] = [
    "first_call",
    "classifying",
    "timeouts",
    "load",
    "ends",
    "configuration",
    "observing",
    "streams",
    "quotas",
    "fleet",
    "testing",
    "runtimes",
    "clients",
    "migrating",
    "cookbook",
    "wrong_retries",
    "wrong_results",
    "operating",
    "design",
];

/// The chapters of `resile-llm`, with the page after the last one.
const LLM_CHAPTERS: [&str; 5] = ["failures", "streams", "sdks", "quotas", "rules"];

/// The folder of a package, and its chapters with the page after the last one.
const GUIDES: [(&str, &[&str]); 2] = [("", &CHAPTERS), ("crates/resile-llm/", &LLM_CHAPTERS)];

/// Returns the chapters of all guides, each with its page.
fn chapters() -> impl Iterator<Item = (&'static str, String)> {
    GUIDES.into_iter().flat_map(|(package, chapters)| {
        let chapters = chapters.split_last().unwrap().1.iter();
        chapters.map(move |name| (*name, read(&format!("{package}docs/guide/{name}.md"))))
    })
}

fn read(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// The blocks of code of a page, each with its language and its lines.
fn blocks(page: &str) -> Vec<(&str, Vec<&str>)> {
    let (mut blocks, mut is_open) = (Vec::new(), false);
    for line in page.lines() {
        match line.strip_prefix("```") {
            Some(language) if !is_open => blocks.push((language, Vec::new())),
            Some(_) => {}
            None if is_open => blocks.last_mut().unwrap().1.push(line),
            None => continue,
        }
        is_open = line.starts_with("```") != is_open;
    }
    blocks
}

/// Returns what keeps a reader from pasting the programs of a chapter.
fn faults(chapter: &str, page: &str) -> Vec<String> {
    let blocks = blocks(page);
    let mut faults = Vec::new();
    if !blocks.iter().any(|(language, _)| *language == "toml") {
        faults.push(format!("{chapter}: no Cargo.toml"));
    }
    for (language, lines) in blocks {
        if !["toml", "text", "rust", "rust,no_run", "rust,ignore"].contains(&language) {
            faults.push(format!("{chapter}: a block of `{language}`"));
        }
        if !language.starts_with("rust") {
            continue;
        }
        if !lines.iter().any(|line| line.contains("fn main()")) {
            faults.push(format!("{chapter}: a program without `fn main`"));
        }
        for line in lines {
            if line.starts_with("# ") {
                faults.push(format!("{chapter}: a hidden line: {line}"));
            }
            if line.chars().count() > 80 {
                faults.push(format!("{chapter}: more than 80 columns: {line}"));
            }
        }
    }
    faults
}

#[test]
fn programs_of_the_guide_can_be_pasted() {
    let all: Vec<_> = chapters().flat_map(|(chapter, page)| faults(chapter, &page)).collect();
    assert!(all.is_empty(), "{}", all.join("\n"));
}

#[test]
fn programs_that_cannot_be_pasted_are_found() {
    let toml = "```toml\n[dependencies]\n```\n";
    let long = format!("```rust\nfn main() {{}} // {}\n```", "x".repeat(80));
    for (page, count) in [
        ("```rust\nfn main() {}\n```".to_owned(), 1),
        (format!("{toml}```rust\nuse std::io;\n```"), 1),
        (format!("{toml}```rust\n# use std::io;\nfn main() {{}}\n```"), 1),
        (format!("{toml}```\nfn main() {{}}\n```"), 1),
        (format!("{toml}{long}"), 1),
        (format!("{toml}```rust,no_run\nfn main() {{}}\n```"), 0),
    ] {
        assert_eq!(faults("x", &page).len(), count, "{page}");
    }
}

/// The crate depends neither on its members nor on SDKs, so `ignore` keeps the doc tests from such
/// programs. The other packages compile them.
#[test]
fn a_program_that_is_not_compiled_here_is_compiled_elsewhere() {
    let essence = |text: &str| text.replace(|c: char| c.is_whitespace() || c == ',', "");
    let mut left = vec![
        ("fleet", "crates/resile-redis/examples/share.rs"),
        ("fleet", "crates/resile-redis/examples/stop.rs"),
        ("runtimes", "lab/runtimes/examples/smol.rs"),
        ("runtimes", "tests/runtimes/page.rs"),
        ("operating", "lab/operating/src/main.rs"),
        ("migrating", "crates/resile-tower/tests/tower/migrating/program.rs"),
        ("streams", "crates/resile-llm/examples/chat/program.rs"),
        ("sdks", "lab/sdks/programs/async_openai.rs"),
        ("sdks", "lab/sdks/programs/genai.rs"),
        ("sdks", "lab/sdks/programs/rig.rs"),
        ("sdks", "lab/sdks/programs/bedrock.rs"),
        ("sdks", "lab/sdks/programs/ollama.rs"),
        ("sdks", "lab/sdks/programs/misanthropic.rs"),
        ("sdks", "lab/sdks/programs/gemini.rs"),
        ("sdks", "lab/sdks/programs/rmcp.rs"),
        ("sdks", "lab/sdks/programs/reqwest_0_12.rs"),
        ("sdks", "lab/sdks/programs/dyn_error.rs"),
    ];
    for (chapter, page) in chapters() {
        for (_, lines) in blocks(&page).iter().filter(|(language, _)| *language == "rust,ignore") {
            let text = essence(&lines.concat());
            let same =
                left.iter().position(|(of, file)| *of == chapter && essence(&read(file)) == text);
            left.remove(same.unwrap_or_else(|| panic!("{chapter}: {}", lines.join("\n"))));
        }
    }
    assert!(left.is_empty(), "not in the guide: {left:?}");
}

#[test]
fn each_chapter_leads_to_the_next() {
    for (package, chapters) in GUIDES {
        let front = read(&format!("{package}docs/guide/guide.md"));
        let module = read(&format!("{package}src/guide.rs"));
        let mut rest = front.as_str();
        for pair in chapters.windows(2) {
            let page = read(&format!("{package}docs/guide/{}.md", pair[0]));
            let next = format!("Next: [`{}`]", pair[1]);
            // Pictures stand between the text of a chapter and its last line.
            assert!(page.contains(&next) || module.contains(&next), "{} to {}", pair[0], pair[1]);
            let listed = rest.find(&format!(". [`{}`]", pair[0]));
            rest = &rest[listed.unwrap_or_else(|| panic!("{} is not listed", pair[0]))..];
        }
    }
}

/// rustdoc ends raw HTML at the first blank line.
#[test]
fn pictures_of_the_guide_are_whole() {
    let pictures = [
        "parts",
        "collapse",
        "storm",
        "fleet",
        "quota",
        "priority",
        "fleet-redis",
        "limit",
        "which-part",
    ];
    for picture in pictures {
        let svg = read(&format!("docs/{picture}.svg"));
        assert!(svg.starts_with("<svg "), "{picture}");
        assert!(svg.lines().all(|line| !line.trim().is_empty()), "{picture}: a blank line");
        assert!(!svg.contains(" id="), "{picture}: an id, which another picture may have");
    }
}

/// Returns the text without the breaks of its lines.
fn unwrapped(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The programs of the chapter print the text of the block that follows.
#[test]
fn the_errors_of_the_configuration_chapter_are_those_of_the_code() {
    use resile::{RetryPolicy, Upstream};
    use serde_json::from_str;

    let page = read("docs/guide/configuration.md");
    let blocks = blocks(&page);
    let mut counts = Vec::new();
    for pair in blocks.windows(2) {
        let [(program, lines), (output, printed)] = pair else { unreachable!() };
        if (*program, *output) != ("rust", "text") {
            continue;
        }
        let mut errors = Vec::new();
        let mut text = None;
        for line in lines {
            if let Some((_, rest)) = line.split_once("r#\"") {
                text = Some(rest.split_once("\"#").unwrap().0);
            } else if line.contains("from_str::<RetryPolicy>") {
                errors.push(from_str::<RetryPolicy>(text.unwrap()).unwrap_err().to_string());
            } else if line.contains("from_str::<Upstream>") {
                errors.push(from_str::<Upstream>(text.unwrap()).unwrap_err().to_string());
            }
        }
        assert_eq!(unwrapped(&printed.join(" ")), unwrapped(&errors.join(" ")));
        counts.push(errors.len());
    }
    assert_eq!(counts, [3, 1], "the numbers of errors");
}
