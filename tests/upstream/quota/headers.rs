//! `resile::http::limits`: the limits in the headers of answers.

use std::time::{Duration, SystemTime};

use ::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use proptest::prelude::*;
use resile::http::{learn, limits};
use resile::quota::{Dimension, Limit, Limits};

/// 2025-10-09 08:53:20 UTC.
const NOW: u64 = 1_760_000_000;

/// The number of an absent header.
const NONE: Option<u64> = None;

fn headers(fields: &[(&str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        headers.append(
            name.parse::<HeaderName>().unwrap(),
            HeaderValue::from_bytes(value.as_bytes()).unwrap(),
        );
    }
    headers
}

fn read_at(status: u16, fields: &[(&str, &str)]) -> Limits {
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(NOW);
    limits(StatusCode::from_u16(status).unwrap(), &headers(fields), now)
}

fn read(fields: &[(&str, &str)]) -> Limits {
    read_at(200, fields)
}

/// Returns the limit, the remaining number and the seconds to the reset of one dimension.
fn of(limits: &Limits, dimension: Dimension) -> [Option<u64>; 3] {
    let Limit { limit, remaining, reset, .. } = limits.get(dimension);
    [limit, remaining, reset.map(|reset| reset.as_secs())]
}

#[test]
fn the_shortest_window_counts() {
    for reversed in [false, true] {
        let mut fields = [
            ("x-ratelimit-limit-tokens-day", "1000000"),
            ("x-ratelimit-remaining-tokens-day", "5"),
            ("x-ratelimit-limit-tokens-minute", "60000"),
            ("x-ratelimit-remaining-tokens-minute", "59000"),
            ("x-ratelimit-remaining-requests-day", "14400"),
            ("x-ratelimit-tokens-query-cost", "52"),
        ];
        if reversed {
            fields.reverse();
        }
        let found = read(&fields);
        assert_eq!(of(&found, Dimension::Tokens), [Some(60_000), Some(59_000), NONE]);
        assert_eq!(of(&found, Dimension::Requests), [NONE, Some(14_400), NONE]);
        let window = |dimension| found.get(dimension).window.map(|window| window.as_secs());
        assert_eq!(window(Dimension::Tokens), Some(60));
        assert_eq!(window(Dimension::Requests), Some(24 * 60 * 60));
        assert_eq!(window(Dimension::Input), None);
    }
    // An unreadable number does not hide the number of a longer window.
    let found = read(&[
        ("x-ratelimit-remaining-requests-minute", "-1"),
        ("x-ratelimit-remaining-requests-hour", "717"),
    ]);
    assert_eq!(of(&found, Dimension::Requests), [NONE, Some(717), NONE]);
}

#[test]
fn a_name_may_have_a_dimension() {
    let found = read(&[
        ("x-ratelimit-limit-requests", "5000"),
        ("x-ratelimit-remaining-requests", "4999"),
        ("x-ratelimit-reset-requests", "360"),
        ("x-ratelimit-remaining-tokens", "159976"),
        ("x-ratelimit-remaining-input-tokens", "80"),
        ("x-ratelimit-remaining-output-tokens", "16"),
        ("x-ratelimit-remaining-project-tokens", "1"),
        ("x-ratelimit-limit-tokens_usage_based", "1"),
    ]);
    assert_eq!(of(&found, Dimension::Requests), [Some(5_000), Some(4_999), Some(360)]);
    assert_eq!(found.get(Dimension::Requests).window, None);
    assert_eq!(of(&found, Dimension::Tokens), [NONE, Some(159_976), NONE]);
    assert_eq!(of(&found, Dimension::Input), [NONE, Some(80), NONE]);
    assert_eq!(of(&found, Dimension::Output), [NONE, Some(16), NONE]);
}

#[test]
fn a_reset_may_be_a_moment() {
    let github = read(&[("x-ratelimit-remaining", "59"), ("x-ratelimit-reset", "1760000060")]);
    assert_eq!(of(&github, Dimension::Requests), [NONE, Some(59), Some(60)]);
    let dated = read(&[
        ("date", "Thu, 09 Oct 2025 08:53:10 GMT"),
        ("x-ratelimit-remaining", "59"),
        ("x-ratelimit-reset", "1760000020"),
    ]);
    assert_eq!(of(&dated, Dimension::Requests), [NONE, Some(59), Some(30)]);
}

#[test]
fn service_limits_have_policies() {
    let found = read(&[
        ("ratelimit-policy", "\"hour\";q=1000;w=3600, \"minute\";q=100;w=60"),
        (
            "ratelimit-policy",
            "\"in\";q=80000;w=60;qu=\"input-tokens\", \"size\";q=1;qu=\"content-bytes\"",
        ),
        ("ratelimit", "\"minute\";r=40;t=12;pk=:cGs=:, \"hour\";r=1;t=3000"),
        ("ratelimit", "\"in\";r=79000, \"size\";r=1, \"output-tokens\";r=300"),
    ]);
    assert_eq!(of(&found, Dimension::Requests), [Some(100), Some(40), Some(12)]);
    assert_eq!(of(&found, Dimension::Input), [Some(80_000), Some(79_000), NONE]);
    assert_eq!(of(&found, Dimension::Output), [NONE, Some(300), NONE]);
    assert_eq!(of(&found, Dimension::Tokens), [NONE; 3]);
    for (name, unit, dimension) in [
        ("default", "requests", Some(Dimension::Requests)),
        ("tokens", "requests", Some(Dimension::Requests)),
        ("default", "tokens", Some(Dimension::Tokens)),
        ("prompt", "tokens", Some(Dimension::Input)),
        ("default", "Output-Tokens", Some(Dimension::Output)),
        ("default", "concurrent-requests", None),
        ("default", "content-bytes", None),
        ("default", "images", None),
    ] {
        let policy = format!("\"{name}\";q=10;qu=\"{unit}\"");
        let found =
            read(&[("ratelimit-policy", &policy), ("ratelimit", &format!("\"{name}\";r=7"))]);
        for other in Dimension::ALL {
            let expected = (dimension == Some(other)).then_some(7);
            assert_eq!(found.get(other).remaining, expected, "{name} {unit} {other:?}");
        }
    }
}

#[test]
fn older_drafts_are_read() {
    let fields = read(&[
        ("ratelimit-limit", "100, 100;w=60"),
        ("ratelimit-remaining", "50"),
        ("ratelimit-reset", "30"),
    ]);
    assert_eq!(of(&fields, Dimension::Requests), [Some(100), Some(50), Some(30)]);
    let dictionary = read(&[
        ("ratelimit-policy", "100;w=60"),
        ("ratelimit", "limit=100, remaining=50, reset=30"),
    ]);
    assert_eq!(of(&dictionary, Dimension::Requests), [Some(100), Some(50), Some(30)]);
}

#[test]
fn unknown_numbers_are_absent() {
    let unknown = [
        ("x-ratelimit-limit-tokens", "-1"),
        ("x-ratelimit-remaining-tokens", "-1"),
        ("x-ratelimit-reset-tokens", "0"),
        ("ratelimit", "\"a\";r=-1"),
    ];
    for status in [200, 429] {
        assert_eq!(read_at(status, &unknown), Limits::new(), "{status}");
    }
    let zero = [
        ("x-ratelimit-limit-tokens", "0"),
        ("x-ratelimit-remaining-tokens", "0"),
        ("ratelimit", "\"a\";r=0"),
    ];
    assert!(read_at(200, &zero).is_empty() && read_at(399, &zero).is_empty());
    let refused = read_at(429, &zero);
    assert_eq!(refused.get(Dimension::Tokens).remaining, Some(0));
    assert_eq!(refused.get(Dimension::Requests).remaining, Some(0));
    for text in ["", " ", "many", "NaN", "inf", "1e9", "0x10", "+5", "5 of 10", "\u{00a0}5"] {
        assert_eq!(read(&[("x-ratelimit-remaining", text)]), Limits::new(), "{text:?}");
    }
}

#[test]
fn the_smaller_of_two_numbers_counts() {
    let found = read(&[
        ("x-ratelimit-remaining", "9"),
        ("x-ratelimit-remaining", "7"),
        ("ratelimit", "\"a\";r=8;t=3"),
    ]);
    assert_eq!(of(&found, Dimension::Requests), [NONE, Some(7), Some(3)]);
}

#[test]
fn outside_of_an_attempt_nothing_is_learned() {
    assert!(!learn(StatusCode::OK, &headers(&[("x-ratelimit-remaining", "7")])));
    assert!(!learn(StatusCode::OK, &HeaderMap::new()));
}

fn fields() -> impl Strategy<Value = Vec<(&'static str, Vec<u8>)>> {
    let names = prop::sample::select(vec![
        "date",
        "ratelimit",
        "ratelimit-policy",
        "ratelimit-remaining",
        "x-ratelimit-remaining",
        "x-ratelimit-limit-tokens-minute",
        "x-ratelimit-reset-requests",
        "x-ratelimit-reset-input-tokens",
    ]);
    let soup = prop::sample::select(vec![
        "\"",
        "\\",
        ";",
        ",",
        "=",
        "r=",
        "q",
        "qu=",
        "w=60",
        "t=",
        "0",
        "-",
        "9",
        ".",
        "6m",
        "é",
        "tokens",
        "a",
        " ",
        "99999999999999999999",
    ]);
    let soup = prop::collection::vec(soup, 0..24).prop_map(|words| words.concat().into_bytes());
    let bytes = prop::collection::vec(any::<u8>(), 0..64);
    prop::collection::vec((names, prop_oneof![soup, bytes]), 0..6)
}

proptest! {
    /// Any bytes are read without a panic, and no reset is zero.
    #[test]
    fn any_headers_are_read(fields in fields(), status in 100..1000_u16, now in 0..4_000_000_000_u64) {
        let mut headers = HeaderMap::new();
        for (name, value) in &fields {
            if let Ok(value) = HeaderValue::from_bytes(value) {
                headers.append(*name, value);
            }
        }
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(now);
        let found = limits(StatusCode::from_u16(status).unwrap(), &headers, now);
        for dimension in Dimension::ALL {
            let limit = found.get(dimension);
            prop_assert!(limit.reset.is_none_or(|reset| !reset.is_zero()));
            prop_assert!(status >= 400 || (limit.remaining != Some(0) && limit.limit != Some(0)));
        }
        learn(StatusCode::from_u16(status).unwrap(), &headers);
    }
}
