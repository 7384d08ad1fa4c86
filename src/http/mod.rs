//! Judging the answers of plain HTTP services: which to retry, how long to wait first, and what a repeat may do.
//!
//! A retry of HTTP goes wrong in two ways. It repeats what a repeat cannot mend: a 404 four times over. Or it repeats
//! what has been *done*: the payment was booked, only the answer was lost. So two things decide, the status and the
//! method. RFC 9110 §9.2.2 has the rule: what is not idempotent is not repeated unless it is known that the first
//! request was not applied. [`Classifier`] is that rule as a table:
//!
//! | answer | idempotent | not idempotent | why |
//! |---|---|---|---|
//! | 403 Forbidden with `Retry-After` | retry, throttled | retry, throttled | refused for now, not for good: so GitHub reports its secondary rate limits. Not executed |
//! | 403 Forbidden without | fail | fail | the same credentials are refused again (RFC 9110 §15.5.4) |
//! | 408 Request Timeout | retry | retry | the server did not receive the whole request (RFC 9110 §15.5.9): it had nothing to execute |
//! | 409 Conflict | retry, or [fail](Classifier::with_conflict) | as left | the request could not be completed in the state that the resource was in (§15.5.10): not executed; whether the conflict passes depends on the service |
//! | 413 Content Too Large with `Retry-After` | retry | retry | the condition is temporary (§15.5.14): not executed. It concerns this request, so it is not throttled; a breaker counts it as a failure |
//! | 413 Content Too Large without | fail | fail | the same content is too large again |
//! | 425 Too Early | retry | retry | the server would not process what may be a replay (RFC 8470 §5.2): not executed |
//! | 429 Too Many Requests | retry, throttled | retry, throttled | refused for its rate, in place of being served (RFC 6585 §4) |
//! | 500 Internal Server Error | retry | fail | the server failed on the way: parts may be done |
//! | 502 Bad Gateway | retry | fail | a gateway did not understand the upstream's answer: the upstream had begun |
//! | 503 Service Unavailable | retry; throttled if it says `Retry-After` | fail | meant as "not now", but proxies say it too when the upstream hangs up half-way |
//! | 504 Gateway Timeout | retry | fail | the gateway stopped waiting, the upstream may not have stopped working |
//! | 507 Insufficient Storage with `Retry-After` | retry | fail | the server says that space will be there again; parts may be done |
//! | 507 Insufficient Storage without | fail | fail | must not be repeated without a new action of the user (RFC 4918 §11.5) |
//! | 501, 505, 506, 510 | fail | fail | the server cannot do this, in this version, as configured, or without an extension: it will not learn by the next attempt |
//! | 508 Loop Detected | fail | fail | the resource contains itself (RFC 5842 §7.2), and still does at the next attempt |
//! | 511 Network Authentication Required | fail | fail | a network in between wants a login (RFC 6585 §6): the server never saw the request, and no repeat logs in |
//! | any other 5xx | retry | fail | as 500, which RFC 9110 §15 says to take it for |
//! | any other answer | fail | fail | the request is at fault, or it is no failure |
//! | none: never connected | retry | retry | nobody saw the request: see [`Classifier::unanswered`] |
//! | none: reset, cut off, timed out | retry | fail | it may have been executed |
//!
//! A wait that the service asks for in [`Retry-After`](retry_after) goes along in the verdict, as a floor for the
//! delay; a longer one than the policy's hint cap ends the call.
//!
//! # When not
//!
//! * The service tells its errors in the body of a 200, or says 429 for a quota that only next month refills: judge by
//!   the body, with a classifier of your own that asks this one [`or_else`](crate::Classify::or_else).
//! * The service says 429 or 409 half-way through its work, and the request is not idempotent: judge those yourself.
//! * A client or a proxy underneath already retries: attempts multiply. Switch one of them off.
//!
//! # Examples
//!
//! ```
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! use resile::http::{Classifier, Refused};
//! use resile::{Never, RetryPolicy, retry};
//!
//! const POLICY: RetryPolicy<Classifier> = RetryPolicy::new().with_classify(Classifier::idempotent());
//!
//! # async fn send(attempt: resile::Attempt) -> ::http::Response<&'static str> {
//! #     let answer = ::http::Response::builder();
//! #     let answer = if attempt.is_first() { answer.status(503).header("retry-after", "20") } else { answer };
//! #     answer.body("hello").unwrap()
//! # }
//! async fn get(attempt: resile::Attempt) -> Result<&'static str, Refused> {
//!     let response = send(attempt).await; // the first answer is 503 with `Retry-After: 20`
//!     Refused::check(response.status(), response.headers())?;
//!     Ok(response.into_body())
//! }
//!
//! let before = tokio::time::Instant::now();
//! assert_eq!(retry(get, &POLICY, Never).await.unwrap(), "hello");
//! assert!(before.elapsed().as_secs() >= 20);
//! # }
//! ```
//!
//! `examples/quickstart` has it all with `reqwest`: timeouts, failures without an answer, an error type of one's own.

mod classifier;
mod refused;

pub use classifier::Classifier;
pub use refused::{Refused, retry_after};
#[cfg(feature = "llm")]
pub(crate) use refused::{answered, wall_clock};
