//! After which codes a request surely had no effect.

use std::io;
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use resile_clients::Idempotency::{self, Idempotent, NotIdempotent};
use resile_clients::grpc::{self, Pushback};
use resile_clients::resile::time::ManualTimer;
use resile_clients::resile::{
    Attempt, Backoff, GaveUp, Never, RetryPolicy, StopReason, Upstream, Verdict, retry,
};
use resile_clients::{Classifier, http2, hyper, mysql, postgres};
use tonic::{Code, ConnectError, Status};

use super::rows::{Row, rows};
use super::tonic::details;

/// Returns the verdict on a row of the families of gRPC and of what is below it.
fn verdict(row: &Row, it: Idempotency) -> Option<Verdict> {
    let (code, beside) = row.code.split_once('+').unwrap_or((row.code, ""));
    match row.family {
        "grpc" if beside == "RetryInfo" => {
            grpc::with_retry_info(code.parse().ok()?, Duration::ZERO, it)
        }
        "grpc" => grpc::code(code.parse().ok()?, Pushback::None, it),
        "http2" => http2::reset(code.parse().ok()?, it),
        "http2-goaway" => http2::goaway(code.parse().ok()?, beside == "unprocessed", it),
        "hyper" => hyper::kind(code, it),
        _ => None,
    }
}

/// The verdict of a keyed classifier differs in the key only, which tells the effect of a call in words.
#[test]
fn a_keyed_classifier_judges_like_an_idempotent_one() {
    let (keyed, read) = (Classifier::keyed(), Classifier::idempotent());
    assert!(keyed.is_idempotent() && keyed != read);
    for code in (0..=16).map(Code::from) {
        let status = Status::new(code, "");
        let verdict = keyed.verdict(&status);
        assert_eq!(verdict, read.verdict(&status), "{code}");
        assert!(verdict.is_none_or(|verdict| verdict.is_keyed()), "{code}");
    }
    assert!(keyed.unanswered().is_keyed() && keyed.unanswered() == read.unanswered());
    assert!(!read.unanswered().is_keyed());
}

#[test]
fn the_data_file_names_each_code_without_effect() {
    let mut count = 0;
    for row in rows() {
        for idempotency in [Idempotent, NotIdempotent] {
            let Some(verdict) = verdict(&row, idempotency) else { continue };
            assert_eq!(verdict.is_without_effect(), row.note.contains("without effect"), "{row:?}");
            // What is sent again although nobody knows that it may be executed twice was not executed.
            let is_proven = idempotency == NotIdempotent && verdict.is_again();
            assert!(verdict.is_without_effect() || !is_proven, "{row:?}");
            count += usize::from(verdict.is_without_effect());
        }
    }
    assert_eq!(count, 2 * (9 + 1 + 1 + 2));
}

/// Whoever cannot log in has executed nothing.
#[test]
fn a_refused_login_has_no_effect() {
    for idempotency in [Idempotent, NotIdempotent] {
        let refused = ["28000", "28P01", "3D000"].map(|code| postgres::sqlstate(code, idempotency));
        let also = [1044, 1045, 1049].map(|number| mysql::number(number, idempotency));
        for verdict in refused.into_iter().chain(also).map(Option::unwrap) {
            assert!(!verdict.is_again() && verdict.is_without_effect(), "{verdict:?}");
        }
    }
}

/// Makes a call whose attempt ends with this verdict.
async fn ends_with(verdict: Verdict) -> GaveUp<&'static str> {
    let policy = RetryPolicy::none().with_classifier(move |_: &&str| verdict);
    let bank = Upstream::new("bank").with_timer(ManualTimer::new());
    retry(|_| std::future::ready(Err::<(), _>("words")), policy, Never).on(&bank).await.unwrap_err()
}

/// PostgreSQL undoes a statement that it cancels, and other servers with the same error may have kept it.
#[tokio::test]
async fn a_statement_that_the_server_cancels_is_in_doubt() {
    let of = |it| postgres::sqlstate("57014", it).unwrap();
    let end = ends_with(of(NotIdempotent)).await;
    assert!(end.is_in_doubt() && !end.is_without_effect());
    let words =
        "gave up after 1 attempt, the request may have been executed and must not be sent again";
    assert_eq!(end.to_string(), format!("bank: {words}"));
    let end = ends_with(of(Idempotent).keyed()).await;
    assert!(!end.is_in_doubt() && !end.is_without_effect());
    assert!(end.to_string().ends_with("may be sent again with its key"), "{end}");
}

/// The end of a statement without a key says what it did. The words of the other codes say what happened.
#[tokio::test]
async fn each_code_of_postgres_says_what_a_statement_did() {
    const OWN_WORDS: [&str; 4] = ["25P02", "26000", "40000", "55006"];
    let mut own = Vec::new();
    for row in rows().into_iter().filter(|row| row.family == "postgres") {
        let code = if row.code == "*" { continue } else { row.code.replace('*', "000") };
        let end = ends_with(postgres::sqlstate(&code, NotIdempotent).unwrap()).await;
        if end.reason() == StopReason::Fatal && !end.is_in_doubt() && !end.is_without_effect() {
            own.push(row.code);
        }
    }
    own.sort_unstable();
    assert_eq!(own, OWN_WORDS);
}

