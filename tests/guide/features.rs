//! The dependencies that a page names have the features that its programs need.

use std::fs;
use std::path::Path;

use super::page::{Block, blocks, read};

/// Words of a program, and the features of which it needs one.
const NEEDS: [(&str, &[&str]); 8] = [
    ("resile::chaos", &["chaos"]),
    ("resile::config", &["serde"]),
    ("resile::http", &["http", "reqwest"]),
    ("error_for_status", &["reqwest"]),
    ("resile::stream", &["stream"]),
    ("retry_stream(", &["stream"]),
    ("StreamResilienceExt", &["stream"]),
    ("observe::Metrics", &["metrics"]),
];

/// Returns the features of `resile` that the dependencies of a page have.
fn features(blocks: &[Block]) -> String {
    let toml = blocks.iter().filter(|block| block.language.starts_with("toml"));
    let lines = toml.flat_map(|block| block.text.lines());
    lines.filter(|line| line.starts_with("resile =")).collect()
}

#[test]
fn the_dependencies_of_a_page_have_the_features_of_its_programs() {
    let mut count = 0;
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/guide")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let blocks = blocks(&read(&format!("docs/guide/{name}")));
        let features = features(&blocks);
        if features.is_empty() {
            continue;
        }
        for block in blocks.iter().filter(|block| block.language.starts_with("rust")) {
            for (words, wanted) in NEEDS.iter().filter(|(words, _)| block.text.contains(words)) {
                count += 1;
                let has = |feature: &&str| features.contains(&format!("\"{feature}\""));
                assert!(wanted.iter().any(has), "{name}: {words} needs one of {wanted:?}");
            }
        }
    }
    assert!(count > 20, "{count}");
}
