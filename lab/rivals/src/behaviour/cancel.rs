//! Trap 4: a cancellation during the wait for the next attempt.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use resile::{Backoff, RetryPolicy};
use tokio_util::sync::CancellationToken;

use super::Section;
use super::retrier::{RETRIERS, Retrier, op};
use crate::job::{self, Fault, count};

const DELAY: Duration = Duration::from_secs(100);

pub fn seen() -> Section {
    let mut rows = vec![("**resile**", reported(|token| Box::pin(resiled(token))))];
    for who in RETRIERS {
        if who != Retrier::Resile && !who.never_waits() {
            rows.push((who.name(), reported(|token| Box::pin(composed(who, token)))));
        }
    }
    Section {
        title: "4. Cancellation",
        tried: "The first attempt fails. The token is cancelled while the call waits 100 s for the second. All crates except \
                resile run in `run_until_cancelled`.",
        columns: &["ends", "what the caller gets", "attempts if the token is cancelled already"],
        rows,
    }
}

fn reported(
    call: impl Fn(CancellationToken) -> Pin<Box<dyn Future<Output = String>>>,
) -> Vec<String> {
    let token = CancellationToken::new();
    let mut running = call(token.clone());
    let mut cx = Context::from_waker(Waker::noop());
    let waits = running.as_mut().poll(&mut cx).is_pending();
    token.cancel();
    let (ends, said) = match running.as_mut().poll(&mut cx) {
        Poll::Ready(said) if waits => ("at once", said),
        _ => ("not at once", String::new()),
    };
    job::reset();
    let cancelled = CancellationToken::new();
    cancelled.cancel();
    let _ = call(cancelled).as_mut().poll(&mut cx);
    vec![ends.to_owned(), said, job::attempts().to_string()]
}

async fn fails() -> Result<u64, Fault> {
    count();
    Err(Fault::Failed)
}

async fn resiled(token: CancellationToken) -> String {
    let policy = RetryPolicy::new().with_backoff(Backoff::fixed(DELAY));
    match resile::retry(|_| fails(), &policy, &token).await {
        Err(e) => format!("`StopReason::{:?}`, last error: {:?}", e.reason(), e.last()),
        Ok(_) => "an answer".to_owned(),
    }
}

async fn composed(who: Retrier, token: CancellationToken) -> String {
    // seatbelt's clock would advance by itself. An endless delay stands for a long one.
    let delay = if who == Retrier::Seatbelt { Duration::MAX } else { DELAY };
    match token.run_until_cancelled(who.call(3, delay, op(fails))).await {
        Some(outcome) => format!("{outcome:?}"),
        None => "`None`".to_owned(),
    }
}
