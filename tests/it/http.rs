//! `resile::http`: what answers mean.

use std::time::{Duration, SystemTime};

use ::http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use proptest::prelude::*;
use resile::http::{Classifier, StatusError, retry_after};
use resile::{Classify, Cut, Health, Verdict};

const READ: Classifier = Classifier::idempotent();
const BOOK: Classifier = Classifier::non_idempotent();
const TWO: Duration = Duration::from_secs(2);

/// An answer that is no failure of the server: not again, and the server is well.
const ANSWERED: Verdict = Verdict::fatal().with_health(Health::Healthy);

/// 1994-11-06 08:49:37 UTC, the instant of RFC 9110's examples.
const NOW: u64 = 784_111_777;

fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(NOW)
}

fn headers(fields: &[(&'static str, &str)]) -> HeaderMap {
    fields
        .iter()
        .map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_str(value).unwrap()))
        .collect()
}

fn asked(value: &str) -> Option<Duration> {
    retry_after(&headers(&[("retry-after", value)]), now())
}

#[test]
fn seconds() {
    assert_eq!(asked("120"), Some(Duration::from_secs(120)));
    assert_eq!(asked("0.5"), Some(Duration::from_millis(500)));
    assert_eq!(asked(".5"), Some(Duration::from_millis(500)));
    assert_eq!(asked(" 2\t"), Some(TWO));
    let nothing = [
        "", " ", "0", "0.0", "1e-12", "-1", "-0", "+1", "NaN", "inf", "-inf", "infinity", "soon",
        "2s", "1,2", "0x10", ".",
    ];
    for nothing in nothing {
        assert_eq!(asked(nothing), None, "{nothing:?}");
    }
    // Excessive is not absent, also where the number is too large even for an f64.
    for vast in ["18446744073709551616", "1e300", "1e999", &"9".repeat(400)] {
        assert_eq!(asked(vast), Some(Duration::MAX), "{vast:?}");
    }
}

#[test]
fn dates_in_all_three_forms() {
    let forms = [
        "Sun, 06 Nov 1994 08:49:39 GMT",
        "Sunday, 06-Nov-94 08:49:39 GMT",
        "Sun Nov  6 08:49:39 1994",
    ];
    for form in forms {
        assert_eq!(asked(form), Some(TWO), "{form}");
    }
    for over in [
        "Sun, 06 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 08:49:36 GMT",
        "Thu, 01 Jan 1970 00:00:00 GMT",
    ] {
        assert_eq!(asked(over), None, "{over}");
    }
    assert_eq!(asked("Sun, 31 Feb 1994 08:49:39 GMT"), None);
}

#[test]
fn dates_are_measured_against_the_answers_own() {
    let at = "Sun, 06 Nov 1994 08:49:39 GMT";
    let with = |date| retry_after(&headers(&[("retry-after", at), ("date", date)]), now());
    assert_eq!(with("Sun, 06 Nov 1994 08:49:29 GMT"), Some(Duration::from_secs(10)));
    assert_eq!(with("Sun, 06 Nov 1994 08:49:40 GMT"), None);
    assert_eq!(with("yesterday"), Some(TWO));
    assert_eq!(with(" Sun, 06 Nov 1994 08:49:29 GMT\t"), Some(Duration::from_secs(10)));
    // Seconds count from the answer, whatever its clock says.
    assert_eq!(retry_after(&headers(&[("retry-after", "2"), ("date", at)]), now()), Some(TWO));
}

#[test]
fn of_several_fields_the_longest_wait_counts() {
    for fields in [
        ["1", "2"],
        ["2", "1"],
        ["soon", "2"],
        ["2", "soon"],
        ["2", "Sun, 06 Nov 1994 08:49:38 GMT"],
    ] {
        let headers = headers(&fields.map(|value| ("retry-after", value)));
        assert_eq!(retry_after(&headers, now()), Some(TWO), "{fields:?}");
    }
}

#[test]
fn refused_is_4xx_and_5xx() {
    for code in 100..=999 {
        let status = StatusCode::from_u16(code).unwrap();
        let refused = StatusError::check_at(status, &headers(&[("retry-after", "2")]), now());
        assert_eq!(refused.is_err(), (400..600).contains(&code), "{code}");
        if let Err(refused) = refused {
            assert_eq!((refused.status(), refused.retry_after()), (status, Some(TWO)));
            // The same judgement whatever the answer comes as.
            let response =
                Response::builder().status(code).header("retry-after", "2").body(()).unwrap();
            let verdict = Some(READ.verdict(status, Some(TWO)));
            assert_eq!(READ.classify(&refused), verdict);
            assert_eq!(READ.classify(&response), verdict);
            assert_eq!(READ.classify(&response.into_parts().0), verdict);
        } else {
            assert_eq!(READ.classify(&Response::builder().status(code).body(()).unwrap()), None);
            assert_eq!(READ.verdict(status, Some(TWO)), ANSWERED);
        }
    }
}

