//! `grpc::Failure`: the words of gRPC, and the facts of its status.

use std::error::Error;
use std::fmt;
use std::io;
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use resile_clients::Classifier;
use resile_clients::grpc::{self, Failure, Pushback};
use resile_clients::resile::classify::Cut;
use resile_clients::resile::time::ManualTimer;
use resile_clients::resile::{
    Attempt, Backoff, Classify, GaveUp, Never, ResilienceExt, RetryPolicy, Upstream, retry,
};
use tonic::{Code, ConnectError, Status};

const READ: Classifier = Classifier::idempotent().with_place("/bank.Bank/Amount");
const ORDER: Classifier = Classifier::non_idempotent();

/// No connection was made, so `tonic` made this status.
fn refused() -> Status {
    let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
    Status::from_error(ConnectError(io::Error::other(refused).into()).into())
}

/// The connection was lost with the answer.
fn lost() -> Status {
    let mut status = Status::unknown("transport error");
    status.set_source(Arc::new(io::Error::from(io::ErrorKind::ConnectionReset)));
    status
}

/// An error as that of the transport of `tonic`.
#[derive(Debug)]
struct Transport(Box<dyn Error + Send + Sync>);

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("transport error")
    }
}

impl Error for Transport {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.0)
    }
}

/// The same two as the transport of `tonic` has them.
fn in_transport() -> [Status; 2] {
    let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
    let refused = ConnectError(io::Error::other(refused).into()).into();
    let lost = io::Error::from(io::ErrorKind::ConnectionReset).into();
    [refused, lost].map(|cause| Status::from_error(Transport(cause).into()))
}

/// Makes a call whose attempts end with these statuses.
async fn call<E>(classifier: impl Classify<E>, ends: &[Status]) -> GaveUp<E>
where
    E: Error + From<Status> + 'static,
{
    let policy = RetryPolicy::new().with_backoff(Backoff::none()).with_classifier(classifier);
    let attempt = async |attempt: Attempt| -> Result<(), E> {
        let at = usize::try_from(attempt.number()).unwrap() - 1;
        Err(ends[at.min(ends.len() - 1)].clone())?
    };
    let bank = Upstream::new("bank").with_timer(ManualTimer::new());
    retry(attempt, policy, Never).on(&bank).await.unwrap_err()
}

#[tokio::test]
async fn the_end_of_a_call_has_the_name_of_the_code_and_each_cause_once() {
    let place = "/bank.Bank/Amount";
    let [refused_below, lost_below] = in_transport();
    for (status, words) in [
        (refused_below, "UNAVAILABLE: connection refused"),
        (lost_below, "UNKNOWN: connection reset"),
        (Status::not_found("no such account"), "NOT_FOUND: no such account"),
        (Status::unavailable("the server\nrestarts"), "UNAVAILABLE: the server\\nrestarts"),
        (Status::internal(""), "INTERNAL"),
        (Status::new(Code::from_i32(99), "odd"), "UNKNOWN: odd"),
        (refused(), "UNAVAILABLE: connection refused"),
        (lost(), "UNKNOWN: connection reset"),
    ] {
        let end = call::<Failure>(READ, &[status]).await;
        let line = format!("{end:#}");
        assert!(line.ends_with(&format!(": {place}: {words}")), "{line}");
    }
}

/// The words alone differ from those of a status.
#[test]
fn a_failure_has_the_verdict_the_word_and_the_place_of_its_status() {
    let mut waits = Status::resource_exhausted("slow down");
    waits.metadata_mut().insert(Pushback::NAME, 600.into());
    let codes = (1..=16).map(|code| Status::new(Code::from_i32(code), "words"));
    for status in codes.chain([refused(), lost(), waits]).chain(in_transport()) {
        let failure = Failure::from(status.clone());
        for classifier in [READ, ORDER] {
            assert_eq!(classifier.classify(&failure), classifier.classify(&status));
            assert_eq!(classifier.error_type(&failure), classifier.error_type(&status));
            let cut = Classify::<Status>::classify_cut(&classifier, Cut::Deadline);
            assert_eq!(Classify::<Failure>::classify_cut(&classifier, Cut::Deadline), cut);
            let place = Classify::<Status>::place(&classifier);
            assert_eq!(Classify::<Failure>::place(&classifier), place);
        }
        let sources = [failure.source(), status.source()].map(|it| it.map(ToString::to_string));
        assert_eq!(sources[0], sources[1]);
        let (code, message) = (failure.code(), failure.message().to_owned());
        let again = Status::from(failure);
        assert_eq!((again.code(), again.message()), (code, message.as_str()));
    }
}

