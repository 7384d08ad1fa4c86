use std::error::Error;
use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{HeaderValue, Response, StatusCode};
use resile::http::headers::retry_after_secs;
use resile::{GaveUp, Health, StopReason};

use crate::below::call_below;

/// The refusal of a request, as an answer: 429 or 503 with `Retry-After`.
///
/// A call that gave up is a refusal if a part of its upstream refused it, or if the upstream itself
/// asked for fewer requests:
///
/// | the call ended | status |
/// |---|---|
/// | because the caller's own limit is used up ([`is_own_limit`](resile::Verdict::is_own_limit)), or its cost is larger than the quota's burst | 429 Too Many Requests |
/// | because a breaker is open, a bulkhead, its queue or that of a quota is full, a budget is spent, or a wait was too long to wait for | 503 Service Unavailable |
/// | because another throttling was the last failure, or the process shuts down | 503 Service Unavailable |
/// | as in the first row, but an order with a [key](resile::Verdict::keyed) or one in [doubt](GaveUp::is_in_doubt) may have been executed before. A caller would read "not executed" from a 429 | 503 Service Unavailable |
/// | otherwise: an error of the service, or no answer in time | no refusal |
///
/// `Retry-After` is [`GaveUp::retry_after`] in whole seconds, rounded up. Without a known wait there is
/// no header.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use resile_tower::resile::{Breaker, Upstream, Verdict};
/// use resile_tower::server::Refusal;
///
/// static STORE: Upstream = Upstream::new("store")
///     .with_breaker(Breaker::new().with_consecutive(1));
///
/// // One failure opens the breaker.
/// STORE.try_admit().unwrap().settle(&Verdict::transient());
/// let gave_up = STORE.try_admit().unwrap_err();
/// let answer: http::Response<String> = Refusal::of(&gave_up).unwrap().response();
/// assert_eq!(answer.status(), 503);
/// assert!(answer.headers().contains_key("retry-after"));
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Refusal {
    status: StatusCode,
    retry_after: Option<Duration>,
}

impl Refusal {
    /// Returns the refusal at the end of a call. `None` if the call ended otherwise.
    #[must_use]
    pub fn of<E>(gave_up: &GaveUp<E>) -> Option<Self> {
        let verdict = gave_up.verdict();
        let is_throttled = verdict.is_some_and(|verdict| verdict.health() == Health::Throttling);
        let is_refusal = match gave_up.reason() {
            StopReason::Open
            | StopReason::Throttled
            | StopReason::Full
            | StopReason::TooLarge
            | StopReason::HintTooLong
            | StopReason::Cancelled => true,
            // A budget or a deadline that ended the retries of another failure is that failure.
            StopReason::Budget | StopReason::Deadline => {
                gave_up.attempts() == 0 && gave_up.cut().is_none()
            }
            _ => false,
        };
        let is_own = verdict.is_some_and(|verdict| verdict.is_own_limit())
            || gave_up.reason() == StopReason::TooLarge;
        // A caller reads a 429 as "not executed", and sends an order again.
        let may_matter = gave_up.conclusion_if_first().may_matter();
        (is_refusal || is_throttled).then(|| Self {
            status: if is_own && !may_matter {
                StatusCode::TOO_MANY_REQUESTS
            } else {
                StatusCode::SERVICE_UNAVAILABLE
            },
            retry_after: gave_up.retry_after(),
        })
    }

    /// Returns the refusal in the chain of an error: that of a [`GaveUp<Boxed>`](GaveUp), which the
    /// layers of this crate return.
    #[must_use]
    pub fn find(error: &(dyn Error + 'static)) -> Option<Self> {
        call_below(error).and_then(Self::of)
    }

    /// Sets another status, such as 429 for a server that has an upstream for each caller.
    #[must_use]
    pub const fn with_status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    /// Returns the status: 429 or 503, or that of [`with_status`](Self::with_status).
    #[must_use]
    pub const fn status(&self) -> StatusCode {
        self.status
    }

    /// Returns the wait until the next request if it is known.
    #[must_use]
    pub const fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// Returns the answer, with an empty body.
    pub fn response<B: Default>(self) -> Response<B> {
        let mut answer = Response::new(B::default());
        *answer.status_mut() = self.status;
        if let Some(wait) = self.retry_after {
            answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from(retry_after_secs(wait)));
        }
        answer
    }
}
