//! Moments in LLM answers are measured from the date of the answer.

use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderName};
use resile_llm::{self as llm, Failure, Reply};

/// 2025-10-09 08:53:20 UTC, the time of the answer by the server's clock.
const SERVED: u64 = 1_760_000_000;

fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

/// Bodies that name the moment one minute after `SERVED`, in every form.
const BODIES_WITH_A_MOMENT: [&str; 9] = [
    r#"{"error":{"message":"no","resets_at":1760000060}}"#,
    r#"{"error":{"message":"no","resets_at":1760000060000}}"#,
    r#"{"error":{"message":"no","resets_at":"2025-10-09T08:54:20Z"}}"#,
    r#"{"error":{"message":"Try again at 2025-10-09T08:54:20Z."}}"#,
    r#"{"error":{"status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","metadata":{"quotaResetTimeStamp":"2025-10-09T08:54:20Z"}}]}}"#,
    r#"{"error":{"message":"no","metadata":{"headers":{"X-RateLimit-Remaining":"0","X-RateLimit-Reset":"1760000060000"}}}}"#,
    r#"{"error":{"message":"no","resets_at":"2025-10-09T08:54:20Z""#,
    "data: {\"error\":{\"message\":\"no\",\"resets_at\":1760000060}}\n\n",
    "Rate limited, try again at 2025-10-09T08:54:20Z",
];

/// Returns the waits of a 429 with this body and these headers, in seconds, as read by `classify`
/// and `find` at `now`.
fn waits(body: &str, headers: &[(&str, &str)], now: u64) -> [Option<u64>; 2] {
    let fields = headers
        .iter()
        .map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap()));
    let headers: HeaderMap = fields.collect();
    let reply = Reply::new(body.as_bytes()).with_status(429).with_headers(&headers);
    let failures = [reply.classify(at(now)), reply.find(at(now)).unwrap()];
    failures.map(|failure| failure.wait().map(|wait| wait.as_secs()))
}

#[test]
fn a_moment_is_measured_from_the_answers_own_date() {
    for body in BODIES_WITH_A_MOMENT {
        for now in [SERVED - 3_600, SERVED, SERVED + 3_600] {
            let dated = waits(body, &[("date", "Thu, 09 Oct 2025 08:53:20 GMT")], now);
            assert_eq!(dated, [Some(60); 2], "{body} at {now}");
        }
    }
    // Moments in the headers are measured in the same way.
    let reset = [
        ("date", "Thu, 09 Oct 2025 08:53:20 GMT"),
        ("x-ratelimit-remaining-requests", "0"),
        ("x-ratelimit-reset-requests", "2025-10-09T08:54:20Z"),
    ];
    assert_eq!(waits("", &reset, SERVED + 3_600), [Some(60); 2]);
}

#[test]
fn without_a_readable_date_a_moment_is_measured_from_now() {
    for body in BODIES_WITH_A_MOMENT {
        for headers in [
            &[][..],
            &[("date", "yesterday")],
            &[("date", "")],
            &[("date", "Thu, 41 Oct 2025 08:53:20 GMT")],
        ] {
            assert_eq!(waits(body, headers, SERVED), [Some(60); 2], "{body} {headers:?}");
            assert_eq!(
                waits(body, headers, SERVED - 3_600),
                [Some(3_660); 2],
                "{body} {headers:?}"
            );
            assert_eq!(waits(body, headers, SERVED + 3_600), [None; 2], "{body} {headers:?}");
        }
    }
}

/// The date of a clock that is not set says nothing about the time of the answer.
#[test]
fn an_impossible_date_does_not_count() {
    for date in [
        "Thu, 01 Jan 1970 00:00:00 GMT",
        "Tue, 01 Jan 1980 00:00:00 GMT",
        "Wed, 01 Jan 3000 00:00:00 GMT",
        "Fri, 31 Dec 9999 23:59:59 GMT",
    ] {
        for body in BODIES_WITH_A_MOMENT {
            assert_eq!(
                waits(body, &[("date", date)], SERVED),
                [Some(60); 2],
                "{body}, dated {date}"
            );
        }
        let retry_after = [("date", date), ("retry-after", "Thu, 09 Oct 2025 08:54:20 GMT")];
        assert_eq!(waits("", &retry_after, SERVED), [Some(60); 2], "dated {date}");
    }
}

/// Headers passed on by a gateway have their own date, if they include one.
#[test]
fn headers_in_a_body_are_measured_from_their_own_date() {
    let body = r#"{"error":{"message":"no","metadata":{"headers":{"Date":"Thu, 09 Oct 2025 09:53:20 GMT","X-RateLimit-Remaining":"0","X-RateLimit-Reset":"1760003660"}}}}"#;
    assert_eq!(waits(body, &[("date", "Thu, 09 Oct 2025 08:53:20 GMT")], SERVED), [Some(60); 2]);
    assert_eq!(waits(body, &[], SERVED + 7_200), [Some(60); 2]);
}

/// These functions read the wall clock themselves. With a date in the answer the wait does not
/// depend on the wall clock.
#[tokio::test]
async fn an_answers_date_counts_for_parts_and_for_reqwest() {
    let answer = |body| {
        let answer =
            http::Response::builder().status(429).header("date", "Thu, 09 Oct 2025 08:53:20 GMT");
        answer.body(body).unwrap()
    };
    for body in BODIES_WITH_A_MOMENT {
        let (parts, body) = answer(body).into_parts();
        assert_eq!(
            Failure::from_parts(&parts, body).wait(),
            Some(Duration::from_secs(60)),
            "{body}"
        );
        let checked =
            llm::error_for_status(reqwest::Response::from(answer(body))).await.unwrap_err();
        assert_eq!(checked.wait(), Some(Duration::from_secs(60)), "{body}");
    }
}

/// The text of a transport error has no `Date`. A moment in it is measured from the wall clock, not
/// from 1970.
#[test]
fn a_moment_in_a_transport_error_is_measured_from_now() {
    let over = std::io::Error::other("rate limited, try again at 2024-01-01T00:00:00Z");
    assert_eq!(Failure::from_transport(&over).wait(), None);
    let soon = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(1);
    let failure = Failure::from_transport(&std::io::Error::other(format!(
        "rate limited, try again at {soon}"
    )));
    let wait = failure.wait().unwrap();
    assert!(wait <= Duration::from_secs(3_600) && wait > Duration::from_secs(3_000), "{wait:?}");
}
