//! `grpc::to_status`: what the next caller reads of the end of a call.

use std::error::Error;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use resile_clients::Classifier;
use resile_clients::grpc::{self, Failure, Pushback};
use resile_clients::resile::time::ManualTimer;
use resile_clients::resile::{
    Attempt, Backoff, Breaker, Classify, Cooldown, GaveUp, Health, Never, RetryPolicy, Upstream,
    Verdict, retry,
};
use tonic::{Code, ConnectError, Status};

use super::tonic::details;

const SECOND: Duration = Duration::from_secs(1);

const DAY: Duration = Duration::from_secs(86_400);

/// The end of an attempt.
#[derive(Clone, Debug)]
pub(crate) enum End {
    /// The timeout cut it, while the server executed its request.
    Cut,
    Status(Status),
}

pub(crate) fn limited(code: Code) -> Status {
    Status::with_details(code, "slow down", Bytes::from(details(7, None)))
}

fn pushed(code: Code, wait: i32) -> Status {
    let mut status = Status::new(code, "busy");
    status.metadata_mut().insert(Pushback::NAME, wait.into());
    status.metadata_mut().insert("x-limit", 9.into());
    status
}

pub(crate) fn refused() -> Status {
    let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
    Status::from_error(ConnectError(refused.into()).into())
}

pub(crate) fn ends() -> Vec<End> {
    let codes = || (1..=16).map(Code::from_i32);
    let plain = codes().map(|code| Status::new(code, "words"));
    let waits = codes().flat_map(|code| [limited(code), pushed(code, 600), pushed(code, -1)]);
    let statuses = plain.chain(waits).chain([refused()]).map(End::Status);
    statuses.chain([End::Cut]).collect()
}

/// Makes a call whose attempts end so. The last end counts for all further attempts. There is time for one wait of
/// `RetryInfo`, and not for two.
async fn call<E>(classifier: Classifier, ends: &[End]) -> GaveUp<E>
where
    E: Error + From<Status> + 'static,
    Classifier: Classify<E>,
{
    let policy = RetryPolicy::new()
        .with_backoff(Backoff::none())
        .with_attempt_timeout(SECOND)
        .with_total_timeout(10 * SECOND)
        .with_classifier(classifier.with_place("/bank.Bank/Pay"));
    let attempt = async |attempt: Attempt| {
        let at = usize::try_from(attempt.number()).unwrap() - 1;
        match &ends[at.min(ends.len() - 1)] {
            End::Cut => std::future::pending().await,
            End::Status(status) => Err::<(), _>(E::from(status.clone())),
        }
    };
    let timer = ManualTimer::new();
    let bank = Upstream::new("bank").with_timer(timer.clone());
    let mut call = pin!(retry(attempt, policy, Never).on(&bank));
    loop {
        match poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx))).await {
            Poll::Ready(ended) => return ended.unwrap_err(),
            Poll::Pending => timer.advance(SECOND),
        }
    }
}

/// Returns the status as the next caller gets it, which has no source.
pub(crate) fn on_the_wire(status: Status) -> Status {
    let answer = status.into_http::<()>();
    let status = Status::from_header_map(answer.headers()).unwrap();
    assert!(status.source().is_none());
    status
}

/// A later process knows of a call only its status. So no status denies an effect that the call may have had.
#[tokio::test]
async fn no_status_denies_an_effect_that_the_call_may_have_had() {
    let (order, key) = (Classifier::non_idempotent(), Classifier::keyed());
    let mut doubtful = 0;
    for first in ends() {
        for second in ends() {
            let ends = [first.clone(), second.clone()];
            for classifier in [order, key] {
                let ended = call::<Failure>(classifier, &ends).await;
                if ended.is_without_effect() {
                    continue;
                }
                doubtful += 1;
                let words = ended.to_string();
                let boxed = call::<Status>(classifier, &ends).await.into_boxed();
                let only_call =
                    grpc::to_status_of_only_call(call(classifier, &ends).await as GaveUp<Failure>);
                for status in [grpc::to_status(ended), grpc::to_status(boxed), only_call] {
                    let wire = on_the_wire(status);
                    let order = order.verdict(&wire).unwrap();
                    assert!(!order.is_again(), "{ends:?}: {words}: {wire}");
                    assert!(!order.is_without_effect(), "{ends:?}: {words}: {wire}");
                    let keyed = key.verdict(&wire).unwrap();
                    assert!(!keyed.is_without_effect(), "{ends:?}: {words}: {wire}");
                }
            }
        }
    }
    assert!(doubtful > 5_000, "{doubtful}");
}

/// The error of a program around the status of the last attempt.
#[derive(Debug)]
struct Own(Status);

impl fmt::Display for Own {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no payment")
    }
}

impl Error for Own {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.0)
    }
}

/// The function of the program judges this code itself, and says nothing of the key.
#[tokio::test]
async fn a_judge_of_the_program_does_not_hide_the_key() {
    let keyed = Classifier::keyed().over(|clients, own: &Own| match own.0.code() {
        Code::InvalidArgument => Some(Verdict::fatal().with_health(Health::Healthy)),
        _ => clients.verdict(&own.0),
    });
    let policy = RetryPolicy::new().with_backoff(Backoff::none()).with_classifier(keyed);
    let attempt = async |attempt: Attempt| {
        Err::<(), _>(Own(if attempt.is_first() {
            Status::unavailable("down")
        } else {
            Status::invalid_argument("no such account")
        }))
    };
    let bank = Upstream::new("bank").with_timer(ManualTimer::new());
    let status = grpc::to_status(retry(attempt, policy, Never).on(&bank).await.unwrap_err());
    assert_eq!(status.code(), Code::Unknown);
    let words = "bank: gave up after 2 attempts, the error is final, the request may have been executed and may be \
                 sent again with its key: no payment: INVALID_ARGUMENT: no such account";
    assert_eq!(status.message(), words);
}

