//! The charges of providers, in code and in a configuration file.

use resile::quota::Charge;
use resile_llm::charge;

#[test]
fn each_provider_charges_in_its_own_way() {
    for (charge, reserves, refunds, maximum, cache_read_weight) in [
        (Charge::ACTUAL, false, true, 0, 1.0),
        (charge::ANTHROPIC, false, true, 0, 0.0),
        (charge::BEDROCK, true, true, 64_000, 0.0),
        (charge::OPENAI, true, false, 0, 1.0),
        (charge::GROQ, false, true, 0, 0.0),
    ] {
        assert_eq!((charge.reserves_maximum(), charge.refunds()), (reserves, refunds));
        assert_eq!(charge.default_maximum(), maximum);
        assert_eq!(charge.cache_read_weight().to_bits(), f64::to_bits(cache_read_weight));
    }
    assert_eq!((charge::AZURE, charge::CEREBRAS), (charge::OPENAI, charge::OPENAI));
}

/// The documentation has a map for each constant, and the map makes the constant.
#[test]
fn the_map_of_a_configuration_file_makes_the_constant() {
    let docs = include_str!("../../src/charge.rs");
    let mut seen = Vec::new();
    for row in docs.lines().filter_map(|line| line.strip_prefix("//! | ")) {
        if let Some((names, map)) = row.split_once(" | `{") {
            seen.push((names, format!("{{{}", map.trim_end_matches("` |"))));
        }
    }
    let constants = [
        ("ANTHROPIC", charge::ANTHROPIC),
        ("BEDROCK", charge::BEDROCK),
        ("OPENAI", charge::OPENAI),
        ("AZURE", charge::AZURE),
        ("CEREBRAS", charge::CEREBRAS),
        ("GROQ", charge::GROQ),
    ];
    for (name, constant) in constants {
        let (_, map) = seen.iter().find(|(names, _)| names.contains(&format!("`{name}`"))).unwrap();
        assert_eq!(serde_json::from_str::<Charge>(map).unwrap(), constant, "{name}: {map}");
    }
}
