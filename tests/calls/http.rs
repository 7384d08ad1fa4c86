//! `resile::http`: the verdicts on HTTP answers and the reading of `Retry-After`.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use ::http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use proptest::prelude::*;
use resile::classify::{ClassifyExt, Cut};
use resile::http::headers::retry_after;
use resile::http::{Classifier, Failure, StatusError};
use resile::{Classify, Health, Verdict};

const GET: Classifier = Classifier::idempotent();
const POST: Classifier = Classifier::non_idempotent();
const TWO: Duration = Duration::from_secs(2);

/// The verdict on an answer that is no failure of the server: no retry, and a healthy server.
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

fn hint_of(value: &str) -> Option<Duration> {
    retry_after(&headers(&[("retry-after", value)]), now())
}

#[test]
fn seconds_are_read() {
    assert_eq!(hint_of("120"), Some(Duration::from_secs(120)));
    assert_eq!(hint_of("0.5"), Some(Duration::from_millis(500)));
    assert_eq!(hint_of(".5"), Some(Duration::from_millis(500)));
    assert_eq!(hint_of(" 2\t"), Some(TWO));
    let nothing = [
        "", " ", "0", "0.0", "1e-12", "-1", "-0", "+1", "NaN", "inf", "-inf", "infinity", "soon",
        "2s", "1,2", "0x10", ".",
    ];
    for nothing in nothing {
        assert_eq!(hint_of(nothing), None, "{nothing:?}");
    }
    // A number that is too large is the longest wait, even if it exceeds an `f64`.
    for vast in ["18446744073709551616", "1e300", "1e999", &"9".repeat(400)] {
        assert_eq!(hint_of(vast), Some(Duration::MAX), "{vast:?}");
    }
}

#[test]
fn dates_are_read_in_all_three_forms() {
    let forms = [
        "Sun, 06 Nov 1994 08:49:39 GMT",
        "Sunday, 06-Nov-94 08:49:39 GMT",
        "Sun Nov  6 08:49:39 1994",
    ];
    for form in forms {
        assert_eq!(hint_of(form), Some(TWO), "{form}");
    }
    for over in [
        "Sun, 06 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 08:49:36 GMT",
        "Thu, 01 Jan 1970 00:00:00 GMT",
    ] {
        assert_eq!(hint_of(over), None, "{over}");
    }
    assert_eq!(hint_of("Sun, 31 Feb 1994 08:49:39 GMT"), None);
}

#[test]
fn a_date_is_measured_from_the_answers_own_date() {
    let at = "Sun, 06 Nov 1994 08:49:39 GMT";
    let with = |date| retry_after(&headers(&[("retry-after", at), ("date", date)]), now());
    assert_eq!(with("Sun, 06 Nov 1994 08:49:29 GMT"), Some(Duration::from_secs(10)));
    assert_eq!(with("Sun, 06 Nov 1994 08:49:40 GMT"), None);
    assert_eq!(with("yesterday"), Some(TWO));
    assert_eq!(with(" Sun, 06 Nov 1994 08:49:29 GMT\t"), Some(Duration::from_secs(10)));
    // Seconds count from the arrival of the answer, for any `Date`.
    assert_eq!(retry_after(&headers(&[("retry-after", "2"), ("date", at)]), now()), Some(TWO));
}