#[test]
fn refused_words() {
    let words = |code, fields| {
        let refused =
            StatusError::check(StatusCode::from_u16(code).unwrap(), &headers(fields)).unwrap_err();
        refused.to_string()
    };
    assert_eq!(words(503, &[("retry-after", "2")]), "503 Service Unavailable, retry after 2s");
    let logged =
        StatusError::check(StatusCode::TOO_MANY_REQUESTS, &headers(&[("retry-after", "2")]));
    assert_eq!(format!("{:#}", logged.unwrap_err()), "429 Too Many Requests");
    assert_eq!(words(404, &[]), "404 Not Found");
    assert_eq!(words(529, &[("retry-after", "0.5")]), "529, retry after 500ms");
    assert!(size_of::<StatusError>() <= 24);
}

/// The table of the module's page.
#[test]
fn verdicts_by_status() {
    let retry = Verdict::transient();
    // A failure of the server, that of a `POST` too: a breaker counts it.
    let once = retry.not_again();
    // The server did what it should.
    let conflict = retry.with_health(Health::Healthy);
    let table = [
        // status, idempotent, not idempotent; without `Retry-After`
        (100..=399, ANSWERED, ANSWERED),
        (400..=407, ANSWERED, ANSWERED),
        (408..=408, retry, retry),
        (409..=409, conflict, conflict),
        (410..=424, ANSWERED, ANSWERED),
        (425..=425, retry, retry),
        (426..=428, ANSWERED, ANSWERED),
        (429..=429, Verdict::throttled(), Verdict::throttled()),
        (430..=499, ANSWERED, ANSWERED),
        (500..=500, retry, once),
        (501..=501, ANSWERED, ANSWERED),
        (502..=504, retry, once),
        (505..=506, ANSWERED, ANSWERED),
        (507..=507, once, once),
        (508..=508, ANSWERED, ANSWERED),
        (509..=509, retry, once),
        (510..=510, ANSWERED, ANSWERED),
        // A network in between answered: of the server that says nothing.
        (511..=511, Verdict::fatal(), Verdict::fatal()),
        (512..=599, retry, once),
        (600..=999, ANSWERED, ANSWERED),
    ];
    let mut next = 100;
    for (codes, idempotent, not) in table {
        assert_eq!(*codes.start(), next, "every status stands in the table once");
        next = codes.end() + 1;
        for code in codes {
            let status = StatusCode::from_u16(code).unwrap();
            assert_eq!(READ.verdict(status, None), idempotent, "{code}");
            assert_eq!(BOOK.verdict(status, None), not, "{code}");
            // A hint changes whether to wait, and for a 503 who is at fault. It says of three that they pass.
            for (classifier, verdict) in [(READ, idempotent), (BOOK, not)] {
                let hinted = match code {
                    403 | 429 => Verdict::throttled().after(TWO),
                    413 => retry.after(TWO),
                    503 if classifier == READ => Verdict::throttled().after(TWO),
                    503 => Verdict::throttled().not_again().after(TWO),
                    507 if classifier == READ => retry.after(TWO),
                    // Also where the request is not sent again: other requests may be.
                    _ if verdict.is_again() || verdict.health() == Health::Failing => {
                        verdict.after(TWO)
                    }
                    _ => verdict,
                };
                assert_eq!(classifier.verdict(status, Some(TWO)), hinted, "{code}");
            }
        }
    }
    assert_eq!(next, 1000);
}

#[test]
fn conflict_is_the_callers_to_say() {
    for classifier in [READ, BOOK] {
        assert!(classifier.conflict());
        assert!(classifier.verdict(StatusCode::CONFLICT, None).is_again());
        let lasting = classifier.with_conflict(false);
        assert_eq!(lasting.verdict(StatusCode::CONFLICT, Some(TWO)), ANSWERED);
        assert_eq!(lasting.with_conflict(true), classifier);
    }
}

#[test]
fn idempotency_by_method() {
    let methods =
        [Method::GET, Method::HEAD, Method::OPTIONS, Method::TRACE, Method::PUT, Method::DELETE];
    for method in methods {
        assert_eq!(Classifier::for_method(&method), READ, "{method}");
    }
    for method in
        [Method::POST, Method::PATCH, Method::CONNECT, Method::from_bytes(b"BOOK").unwrap()]
    {
        assert_eq!(Classifier::for_method(&method), BOOK, "{method}");
        assert_eq!(Classifier::for_method(&method).assume_idempotent(), READ, "{method}");
    }
    assert!(READ.is_idempotent() && !BOOK.is_idempotent());
}

#[test]
fn unanswered_is_retried_unless_it_may_have_been_done() {
    for (classifier, reached, retried) in
        [(READ, false, true), (READ, true, true), (BOOK, false, true), (BOOK, true, false)]
    {
        let verdict = classifier.unanswered(reached);
        let got = (verdict.is_again(), verdict.health());
        assert_eq!(got, (retried, Health::Failing), "{classifier:?}, reached: {reached}");
    }
}

