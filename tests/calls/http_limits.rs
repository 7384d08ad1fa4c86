//! Edges of the headers of rate limits: windows, and items that stand twice.

use std::time::{Duration, SystemTime};

use ::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use resile::classify::Cut;
use resile::http::headers::{date, rate_limit_reset, retry_after_secs};
use resile::http::{Classifier, limits};
use resile::quota::{Dimension, Limit};
use resile::{Classify, Verdict};

use super::refusing::refusing;

fn requests(fields: &[(&str, &str)]) -> Limit {
    let field = |(name, value): &(&str, &str)| {
        (name.parse::<HeaderName>().unwrap(), value.parse::<HeaderValue>().unwrap())
    };
    let headers: HeaderMap = fields.iter().map(field).collect();
    limits(StatusCode::OK, &headers, SystemTime::UNIX_EPOCH).get(Dimension::Requests)
}

/// Returns the limit, the remaining number and the reset.
fn numbers(fields: &[(&str, &str)]) -> (Option<u64>, Option<u64>, Option<Duration>) {
    let Limit { limit, remaining, reset, .. } = requests(fields);
    (limit, remaining, reset)
}

#[test]
fn the_shortest_window_counts() {
    let names = ["second", "minute", "hour", "day"];
    for shortest in 0..names.len() {
        let fields: Vec<_> = (shortest..names.len())
            .map(|at| (format!("x-ratelimit-limit-requests-{}", names[at]), (at + 1).to_string()))
            .collect();
        let fields: Vec<_> =
            fields.iter().rev().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let own = u64::try_from(shortest + 1).unwrap();
        assert_eq!(numbers(&fields).0, Some(own), "{fields:?}");
    }
}

