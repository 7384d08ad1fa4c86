//! Quotas from configuration.

use std::time::Duration;

use proptest::prelude::*;
use resile::quota::{Charge, Dimension, Learning, Rate};
use resile::{Quota, Upstream};
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
            "learning": "both",
            "shadow": true,
            "charge": { "maximum_reserved": true, "refund": false }
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
    assert_eq!(quota.charge(), super::NOT_REFUNDED);
    assert_eq!(quota.learning(), Learning::Both);
    assert!(quota.shadow().is_some());
}

#[test]
fn missing_settings_have_the_values_of_new() {
    assert_eq!(format!("{:?}", read("{}").unwrap()), format!("{:?}", Quota::new()));
    let charge: Charge = from_str("{}").unwrap();
    assert_eq!(charge, Charge::ACTUAL);
}

#[test]
fn the_settings_of_a_charge_come_in_any_order() {
    let text = r#"{ "charge": {
        "output_weight": 5, "cache_read_weight": 0.5, "default_maximum": 9,
        "cache_write_weight": 1.25, "refund": false, "maximum_reserved": true
    } }"#;
    let charge = super::NOT_REFUNDED.with_output_weight(5.0).with_cache_read_weight(0.5);
    let charge = charge.with_cache_write_weight(1.25).with_default_maximum(9);
    assert_eq!(read(text).unwrap().charge(), charge);
}

#[test]
fn an_error_names_the_setting_its_value_and_the_accepted_values() {
    let settings = "`maximum_reserved`, `refund`, `default_maximum`, `output_weight`, `cache_read_weight`, `cache_write_weight`";
    let table = [
        (r#"{ "requests": {} }"#, "missing field `count` of `requests`".to_owned()),
        (r#"{ "requests": { "count": 1 } }"#, "missing field `per` of `requests`".to_owned()),
        (
            r#"{ "requests": { "count": 0, "per": "1s" } }"#,
            "invalid value: integer `0`, expected `count` of `requests` to be a whole number from 1 to 4294967295".to_owned(),
        ),
        (
            r#"{ "requests": { "count": 1, "per": "0s" } }"#,
            "invalid value: string \"0s\", expected `per` of `requests` to be a duration above 0".to_owned(),
        ),
        (
            r#"{ "tokens": { "count": 5, "per": "1s", "burst": 0 } }"#,
            "invalid value: integer `0`, expected `burst` of `tokens` to be a whole number from 1 to 4294967295".to_owned(),
        ),
        (
            r#"{ "learning": "never" }"#,
            "invalid value: string \"never\", expected `learning` to be \"off\", \"lower\" or \"both\"".to_owned(),
        ),
        (
            r#"{ "charge": "actual" }"#,
            format!("invalid type: string \"actual\", expected `charge` to be a map of {settings}"),
        ),
        (
            r#"{ "charge": { "output_weight": -1 } }"#,
            "invalid value: floating point `-1.0`, expected `output_weight` of `charge` to be a number from 0 to 1000000".to_owned(),
        ),
        (
            r#"{ "charge": { "refunds": true } }"#,
            format!("unknown field `refunds` of `charge`, expected one of {settings}"),
        ),
        (
            r#"{ "charge": { "refund": 1 } }"#,
            "invalid type: integer `1`, expected `refund` of `charge` to be true or false".to_owned(),
        ),
        (
            r#"{ "rate": 5 }"#,
            "unknown field `rate`, expected one of `requests`, `input`, `output`, `tokens`, `concurrency`, `queue`, `learning`, `shadow`, `charge`".to_owned(),
        ),
    ];
    for (text, message) in table {
        assert_eq!(read(text).unwrap_err(), message, "{text}");
    }
}

/// A unit of the short form of a rate.
type Unit = (&'static str, fn(u64) -> Rate);

const UNITS: [Unit; 10] = [
    ("s", Rate::per_second),
    ("sec", Rate::per_second),
    ("second", Rate::per_second),
    ("m", Rate::per_minute),
    ("min", Rate::per_minute),
    ("minute", Rate::per_minute),
    ("h", Rate::per_hour),
    ("hour", Rate::per_hour),
    ("d", Rate::per_day),
    ("day", Rate::per_day),
];

/// Writes a number with an underscore before each group of three digits.
fn grouped(n: u32) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 {
            text.push('_');
        }
        text.push(digit);
    }
    text
}

proptest! {
    #[test]
    fn a_rate_may_be_text_in_every_dimension(
        count in 1..=u32::MAX, unit in proptest::sample::select(&UNITS), dimension in 0..4_usize,
    ) {
        let dimension = Dimension::ALL[dimension];
        let (name, rate) = unit;
        for text in [
            format!("{count}/{name}"),
            format!("{}/{name}", grouped(count)),
            format!("{count} / {name}"),
            format!("{count} per {name}"),
        ] {
            let quota = read(&format!(r#"{{ "{}": "{text}" }}"#, dimension.as_str()));
            prop_assert_eq!(quota.unwrap().rate(dimension), Some(rate(u64::from(count))), "{}", text);
        }
    }

    #[test]
    fn any_text_is_a_rate_or_an_error_that_names_the_setting(text in "[0-9_ /a-z-]{0,12}") {
        let document = serde_json::json!({ "tokens": text });
        match serde_json::from_value::<Quota>(document) {
            Ok(quota) => prop_assert!(quota.rate(Dimension::Tokens).unwrap().count() > 0),
            Err(error) => prop_assert!(error.to_string().contains("expected `tokens`"), "{error}"),
        }
    }
}

#[test]
fn the_error_of_a_rate_names_the_setting_and_shows_an_example() {
    let right = "expected `requests` to be a rate above 0 per s, min, h or day, such as \"500/min\", or a map of `count`, `per`, `burst`";
    for wrong in [
        "",
        "500",
        "/min",
        "500/",
        "500/week",
        "0/min",
        "-5/min",
        "1.5/s",
        "5e3/s",
        "10,000/min",
        "_5/s",
        "5_/s",
        "_/s",
        "4294967296/s",
        "500/min/s",
        "500 per",
        "500/MIN",
        "five/min",
    ] {
        let message = read(&format!(r#"{{ "requests": "{wrong}" }}"#)).unwrap_err();
        assert_eq!(message, format!("invalid value: string \"{wrong}\", {right}"));
    }
    let message = read(r#"{ "requests": 500 }"#).unwrap_err();
    assert_eq!(message, format!("invalid type: integer `500`, {right}"));
}
