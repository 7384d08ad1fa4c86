//! The word of a classifier that was made by `over` is that of the part that its closure asked about.

use std::borrow::Cow;
use std::cell::Cell;
use std::error::Error;
use std::fmt;
use std::io::{self, ErrorKind};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

use http::{Response, StatusCode};
use resile::classify::note_error_type;
use resile::http::{Failure, StatusError};
use resile::observe::{Event, EventKind};
use resile::{Classify, Never, RetryPolicy, Upstream, Verdict, retry};

type Http = resile::http::Classifier;
type Io = resile::io::Classifier;

/// An error of a program around those of two clients.
#[derive(Debug)]
enum CallError {
    Io(io::Error),
    Http(Failure),
    Status(StatusError),
    Code(StatusCode),
    Answer(Response<&'static str>),
    NoToken,
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the call failed")
    }
}

impl Error for CallError {}

const POST: Http = Http::non_idempotent();
const BOOKING: Io = Io::non_idempotent();

fn ask(post: &Http, error: &CallError) -> Option<Verdict> {
    match error {
        CallError::Io(error) => BOOKING.verdict(error),
        CallError::Http(failure) => post.classify(failure),
        CallError::Status(refused) => post.classify(refused),
        CallError::Code(status) => Some(post.verdict(*status, None)),
        CallError::Answer(answer) => post.classify(answer),
        CallError::NoToken => None,
    }
}

fn answer(status: u16) -> Response<&'static str> {
    Response::builder().status(status).body("").unwrap()
}

fn refused() -> io::Error {
    ErrorKind::ConnectionRefused.into()
}

#[test]
fn each_form_has_the_word_of_its_part() {
    let over = POST.over(ask);
    let word = |error| over.error_type(&error).map(Cow::into_owned);
    assert_eq!(word(CallError::Io(refused())).unwrap(), "refused");
    assert_eq!(word(CallError::Http(Failure::not_sent("down"))).unwrap(), "connect");
    let unavailable = Failure::check(answer(503)).unwrap_err();
    assert_eq!(word(CallError::Http(unavailable)).unwrap(), "503");
    let status = StatusError::check(StatusCode::BAD_GATEWAY, &http::HeaderMap::new());
    assert_eq!(word(CallError::Status(status.unwrap_err())).unwrap(), "502");
    assert_eq!(word(CallError::Code(StatusCode::CONFLICT)).unwrap(), "409");
    assert_eq!(word(CallError::Answer(answer(429))).unwrap(), "429");
    assert_eq!(word(CallError::NoToken), None);
    // A pair asks its second member for the word that the first one lacks.
    let second = BOOKING.over(|io, _: &CallError| io.verdict(&refused()));
    assert_eq!((over, second).error_type(&CallError::NoToken).unwrap(), "refused");
}