#[test]
fn the_longest_of_several_fields_counts() {
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
fn only_4xx_and_5xx_are_errors() {
    for code in 100..=999 {
        let status = StatusCode::from_u16(code).unwrap();
        let refused = StatusError::check_at(status, &headers(&[("retry-after", "2")]), now());
        assert_eq!(refused.is_err(), (400..600).contains(&code), "{code}");
        if let Err(refused) = refused {
            assert_eq!((refused.status(), refused.retry_after()), (status, Some(TWO)));
            // Every type of answer gets the same verdict.
            let response =
                Response::builder().status(code).header("retry-after", "2").body(()).unwrap();
            let verdict = Some(GET.verdict(status, Some(TWO)));
            assert_eq!(GET.classify(&refused), verdict);
            assert_eq!(GET.classify(&response), verdict);
            assert_eq!(GET.classify(&response.into_parts().0), verdict);
        } else {
            assert_eq!(GET.classify(&Response::builder().status(code).body(()).unwrap()), None);
            assert_eq!(GET.verdict(status, Some(TWO)), ANSWERED.idempotent());
        }
    }
}

#[test]
fn a_status_error_prints_its_status_and_hint() {
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

/// Returns the verdict with the statement of the classifier.
fn stated(classifier: Classifier, verdict: Verdict) -> Verdict {
    if classifier == GET { verdict.idempotent() } else { verdict }
}

/// The table in the documentation of the module.
#[test]
fn every_status_has_its_documented_verdict() {
    let retry = Verdict::transient();
    // A failure of the server, which a breaker counts, also for a `POST`.
    let once = retry.not_again();
    // The server works as it should.
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
        // A network between client and server answered, so the health of the server is unknown.
        (511..=511, Verdict::fatal(), Verdict::fatal()),
        (512..=599, retry, once),
        (600..=999, ANSWERED, ANSWERED),
    ];
    let mut next = 100;
    for (codes, idempotent, not) in table {
        assert_eq!(*codes.start(), next, "the table has every status once");
        next = codes.end() + 1;
        for code in codes {
            let status = StatusCode::from_u16(code).unwrap();
            assert_eq!(GET.verdict(status, None), idempotent.idempotent(), "{code}");
            assert_eq!(POST.verdict(status, None), not, "{code}");
            // A hint adds a wait. For a 503 it also changes the health, and for three statuses it
            // allows a retry.
            for (classifier, verdict) in [(GET, idempotent), (POST, not)] {
                let hinted = match code {
                    403 | 429 => Verdict::throttled().after(TWO),
                    413 => retry.after(TWO),
                    503 if classifier == GET => Verdict::overloaded().after(TWO),
                    503 => Verdict::overloaded().not_again().after(TWO),
                    507 if classifier == GET => retry.after(TWO),
                    // The hint stays even if this request is not retried, because other requests
                    // may be.
                    _ if verdict.is_again() || verdict.health() == Health::Failing => {
                        verdict.after(TWO)
                    }
                    _ => verdict,
                };
                let hinted = stated(classifier, hinted);
                assert_eq!(classifier.verdict(status, Some(TWO)), hinted, "{code}");
            }
        }
    }
    assert_eq!(next, 1000);
}

#[test]
fn the_caller_decides_whether_a_conflict_is_retried() {
    for classifier in [GET, POST] {
        assert!(classifier.conflict());
        assert!(classifier.verdict(StatusCode::CONFLICT, None).is_again());
        let lasting = classifier.with_conflict(false);
        assert!(!lasting.conflict());
        let answered = stated(classifier, ANSWERED);
        assert_eq!(lasting.verdict(StatusCode::CONFLICT, Some(TWO)), answered);
        assert_eq!(lasting.with_conflict(true), classifier);
    }
}

#[test]
fn a_classifier_knows_the_idempotent_methods() {
    let methods =
        [Method::GET, Method::HEAD, Method::OPTIONS, Method::TRACE, Method::PUT, Method::DELETE];
    for method in methods {
        assert_eq!(Classifier::for_method(&method), GET, "{method}");
    }
    for method in
        [Method::POST, Method::PATCH, Method::CONNECT, Method::from_bytes(b"BOOK").unwrap()]
    {
        assert_eq!(Classifier::for_method(&method), POST, "{method}");
        assert_eq!(Classifier::for_method(&method).assume_idempotent(), GET, "{method}");
    }
    assert!(GET.is_idempotent() && !POST.is_idempotent());
}

#[test]
fn an_unanswered_request_is_retried_unless_it_may_have_been_executed() {
    for (verdict, retried) in [
        (GET.not_sent(), true),
        (GET.unanswered(), true),
        (POST.not_sent(), true),
        (POST.unanswered(), false),
    ] {
        assert_eq!((verdict.is_again(), verdict.health()), (retried, Health::Failing));
    }
}

/// The date of a clock that is not set counts only for a `Retry-After` by the same clock.
#[test]
fn an_impossible_date_counts_only_for_a_retry_after_as_impossible() {
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
    // The first and the last date that count.
    assert_eq!(with("Mon, 01 Jan 1990 00:00:00 GMT", "Mon, 01 Jan 1990 00:00:02 GMT"), Some(TWO));
    assert_eq!(with("Tue, 31 Dec 2999 23:59:57 GMT", "Tue, 31 Dec 2999 23:59:59 GMT"), Some(TWO));
}

/// Generates header values of a hostile or broken server.
fn value() -> impl Strategy<Value = HeaderValue> {
    let bytes = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..40),
        "[0-9.eE+-]{0,20}".prop_map(String::into_bytes),
        "(Sun|Mon|Sunday), [0-9]{2}[ -](Nov|Feb)[ -][0-9]{2,4} [0-9:]{8} GMT"
            .prop_map(String::into_bytes),
        "(Sun|Mon) (Nov|Feb) [ 0-9]{2} [0-9:]{8} [0-9]{4}".prop_map(String::into_bytes),
    ];
    bytes.prop_filter_map("not a header value", |bytes| HeaderValue::from_bytes(&bytes).ok())
}