/// A limit of the program, such as that on a silence of a stream, is as a cut of the policy.
#[tokio::test]
async fn a_missed_limit_is_a_cut() {
    let timer = ManualTimer::new();
    let bank = Upstream::new("bank").with_timer(timer.clone());
    let limit = Duration::from_secs(2);
    let silent = std::future::pending::<Result<(), Failure>>();
    let (ended, ()) = tokio::join!(silent.timeout(limit).on(&bank), async {
        timer.advance(limit);
    });
    let failure = ended.unwrap_err();
    assert_eq!(failure.to_string(), "DEADLINE_EXCEEDED: did not finish within 2s");
    assert_eq!(format!("{failure:#}"), failure.to_string());
    for classifier in [READ, ORDER, Classifier::keyed()] {
        let verdict = classifier.verdict(&failure).unwrap();
        let cut = Classify::<Failure>::classify_cut(&classifier, Cut::AttemptTimeout(limit));
        assert_eq!((Some(verdict), verdict.is_keyed()), (cut, cut.unwrap().is_keyed()));
    }
    let status = Status::from(failure);
    let order = call::<Failure>(ORDER, slice::from_ref(&status)).await;
    assert!(order.is_in_doubt());
    assert_eq!(grpc::to_status(order).code(), Code::DeadlineExceeded);
    assert_eq!(call::<Failure>(READ, slice::from_ref(&status)).await.attempts(), 3);
}

/// So is that of a call below, whose earlier attempt may have been executed.
#[tokio::test]
async fn the_status_of_a_call_is_the_same() {
    let mut limited = Status::resource_exhausted("slow down");
    limited.metadata_mut().insert("x-limit", 7.into());
    let ends = [
        vec![Status::not_found("no such account")],
        vec![limited],
        vec![refused()],
        vec![lost()],
        vec![Status::unavailable("down"), refused(), refused()],
    ];
    for ends in ends.into_iter().chain(in_transport().map(|status| vec![status])) {
        for classifier in [READ, ORDER] {
            let status = grpc::to_status(call::<Status>(classifier, &ends).await);
            let same = grpc::to_status(call::<Failure>(classifier, &ends).await);
            assert_eq!((same.code(), same.message()), (status.code(), status.message()));
            assert_eq!(same.metadata().get("x-limit"), status.metadata().get("x-limit"));
            assert_eq!(READ.verdict(&same), READ.verdict(&status));
            assert_eq!(ORDER.verdict(&same), ORDER.verdict(&status));
            assert!(same.source().unwrap().is::<GaveUp<Failure>>());
            assert!(!same.message().contains("transport error: "), "{same:?}");
        }
    }
}

/// An error of a program around a status.
#[derive(Debug)]
struct Own(Status);

impl fmt::Display for Own {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no amount")
    }
}

impl From<Status> for Own {
    fn from(status: Status) -> Self {
        Self(status)
    }
}

impl Error for Own {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.0)
    }
}

/// The words of a status that no server has sent are those of the log, with the place and the name of the code.
#[tokio::test]
async fn the_words_of_such_a_status_are_those_of_the_log() {
    let ends = [refused(), lost()].into_iter().chain(in_transport());
    for (classifier, place) in [(READ, "/bank.Bank/Amount: "), (ORDER, "")] {
        for status in ends.clone() {
            let end = call::<Failure>(classifier, slice::from_ref(&status)).await;
            let (short, log) = (end.to_string(), format!("{end:#}"));
            let code = grpc::name(status.code().into()).unwrap();
            assert!(log.starts_with(&format!("{short}: {place}{code}: ")), "{log}");
            assert_eq!(grpc::to_status(end).message(), log);
            let end = call::<Status>(classifier, slice::from_ref(&status)).await;
            assert_eq!(grpc::to_status(end).message(), log);
            let end = call::<Status>(classifier, slice::from_ref(&status)).await.into_boxed();
            assert_eq!(grpc::to_status(end).message(), log);
            // With no more than the words of the status the place is lost.
            let end = call::<Status>(classifier, slice::from_ref(&status)).await.map(|it| it);
            assert_eq!(grpc::to_status(end).message(), log.replacen(place, "", 1));
            let own = classifier.over(|clients, own: &Own| clients.verdict(&own.0));
            let end = call::<Own>(own, slice::from_ref(&status)).await;
            let between = log.replacen(&short, &format!("{short}: no amount"), 1);
            let between =
                between.replacen(&format!("no amount: {place}"), &format!("{place}no amount: "), 1);
            assert_eq!(grpc::to_status(end).message(), between);
        }
    }
}