#[tokio::test(start_paused = true)]
async fn the_observer_reads_the_word() {
    static SEEN: Mutex<Vec<String>> = Mutex::new(Vec::new());
    fn note(event: &Event<'_>) {
        if let EventKind::Waiting { failure, .. } = event.kind {
            SEEN.lock().unwrap().extend(failure.error_type.map(str::to_owned));
        }
    }
    static FEED: Upstream = Upstream::new("feed").with_observer(&(note as fn(&Event<'_>)));
    let policy = RetryPolicy::new().with_attempts(2).with_classifier(POST.over(ask));
    let call = retry(async |_| Err::<(), _>(CallError::Io(refused())), policy, Never);
    assert_eq!(call.on(&FEED).await.unwrap_err().attempts(), 2);
    assert_eq!(*SEEN.lock().unwrap(), ["refused"]);
}

#[test]
fn the_last_word_counts() {
    let over = BOOKING.over(|io, errors: &[ErrorKind]| {
        errors.iter().fold(None, |_, kind| io.verdict(&io::Error::from(*kind)))
    });
    let word = |kinds: &[ErrorKind]| over.error_type(kinds).map(Cow::into_owned);
    assert_eq!(word(&[ErrorKind::TimedOut, ErrorKind::ConnectionRefused]).unwrap(), "refused");
    assert_eq!(word(&[ErrorKind::ConnectionRefused, ErrorKind::TimedOut]).unwrap(), "timeout");
    // An error without a word leaves that of the one before.
    let unknown = ErrorKind::AlreadyExists;
    assert_eq!(BOOKING.error_type(&unknown.into()), None, "the test needs a kind without a word");
    assert_eq!(word(&[ErrorKind::TimedOut, unknown]).unwrap(), "timeout");
    assert_eq!(word(&[unknown]), None);
    assert_eq!(word(&[]), None);
}

#[test]
fn no_word_is_made_unless_it_is_asked_for() {
    let made = Cell::new(0);
    let over = BOOKING.over(|_, _: &u8| {
        note_error_type(|| {
            made.set(made.get() + 1);
            Some("one".into())
        });
        Verdict::transient()
    });
    assert!(over.classify(&0).unwrap().is_again());
    note_error_type(|| unreachable!("nobody asks"));
    assert_eq!(made.get(), 0);
    assert_eq!(over.error_type(&0).unwrap(), "one");
    assert_eq!(made.get(), 1);
    note_error_type(|| unreachable!("nobody asks any more"));
}

/// The first member of a pair within the closure ends the call, so the second one gives no verdict. It has the
/// word all the same, unless the first one has one.
#[test]
fn a_pair_within_the_closure_keeps_the_word() {
    let word = |mine: fn(&StatusError) -> Option<Verdict>, status: u16| {
        let over = POST.over(|http, error: &CallError| match error {
            CallError::Status(refused) => (mine, *http).classify(refused),
            _ => None,
        });
        let code = StatusCode::from_u16(status).unwrap();
        let refused = StatusError::check(code, &http::HeaderMap::new()).unwrap_err();
        over.error_type(&CallError::Status(refused)).map(Cow::into_owned)
    };
    assert_eq!(word(|_| None, 503).unwrap(), "503");
    assert_eq!(word(|_| Some(Verdict::fatal()), 503).unwrap(), "503");
    assert_eq!(word(|_| Some(Verdict::transient()), 404).unwrap(), "404");
    let own: fn(&StatusError) -> Option<Verdict> = |_| {
        note_error_type(|| Some("no_token".into()));
        Some(Verdict::fatal())
    };
    assert_eq!(word(own, 401).unwrap(), "no_token");
}

/// A closure may ask another classifier of this kind for its verdict or for its word.
#[test]
fn a_question_within_a_question_is_its_own() {
    let inner = BOOKING.over(|io, error: &io::Error| io.verdict(error));
    let verdict = POST.over(|_, _: &u8| inner.classify(&refused()));
    assert_eq!(verdict.error_type(&0).unwrap(), "refused");
    let before = POST.over(|post, _: &u8| {
        let verdict = post.verdict(StatusCode::BAD_GATEWAY, None);
        assert_eq!(inner.error_type(&refused()).unwrap(), "refused");
        verdict
    });
    assert_eq!(before.error_type(&0).unwrap(), "502");
    let after = POST.over(|post, _: &u8| {
        assert_eq!(inner.error_type(&refused()).unwrap(), "refused");
        post.verdict(StatusCode::BAD_GATEWAY, None)
    });
    assert_eq!(after.error_type(&0).unwrap(), "502");
    let none = POST.over(|_, _: &u8| inner.error_type(&refused()).map(|_| Verdict::transient()));
    assert_eq!(none.error_type(&0), None);
}

#[test]
fn a_panic_of_the_closure_ends_its_question() {
    let inner = BOOKING.over(|io, is_bad: &bool| {
        let verdict = io.verdict(&refused());
        assert!(!is_bad, "the closure panics");
        verdict
    });
    let outer = POST.over(|post, _: &u8| {
        let verdict = post.verdict(StatusCode::BAD_GATEWAY, None);
        let ask = || inner.error_type(&true).is_none();
        assert!(catch_unwind(AssertUnwindSafe(ask)).is_err());
        verdict
    });
    assert_eq!(outer.error_type(&0).unwrap(), "502");
    let ask = || inner.error_type(&true).is_none();
    assert!(catch_unwind(AssertUnwindSafe(ask)).is_err());
    note_error_type(|| unreachable!("the question has ended"));
    let none = BOOKING.over(|_, (): &()| Verdict::transient());
    assert_eq!(none.error_type(&()), None, "the word of the panicked one is gone");
    assert_eq!(inner.error_type(&false).unwrap(), "refused");
}
