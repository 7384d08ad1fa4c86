//! Quotas from configuration.

use std::time::Duration;

use resile::Upstream;
use resile::quota::{Charge, Dimension, Estimate, Quota, Rate};
use serde_json::from_str;

fn read(text: &str) -> Result<Quota, String> {
    from_str(text).map_err(|error: serde_json::Error| {
        let error = error.to_string();
        error.rsplit_once(" at line ").map_or(error.clone(), |(message, _)| message.to_owned())
    })
}

#[test]
fn a_whole_quota_is_read() {
    let text = r#"{
        "name": "model",
        "quota": {
            "requests": { "count": 4000, "per": "1m" },
            "input": { "burst": 50, "per": "1s", "count": 100 },
            "output": { "count": 7, "per": "1h" },
            "tokens": { "count": 9, "per": "1d" },
            "concurrency": 64,
            "queue": 5,
            "charge": "openai",
            "estimate": { "quantile": 0.5, "samples": 2 }
        }
    }"#
    .replace("1d", "24h");
    let upstream: Upstream = from_str(&text).unwrap();
    let quota = upstream.quota().unwrap();
    let day = Duration::from_secs(24 * 60 * 60);
    assert_eq!(quota.rate(Dimension::Requests), Some(Rate::per_minute(4_000)));
    assert_eq!(quota.rate(Dimension::Input), Some(Rate::per_second(100).with_burst(50)));
    assert_eq!(quota.rate(Dimension::Output), Some(Rate::per_hour(7)));
    assert_eq!(quota.rate(Dimension::Tokens), Some(Rate::new(9, day)));
    assert_eq!((quota.concurrency(), quota.queue()), (Some(64), 5));
    assert_eq!(quota.charge(), Charge::OPENAI);
    (0..2).for_each(|_| quota.estimate().record(0, 10));
    assert_eq!(quota.estimate().output(), Some(11), "two samples are enough");
}

#[test]
fn missing_settings_have_the_values_of_new() {
    assert_eq!(format!("{:?}", read("{}").unwrap()), format!("{:?}", Quota::new()));
    let estimate: Estimate = from_str("{}").unwrap();
    assert_eq!(format!("{estimate:?}"), format!("{:?}", Estimate::new()));
    let like = read(r#"{ "charge": { "like": "anthropic" } }"#).unwrap();
    assert_eq!(like.charge(), Charge::ANTHROPIC);
}

#[test]
fn the_settings_of_a_charge_replace_those_of_its_preset_in_any_order() {
    let text = r#"{ "charge": {
        "output_weight": 5, "cache_read_weight": 0.5, "default_maximum": 9,
        "cache_write_weight": 1.25, "like": "bedrock"
    } }"#;
    let charge = Charge::BEDROCK.with_output_weight(5.0).with_cache_read_weight(0.5);
    let charge = charge.with_cache_write_weight(1.25).with_default_maximum(9);
    assert_eq!(read(text).unwrap().charge(), charge);
}

#[test]
fn an_error_names_the_setting_its_value_and_the_accepted_values() {
    let presets = r#"`charge` to be "actual", "anthropic", "bedrock", "openai", "azure", "cerebras", "groq", or a map of `like`, `output_weight`, `cache_read_weight`, `cache_write_weight`, `default_maximum`"#;
    let table = [
        (r#"{ "requests": {} }"#, "missing field `count`".to_owned()),
        (r#"{ "requests": { "count": 1 } }"#, "missing field `per`".to_owned()),
        (
            r#"{ "requests": { "count": 0, "per": "1s" } }"#,
            "invalid value: integer `0`, expected `count` to be a whole number from 1 to 4294967295".to_owned(),
        ),
        (
            r#"{ "requests": { "count": 1, "per": "0s" } }"#,
            "invalid value: string \"0s\", expected `per` to be a duration above 0".to_owned(),
        ),
        (
            r#"{ "tokens": { "count": 5, "per": "1s", "burst": 0 } }"#,
            "invalid value: integer `0`, expected `burst` to be a whole number from 1 to 4294967295".to_owned(),
        ),
        (
            r#"{ "charge": "claude" }"#,
            format!("invalid value: string \"claude\", expected {presets}"),
        ),
        (
            r#"{ "charge": { "output_weight": -1 } }"#,
            "invalid value: floating point `-1.0`, expected `output_weight` to be a number from 0 to 1000000".to_owned(),
        ),
        (
            r#"{ "estimate": { "quantile": 2 } }"#,
            "invalid value: floating point `2.0`, expected `quantile` to be a number from 0 to 1".to_owned(),
        ),
        (
            r#"{ "rate": 5 }"#,
            "unknown field `rate`, expected one of `requests`, `input`, `output`, `tokens`, `concurrency`, `queue`, `charge`, `estimate`".to_owned(),
        ),
    ];
    for (text, message) in table {
        assert_eq!(read(text).unwrap_err(), message, "{text}");
    }
}