proptest! {
    #[test]
    fn no_header_value_panics(hints in proptest::collection::vec(value(), 0..3), date in value(), offset in any::<u64>(), code in 400_u16..600) {
        let mut headers = HeaderMap::new();
        for hint in hints {
            headers.append("retry-after", hint);
        }
        headers.insert("date", date);
        // `now` comes from the caller, so it may be before the epoch or far in the future.
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
        let hint = hint_of(&format!("{whole}.{millis:03}"));
        let expected = Duration::from_secs(whole.into()) + Duration::from_millis(millis.into());
        let error = hint.unwrap_or_default().abs_diff(expected);
        prop_assert!(error < Duration::from_micros(1), "{hint:?}, not {expected:?}");
    }

    #[test]
    fn every_future_date_is_read(ahead in 1_u64..4_000_000_000) {
        let then = httpdate::fmt_http_date(now() + Duration::from_secs(ahead));
        prop_assert_eq!(hint_of(&then), Some(Duration::from_secs(ahead)));
    }

    /// The verdict on a non-idempotent request is the verdict on an idempotent one without its
    /// statement, possibly with `not_again`. A breaker counts both alike.
    #[test]
    fn a_non_idempotent_verdict_differs_only_in_being_not_again(code in 100_u16..1000, hint in any::<Option<Duration>>(), conflict in any::<bool>()) {
        let status = StatusCode::from_u16(code).unwrap();
        let (cautious, free) = (POST.with_conflict(conflict), GET.with_conflict(conflict));
        let verdict = cautious.verdict(status, hint);
        let twin = free.verdict(status, hint);
        prop_assert!(twin.is_idempotent() && !verdict.is_idempotent());
        let read = verdict.idempotent();
        prop_assert!(read == twin || read == twin.not_again());
        prop_assert!(!twin.is_again() || twin == hint.map_or(twin, |hint| twin.after(hint)));
        prop_assert_eq!(cautious.assume_idempotent(), free);
        let keyed = Classifier::keyed().with_conflict(conflict).verdict(status, hint);
        prop_assert!(keyed == twin && keyed.is_keyed() && !twin.is_keyed());
    }
}

/// A cut attempt may have been executed, for every type of answer.
#[test]
fn a_cut_attempt_of_a_non_idempotent_request_is_not_retried() {
    for cut in [Cut::AttemptTimeout(TWO), Cut::Deadline, Cut::Stream] {
        for (classifier, verdict) in
            [(GET, Verdict::transient().idempotent()), (POST, Verdict::transient().not_again())]
        {
            assert_eq!(Classify::<StatusError>::classify_cut(&classifier, cut), Some(verdict));
            assert_eq!(Classify::<Response<()>>::classify_cut(&classifier, cut), Some(verdict));
            assert_eq!(
                Classify::<::http::response::Parts>::classify_cut(&classifier, cut),
                Some(verdict)
            );
            // The second member of a pair and a shared classifier give the same verdict.
            let second = ((|_: &StatusError| None::<Verdict>), std::sync::Arc::new(classifier));
            assert_eq!(second.classify_cut(cut), Some(verdict));
        }
    }
}

/// A cut attempt has no error that names its request, so the classifier does.
#[test]
fn what_contains_a_classifier_knows_the_place_of_its_request() {
    fn place<E>(classifier: &dyn Classify<E>) -> Option<String> {
        classifier.place().map(Cow::into_owned)
    }
    const ORDER: Classifier = POST.with_place("POST /orders");
    let known = Some("POST /orders".to_owned());
    assert_eq!(place::<Failure>(&POST), None);
    assert_eq!(place::<Failure>(&POST.over(|post, error: &Failure| post.classify(error))), None);
    assert_ne!(ORDER, POST);

    assert_eq!(place::<Failure>(&ORDER), known);
    assert_eq!(place::<StatusError>(&ORDER), known);
    assert_eq!(place::<::http::response::Parts>(&ORDER), known);
    assert_eq!(place::<Response<()>>(&ORDER), known);
    assert_eq!(place::<reqwest::Error>(&ORDER), known);
    assert_eq!(place::<Failure>(&ORDER.assume_idempotent().with_conflict(false)), known);
    let over = ORDER.over(|post, error: &Failure| post.classify(error));
    assert_eq!(place::<Failure>(&over), known);
    assert_eq!(place::<Failure>(&(|_: &Failure| true, over)), known);
    assert_eq!(place::<Failure>(&over.cut_is(Verdict::transient())), known);
    assert_eq!(place::<Failure>(&Arc::new(ORDER)), known);
}