/// The codes that a server gives to a request that it refuses. A library gives each other one to a
/// request that was executed too, and `tonic` gives `OUT_OF_RANGE` and a handler `ABORTED`.
const REFUSED: [Code; 7] = [
    Code::InvalidArgument,
    Code::NotFound,
    Code::AlreadyExists,
    Code::PermissionDenied,
    Code::FailedPrecondition,
    Code::Unimplemented,
    Code::Unauthenticated,
];

/// A pushback says when to come back, and not what happened.
#[test]
fn a_status_is_without_effect_if_its_code_says_so() {
    for number in 1..=16 {
        let code = Code::from_i32(number);
        let is_refused = REFUSED.contains(&code);
        for idempotency in [Idempotent, NotIdempotent] {
            let is_without_effect =
                |status: &Status| grpc::status(status, idempotency).unwrap().is_without_effect();
            assert_eq!(is_without_effect(&Status::new(code, "words")), is_refused, "{code:?}");
            let waits = Status::with_details(code, "words", Bytes::from(details(7, None)));
            let is_named = [Code::ResourceExhausted, Code::Aborted].contains(&code);
            assert_eq!(is_without_effect(&waits), is_refused || is_named, "{code:?}");
            for pushback in ["250", "-1"] {
                let mut pushed = waits.clone();
                pushed.metadata_mut().insert(Pushback::NAME, pushback.parse().unwrap());
                assert!(!is_without_effect(&pushed), "{code:?} {pushback}");
            }
        }
    }
}

/// Makes a call of an order with a key, whose attempts end with these statuses.
async fn order(ends: &[Status]) -> GaveUp<Status> {
    let policy =
        RetryPolicy::new().with_backoff(Backoff::none()).with_classifier(Classifier::idempotent());
    let bank = Upstream::new("bank").with_timer(ManualTimer::new());
    let attempt = |attempt: Attempt| {
        let at = usize::try_from(attempt.number()).unwrap() - 1;
        std::future::ready(Err::<(), _>(ends[at].clone()))
    };
    retry(attempt, policy, Never).on(&bank).await.unwrap_err()
}

/// The answer to the caller of the first one is "failed", and to that of the second one "not known yet".
#[tokio::test]
async fn an_order_with_a_key_has_failed_if_no_attempt_may_be_executed() {
    let refused = Status::invalid_argument("no such size");
    assert!(order(slice::from_ref(&refused)).await.is_without_effect());
    assert!(!order(&[Status::unavailable("down"), refused]).await.is_without_effect());
    assert!(!order(&[Status::out_of_range("page 9 of 8")]).await.is_without_effect());
}

/// A call below has made this status of its last attempt, and an earlier one may have been executed.
#[tokio::test]
async fn the_status_of_a_call_below_tells_of_its_last_attempt_alone() {
    let exists = Status::already_exists("order 7");
    let below = order(&[Status::unavailable("down"), exists]).await;
    let status = grpc::to_status(below);
    assert_eq!(status.code(), Code::AlreadyExists);
    for idempotency in [Idempotent, NotIdempotent] {
        let verdict = grpc::status(&status, idempotency).unwrap();
        assert!(!verdict.is_without_effect());
        // `RetryInfo` stays the hint.
        let code = Code::ResourceExhausted;
        let mut waits = Status::with_details(code, "words", Bytes::from(details(7, None)));
        waits.set_source(Arc::new(io::Error::other("words")));
        let verdict = grpc::status(&waits, idempotency).unwrap();
        assert!(verdict.is_again() && !verdict.is_without_effect());
        assert_eq!(verdict.hint(), Some(Duration::from_secs(7)));
    }
}

/// The last attempt of a call below found no connection, and an earlier one may have been executed.
#[tokio::test]
async fn a_request_that_was_sent_once_was_sent() {
    let refused = || {
        let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
        Status::from_error(ConnectError(refused.into()).into())
    };
    let ends = [vec![Status::unavailable("down"), refused(), refused()], vec![refused(); 3]];
    for (ends, is_known) in ends.iter().zip([false, true]) {
        let below = order(ends).await;
        assert_eq!((below.attempts(), below.is_without_effect()), (3, is_known));
        for (status, idempotency) in [
            (grpc::to_status(order(ends).await), Idempotent),
            (grpc::to_status(order(ends).await.into_boxed()), Idempotent),
            (grpc::to_status(below), NotIdempotent),
        ] {
            let verdict = grpc::status(&status, idempotency).unwrap();
            let facts = (verdict.is_without_effect(), verdict.is_not_sent());
            assert_eq!(facts, (is_known, is_known), "{status:?}");
            // A read comes again all the same.
            assert_eq!(verdict.is_again(), is_known || idempotency == Idempotent);
        }
    }
}