#[test]
fn an_hour_and_a_day_are_compared_with_windows_in_seconds() {
    for (name, window, is_shorter) in [
        ("hour", 3_599, true),
        ("hour", 3_601, false),
        ("day", 86_399, true),
        ("day", 86_401, false),
    ] {
        let field = format!("x-ratelimit-remaining-requests-{name}");
        let policy = format!(r#""a";q=50;w={window}"#);
        let fields = [
            (field.as_str(), "9"),
            ("ratelimit-policy", policy.as_str()),
            ("ratelimit", r#""a";r=30"#),
        ];
        let remaining = if is_shorter { 30 } else { 9 };
        assert_eq!(numbers(&fields).1, Some(remaining), "{fields:?}");
    }
}

#[test]
fn a_reset_of_zero_is_no_reset() {
    assert_eq!(numbers(&[("ratelimit", r#""a";r=3;t=0"#)]), (None, Some(3), None));
    let second = Some(Duration::from_secs(1));
    assert_eq!(numbers(&[("ratelimit", r#""a";r=3;t=1"#)]), (None, Some(3), second));
}

#[test]
fn a_remaining_zero_counts_only_with_an_error() {
    let fields = [("x-ratelimit-limit-requests", "0"), ("x-ratelimit-remaining-requests", "0")];
    assert_eq!(numbers(&fields), (None, None, None));
    let fields = [("x-ratelimit-limit-requests", "1"), ("x-ratelimit-remaining-requests", "1")];
    assert_eq!(numbers(&fields), (Some(1), Some(1), None));
}

#[test]
fn of_two_items_of_a_name_the_smaller_remaining_number_counts_with_its_reset() {
    let of = |value: &str| numbers(&[("ratelimit", value)]);
    let seconds = |seconds| Some(Duration::from_secs(seconds));
    assert_eq!(of(r#""a";r=9;t=5, "a";r=3;t=8"#), (None, Some(3), seconds(8)));
    assert_eq!(of(r#""a";r=3;t=8, "a";r=9;t=5"#), (None, Some(3), seconds(8)));
    assert_eq!(of(r#""a";r=3;t=8, "a";r=3;t=5"#), (None, Some(3), seconds(8)));
    assert_eq!(of(r#""a";t=8, "a";r=3"#), (None, Some(3), seconds(8)));
    assert_eq!(of(r#""a";r=3, "a";t=8"#), (None, Some(3), seconds(8)));
    assert_eq!(of(r#""a";t=8, "a";t=5"#), (None, None, seconds(8)), "the first one");
}

#[test]
fn a_separator_in_a_quoted_name_separates_nothing() {
    let of = |value: &str| numbers(&[("ratelimit", value)]).1;
    assert_eq!(of(r#""a,b;c";r=3"#), Some(3));
    assert_eq!(of(r#""a\"b,c";r=3"#), Some(3));
    // Outside of quotes nothing is escaped.
    assert_eq!(of(r#"a\"b;c";r=3"#), Some(3));
}

#[test]
fn only_the_first_part_of_an_item_is_its_name() {
    for policy in [r#""a";q=9;w=60"#, r#""a";q=9;w=60;b"#, r#""a";b;q=9;w=60"#] {
        let fields = [("ratelimit-policy", policy), ("ratelimit", r#""a";r=3"#)];
        assert_eq!(numbers(&fields), (Some(9), Some(3), None), "{policy}");
    }
}

#[test]
fn a_wait_for_a_header_is_whole_seconds_and_never_zero() {
    let second = Duration::from_secs(1);
    let nano = Duration::from_nanos(1);
    for (wait, seconds) in [
        (Duration::ZERO, 1),
        (nano, 1),
        (Duration::from_nanos(999_999_999), 1),
        (second, 1),
        (second + nano, 2),
        (second * 2, 2),
        (Duration::MAX, u64::MAX),
    ] {
        assert_eq!(retry_after_secs(wait), seconds, "{wait:?}");
    }
}

/// Returns headers with these fields.
fn headers(fields: &[(&'static str, &str)]) -> HeaderMap {
    let fields = fields.iter().map(|(name, value)| {
        (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
    });
    fields.collect()
}

#[test]
fn the_reset_of_a_rate_limit_is_that_of_all_used_up_limits() {
    for (value, seconds) in [
        (r#""a";r=0;t=8"#, Some(8)),
        (r#""a";r=0;t=8, "b";r=0;t=30, "c";r=0;t=9"#, Some(30)),
        (r#""a";r=0;t=8, "b";r=1;t=30"#, Some(8)),
        (r#""a";r=0;t=8, "bytes";r=0;t=30;qu="content-bytes""#, Some(30)),
        ("limit=10, remaining=0, reset=60", Some(60)),
        (r#""a";r=1;t=8"#, None),
        (r#""a";r=0;t=0"#, None),
        (r#""a";r=0"#, None),
        (r#""a";t=8"#, None),
        ("", None),
    ] {
        let wait = rate_limit_reset(&headers(&[("ratelimit", value)]));
        assert_eq!(wait, seconds.map(Duration::from_secs), "{value}");
    }
    assert_eq!(rate_limit_reset(&headers(&[("x-ratelimit-remaining", "0")])), None);
}

/// The first and the last second of a clock that is set.
#[test]
fn a_date_of_a_clock_that_is_not_set_is_none() {
    let of = |value: &str| {
        let date = date(&headers(&[("date", value)]))?;
        Some(date.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs())
    };
    assert_eq!(of("Mon, 01 Jan 1990 00:00:00 GMT"), Some(631_152_000));
    assert_eq!(of(" Tue, 31 Dec 2999 23:59:59 GMT "), Some(32_503_679_999));
    for value in ["Sun, 31 Dec 1989 23:59:59 GMT", "Wed, 01 Jan 3000 00:00:00 GMT", "today", ""] {
        assert_eq!(of(value), None, "{value}");
    }
    assert_eq!(date(&HeaderMap::new()), None);
}

/// Returns the error of a request to an address where nothing listens.
async fn refused() -> reqwest::Error {
    let (_socket, address) = refusing();
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    client.get(format!("http://{address}/")).send().await.unwrap_err()
}

#[tokio::test]
async fn an_error_of_reqwest_is_classified_by_how_far_the_request_came() {
    let (get, post) = (Classifier::idempotent(), Classifier::non_idempotent());
    let unbuilt = reqwest::Client::new().get("no address").build().unwrap_err();
    assert_eq!(get.classify(&unbuilt), Some(Verdict::fatal().not_sent().idempotent()));
    // Nothing was sent, so the request may be sent again in any case.
    let refused = refused().await;
    assert_eq!(get.classify(&refused), Some(get.not_sent()));
    assert_eq!(post.classify(&refused), Some(post.not_sent()));
    assert!(post.classify(&refused).unwrap().is_again());
    let cut = Cut::AttemptTimeout(Duration::from_secs(1));
    let of = |classifier: &Classifier| Classify::<reqwest::Error>::classify_cut(classifier, cut);
    assert_eq!(of(&get), Some(get.unanswered()));
    assert_eq!(of(&post), Some(post.unanswered()));
    assert!(!of(&post).unwrap().is_again());
}
