//! Classifies the answers of plain HTTP services: may the request be sent again, after how long, and how is the upstream.
//!
//! A retry of HTTP goes wrong in two ways. It repeats what a repeat does not help: a 404 four times over. Or it repeats
//! what has been *done*: the payment was booked, only the answer was lost. So two things decide, the status and the
//! method. RFC 9110 §9.2.2 has the rule: what is not idempotent is not repeated unless it is known that the first
//! request was not applied. [`Classifier`] is that rule as a table:
//!
//! | answer | sent again, idempotent | sent again, not idempotent | health | why |
//! |---|---|---|---|---|
//! | 403 Forbidden with `Retry-After` | yes | yes | throttling | refused for now, not for good: so GitHub reports its secondary rate limits. Not executed |
//! | 403 Forbidden without | no | no | healthy | the same credentials are refused again (RFC 9110 §15.5.4) |
//! | 408 Request Timeout | yes | yes | failing | the server did not receive the whole request (RFC 9110 §15.5.9): it had nothing to execute |
//! | 409 Conflict | yes, or [no](Classifier::with_conflict) | as left | healthy | the request could not be completed in the state that the resource was in (§15.5.10): not executed; whether the conflict passes depends on the service |
//! | 413 Content Too Large with `Retry-After` | yes | yes | failing | the condition is temporary (§15.5.14): not executed. It concerns this request, so it holds no other |
//! | 413 Content Too Large without | no | no | healthy | the same content is too large again |
//! | 425 Too Early | yes | yes | failing | the server would not process what may be a replay (RFC 8470 §5.2): not executed |
//! | 429 Too Many Requests | yes | yes | throttling | refused for its rate, in place of being served (RFC 6585 §4) |
//! | 500 Internal Server Error | yes | no | failing | the server failed on the way: parts may be done |
//! | 502 Bad Gateway | yes | no | failing | a gateway did not understand the upstream's answer: the upstream had begun |
//! | 503 Service Unavailable | yes | no | failing; throttling if it says `Retry-After` | meant as "not now", but proxies say it too when the upstream hangs up half-way |
//! | 504 Gateway Timeout | yes | no | failing | the gateway stopped waiting, the upstream may not have stopped working |
//! | 507 Insufficient Storage with `Retry-After` | yes | no | failing | the server says that space will be there again; parts may be done |
//! | 507 Insufficient Storage without | no | no | failing | must not be repeated without a new action of the user (RFC 4918 §11.5) |
//! | 501, 505, 506, 510 | no | no | healthy | the server cannot do this, in this version, as configured, or without an extension: it will not learn by the next attempt |
//! | 508 Loop Detected | no | no | healthy | the resource contains itself (RFC 5842 §7.2), and still does at the next attempt |
//! | 511 Network Authentication Required | no | no | unknown | a network in between wants a login (RFC 6585 §6): the server never saw the request, and no repeat logs in |
//! | any other 5xx | yes | no | failing | as 500, which RFC 9110 §15 says to take it for |
//! | any other answer | no | no | healthy | the request is at fault, or it is no failure |
//! | none: never connected | yes | yes | failing | nobody saw the request: see [`Classifier::unanswered`] |
//! | none: reset, cut off, timed out | yes | no | failing | it may have been executed |
//!
//! A wait that the service asks for in [`Retry-After`](retry_after) goes along in the verdict, as a floor for the
//! delay; a longer one than the policy's hint cap ends the call.
//!
//! # When not
//!
//! * The service tells its errors in the body of a 200, or says 429 for a quota that only next month refills: classify
//!   by the body, with a classifier of your own ahead of this one: `(mine, Classifier::idempotent())`.
//! * The service says 429 or 409 half-way through its work, and the request is not idempotent: classify those yourself.
//! * A client or a proxy underneath already retries: attempts multiply. Switch one of them off.
//!
//! # Examples
//!
//! ```
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! use resile::http::{Classifier, StatusError};
//! use resile::{Never, RetryPolicy, retry};
//!
//! const POLICY: RetryPolicy<Classifier> = RetryPolicy::new().with_classifier(Classifier::idempotent());
//!
//! # async fn send(attempt: resile::Attempt) -> ::http::Response<&'static str> {
//! #     let answer = ::http::Response::builder();
//! #     let answer = if attempt.is_first() { answer.status(503).header("retry-after", "20") } else { answer };
//! #     answer.body("hello").unwrap()
//! # }
//! async fn get(attempt: resile::Attempt) -> Result<&'static str, StatusError> {
//!     let response = send(attempt).await; // the first answer is 503 with `Retry-After: 20`
//!     StatusError::check(response.status(), response.headers())?;
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
mod error;
#[cfg(feature = "reqwest")]
mod reqwest;

pub use classifier::Classifier;
pub use error::{StatusError, retry_after, retry_after_secs};
#[cfg(feature = "llm")]
pub(crate) use error::{answered, wall_clock};