/// The next caller learns the wait, and this one keeps the status of the server.
#[tokio::test]
async fn the_wait_and_the_metadata_of_the_last_answer_stay() {
    let details = Bytes::from(details(60, None));
    let mut last = Status::with_details(Code::ResourceExhausted, "slow down", details);
    last.metadata_mut().insert("x-limit", 9.into());
    let ends = [End::Cut, End::Status(last.clone())];
    let ended = call::<Failure>(Classifier::keyed(), &ends).await;
    let status = grpc::to_status(ended);
    let gave_up = status.source().unwrap().downcast_ref::<GaveUp<Failure>>().unwrap();
    assert_eq!(gave_up.last().unwrap().code(), Code::ResourceExhausted);
    let wire = on_the_wire(status);
    assert_eq!((wire.code(), wire.details()), (Code::Unknown, &b""[..]));
    assert_eq!(wire.metadata().get("x-limit").unwrap(), "9");
    assert_eq!(wire.metadata().get(Pushback::NAME).unwrap(), "60000");
    let words = "an earlier attempt may have been executed, the request may be sent again with its key: \
                 /bank.Bank/Pay: RESOURCE_EXHAUSTED: slow down";
    assert!(wire.message().ends_with(words), "{wire}");
    for (classifier, is_again) in [
        (Classifier::keyed(), true),
        (Classifier::idempotent(), true),
        (Classifier::non_idempotent(), false),
    ] {
        let verdict = classifier.verdict(&wire).unwrap();
        assert_eq!(verdict.is_again(), is_again);
        assert_eq!(verdict.hint(), Some(60 * SECOND));
    }
    // Nobody asks for the effect of a read.
    let ended = call::<Failure>(Classifier::idempotent(), &ends).await;
    let wire = on_the_wire(grpc::to_status(ended));
    assert_eq!((wire.code(), wire.details()), (last.code(), last.details()));
    assert_eq!(wire.message(), "slow down");
}

/// A breaker knows its wait, and the server was not asked.
#[tokio::test]
async fn a_refusal_of_the_own_side_tells_its_wait() {
    let timer = ManualTimer::new();
    let bank =
        Upstream::new("bank").with_timer(timer).with_breaker(Breaker::new().with_consecutive(1));
    let policy = |classifier| RetryPolicy::none().with_classifier(classifier);
    let down = async |classifier| {
        let call =
            retry(async |_| Err::<(), _>(Status::unavailable("down")), policy(classifier), Never);
        call.on(&bank).await.unwrap_err()
    };
    let answer = on_the_wire(grpc::to_status(down(Classifier::idempotent()).await));
    assert!(answer.metadata().get(Pushback::NAME).is_none(), "the status of the server stays");
    for classifier in [Classifier::idempotent(), Classifier::keyed(), Classifier::non_idempotent()]
    {
        let ended = down(classifier).await;
        let open = ended.retry_after().unwrap();
        assert!(ended.attempts() == 0 && ended.is_without_effect());
        let wire = on_the_wire(grpc::to_status(ended));
        assert_eq!(wire.code(), Code::Unavailable);
        let hint = classifier.verdict(&wire).unwrap().hint().unwrap();
        assert!(hint >= open && hint < open + Duration::from_millis(1), "{hint:?} {open:?}");
        let is_again = classifier.verdict(&wire).unwrap().is_again();
        assert_eq!(is_again, classifier.is_idempotent());
    }
    // A wait that no number of 32 bits has is not read as "no retry".
    let held = Upstream::new("bank").with_timer(ManualTimer::new());
    let held = held.with_cooldown(Cooldown::new().with_cap(90 * DAY));
    held.hold(90 * DAY);
    let policy = policy(Classifier::idempotent()).with_total_timeout(SECOND);
    let call = retry(async |_| Ok::<_, Status>(()), policy, Never).on(&held);
    let status = grpc::to_status(call.await.unwrap_err());
    assert_eq!(status.code(), Code::DeadlineExceeded);
    assert_eq!(status.metadata().get(Pushback::NAME).unwrap(), &i32::MAX.to_string());
}

/// The attempt that was cut has no words of the server, so those of an earlier one are the cause.
#[tokio::test]
async fn a_status_after_a_cut_has_the_words_of_the_earlier_failure() {
    let down = End::Status(Status::unavailable("the server says so"));
    for earlier in [down, End::Status(refused())] {
        let ends = [earlier, End::Cut];
        let failure: GaveUp<Failure> = call(Classifier::idempotent(), &ends).await;
        let words = format!("{failure:#}");
        assert!(words.contains("; an earlier attempt failed: UNAVAILABLE: "), "{words}");
        assert_eq!(grpc::to_status(failure).message(), words);
        let status: GaveUp<Status> = call(Classifier::idempotent(), &ends).await;
        assert_eq!(grpc::to_status(status).message(), words);
        let boxed = call::<Status>(Classifier::idempotent(), &ends).await.into_boxed();
        assert_eq!(grpc::to_status(boxed).message(), words);
    }
}