/// A clock that is not set counts only for a `Retry-After` by the same clock.
#[test]
fn an_absurd_date_counts_only_for_what_is_as_absurd() {
    let with = |date, at| retry_after(&headers(&[("retry-after", at), ("date", date)]), now());
    let at = "Sun, 06 Nov 1994 08:49:39 GMT";
    for date in [
        "Thu, 01 Jan 1970 00:00:00 GMT",
        "Wed, 01 Jan 3000 00:00:00 GMT",
        "Fri, 31 Dec 9999 23:59:59 GMT",
    ] {
        assert_eq!(with(date, at), Some(TWO), "{date}");
    }
    assert_eq!(with("Thu, 01 Jan 1970 00:00:00 GMT", "Thu, 01 Jan 1970 00:00:02 GMT"), Some(TWO));
    assert_eq!(with("Fri, 31 Dec 9999 23:59:57 GMT", "Fri, 31 Dec 9999 23:59:59 GMT"), Some(TWO));
    assert_eq!(with(at, "Thu, 01 Jan 1970 00:00:00 GMT"), None);
    // The first and the last moment that count.
    assert_eq!(with("Mon, 01 Jan 1990 00:00:00 GMT", "Mon, 01 Jan 1990 00:00:02 GMT"), Some(TWO));
    assert_eq!(with("Tue, 31 Dec 2999 23:59:57 GMT", "Tue, 31 Dec 2999 23:59:59 GMT"), Some(TWO));
}

/// Header values as a hostile or a broken server sends them.
fn value() -> impl Strategy<Value = HeaderValue> {
    let bytes = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..40),
        "[0-9.eE+-]{0,20}".prop_map(String::into_bytes),
        "(Sun|Mon|Sunday), [0-9]{2}[ -](Nov|Feb)[ -][0-9]{2,4} [0-9:]{8} GMT"
            .prop_map(String::into_bytes),
        "(Sun|Mon) (Nov|Feb) [ 0-9]{2} [0-9:]{8} [0-9]{4}".prop_map(String::into_bytes),
    ];
    bytes.prop_filter_map("no header value", |bytes| HeaderValue::from_bytes(&bytes).ok())
}

proptest! {
    #[test]
    fn no_bytes_panic(hints in proptest::collection::vec(value(), 0..3), date in value(), offset in any::<u64>(), code in 400_u16..600) {
        let mut headers = HeaderMap::new();
        for hint in hints {
            headers.append("retry-after", hint);
        }
        headers.insert("date", date);
        // `now` is the caller's word: before the epoch and far after it included.
        let offset = Duration::from_secs(offset / 4);
        let nows = [now().checked_add(offset), now().checked_sub(offset)];
        for now in nows.into_iter().flatten() {
            let hint = retry_after(&headers, now);
            prop_assert_ne!(hint, Some(Duration::ZERO));
            let status = StatusCode::from_u16(code).unwrap();
            prop_assert_eq!(StatusError::check_at(status, &headers, now).unwrap_err().retry_after(), hint);
        }
    }

    #[test]
    fn every_number_of_seconds_is_read(whole in any::<u32>(), millis in 0_u32..1000) {
        let asked = asked(&format!("{whole}.{millis:03}"));
        let expected = Duration::from_secs(whole.into()) + Duration::from_millis(millis.into());
        let error = asked.unwrap_or_default().abs_diff(expected);
        prop_assert!(error < Duration::from_micros(1), "{asked:?}, not {expected:?}");
    }

    #[test]
    fn every_date_is_read(ahead in 1_u64..4_000_000_000) {
        let then = httpdate::fmt_http_date(now() + Duration::from_secs(ahead));
        prop_assert_eq!(asked(&then), Some(Duration::from_secs(ahead)));
    }

    /// What must not be executed twice is retried only where its twin that may be is, and with the same verdict. Either shows
    /// the same of the server.
    #[test]
    fn caution_only_takes_away(code in 100_u16..1000, hint in any::<Option<Duration>>(), conflict in any::<bool>()) {
        let status = StatusCode::from_u16(code).unwrap();
        let (cautious, free) = (BOOK.with_conflict(conflict), READ.with_conflict(conflict));
        let verdict = cautious.verdict(status, hint);
        let twin = free.verdict(status, hint);
        prop_assert!(verdict == twin || verdict == twin.not_again());
        prop_assert!(!twin.is_again() || twin == hint.map_or(twin, |hint| twin.after(hint)));
        prop_assert_eq!(cautious.assume_idempotent(), free);
    }
}

/// An attempt that was cut off may have been executed, whatever the answer would have come as.
#[test]
fn an_attempt_that_was_cut_off() {
    for cut in [Cut::AttemptTimeout(TWO), Cut::Deadline, Cut::Stream] {
        for (classifier, verdict) in
            [(READ, Verdict::transient()), (BOOK, Verdict::transient().not_again())]
        {
            assert_eq!(Classify::<StatusError>::classify_cut(&classifier, cut), Some(verdict));
            assert_eq!(Classify::<Response<()>>::classify_cut(&classifier, cut), Some(verdict));
            assert_eq!(
                Classify::<::http::response::Parts>::classify_cut(&classifier, cut),
                Some(verdict)
            );
            // Also behind another one, and shared.
            let behind = ((|_: &StatusError| None::<Verdict>), std::sync::Arc::new(classifier));
            assert_eq!(behind.classify_cut(cut), Some(verdict));
        }
    }
}
