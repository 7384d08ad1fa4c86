//! Classification of HTTP answers: repeatability, wait and health of the upstream.
//!
//! The [guide](crate::guide) has a chapter on classifying.
//!
//! A retry over HTTP can go wrong in two ways. It repeats a request although a repetition does not
//! help: a 404 four times over. Or it repeats a request that was *executed*: the payment was booked
//! and only the answer was lost. Therefore the status and the method decide together. RFC 9110
//! §9.2.2 has the rule: a request that is not idempotent is only repeated if the first one is known
//! not to have been applied. [`Classifier`] is this rule as a table:
//!
//! | answer | sent again, idempotent | sent again, not idempotent | health | why |
//! |---|---|---|---|---|
//! | 403 Forbidden with `Retry-After` | yes | yes | throttling, own limit | the request is refused for now, not for good: GitHub reports its secondary rate limits in this way. Not executed |
//! | 403 Forbidden without | no | no | healthy | the same credentials are refused again (RFC 9110 §15.5.4) |
//! | 408 Request Timeout | yes | yes | failing | the server did not receive the whole request (RFC 9110 §15.5.9), so it had nothing to execute |
//! | 409 Conflict | yes, or [no](Classifier::with_conflict) | same as left | healthy | the state of the resource prevented the request (§15.5.10). Not executed. Whether the conflict passes depends on the service |
//! | 413 Content Too Large with `Retry-After` | yes | yes | failing | the condition is temporary (§15.5.14). Not executed. It concerns only this request, so no other request is held |
//! | 413 Content Too Large without | no | no | healthy | the same content is too large again |
//! | 425 Too Early | yes | yes | failing | the server refused to process a possible replay (RFC 8470 §5.2). Not executed |
//! | 429 Too Many Requests | yes | yes | throttling, own limit | the request was refused for its rate instead of being served (RFC 6585 §4) |
//! | 500 Internal Server Error | yes | no | failing | the server failed on the way: parts may be done |
//! | 502 Bad Gateway | yes | no | failing | a gateway did not understand the upstream's answer: the upstream had begun |
//! | 503 Service Unavailable | yes | no | failing, or throttling by an overload with `Retry-After` | it means "not now", but proxies also send it when the upstream closes the connection half-way |
//! | 504 Gateway Timeout | yes | no | failing | the gateway stopped waiting, but the upstream may not have stopped working |
//! | 507 Insufficient Storage with `Retry-After` | yes | no | failing | the server says that space will be available again. Parts may be done |
//! | 507 Insufficient Storage without | no | no | failing | the request must not be repeated without a new action of the user (RFC 4918 §11.5) |
//! | 501, 505, 506, 510 | no | no | healthy | the server cannot do this at all, in this version, as configured, or without an extension. Not executed, and the next attempt changes nothing |
//! | 508 Loop Detected | no | no | healthy | the resource contains itself (RFC 5842 §7.2), also at the next attempt. The whole operation has failed |
//! | 511 Network Authentication Required | no | no | unknown | a network on the way requires a login (RFC 6585 §6): the server never saw the request, and a repetition does not log in |
//! | any other 5xx | yes | no | failing | treated as 500, as RFC 9110 §15 says |
//! | 499 | no | no | healthy | a proxy says that its caller closed the connection, so the call is in doubt if the request is not idempotent |
//! | any other answer | no | no | healthy | the request is at fault, or there is no failure |
//! | 2xx that the program does not understand | no | no | healthy | the whole answer arrived, and the next one has the same form, see [`Failure::not_understood`]. The server has executed the request, most likely, so the call is in doubt if the request is not idempotent |
//! | 301 Moved Permanently, 302 Found that the client does not follow | no | no | healthy | the same redirect comes again. Many services send it after the execution, as a 303, so the call is in doubt if the request is not idempotent |
//! | 307 Temporary Redirect, 308 Permanent Redirect that the client does not follow | no | no | healthy | the same redirect comes again. The request is to be sent elsewhere (RFC 9110 §15.4.8), so it was not executed |
//! | 303 See Other that the client does not follow | no | no | healthy | not a failure: `http::error_for_status` and [`Failure::check`] return the answer. A request with an effect was executed, and the result is elsewhere (§15.4.4). For a read it is an `Ok` whose body is usually empty, so let the client of the reads [follow redirects](#redirects) |
//! | a redirect that the client follows | as the answer of its target | **as the answer of its target** | as the target | the crate sees only the last answer. A `POST` that was executed before a 303 is sent again if the target answers 429, so such a client must [follow none](#redirects) |
//! | redirects that the client does not follow to their end | no | no | healthy | the same redirects come again. The first one may come after the execution (303), so the call is in doubt if the request is not idempotent |
//! | none: never connected | yes | yes | failing | no server saw the request, see [`Classifier::not_sent`] |
//! | none: reset, cut off, timed out | yes | no | failing | the request may have been executed, see [`Classifier::unanswered`] |
//! | one whose body breaks off, or is cut | yes | no | failing | the server has answered, so the request may well have been executed. The rest of the answer is lost |
//!
//! The verdict also carries the wait from [`Retry-After`](headers::retry_after) as a minimum for
//! the delay, and a wait above the policy's hint cap ends the call. A `Retry-After` of zero, or with a date
//! in the past, counts as none here and in the table.
//!
//! [`limits`] reads the limits that many services report with each answer, and [`learn`] passes
//! them to the [quota](crate::quota) of the current attempt.
//!
//! # Redirects
//!
//! `reqwest` follows redirects by default, and its answer does not tell it. A `POST` is executed, the
//! server answers 303 and the client asks for the result. If that second request fails, its failure looks like
//! the failure of the `POST`: after a 429, a 409 or a refused connection the order is sent twice, and after a 404
//! the call is said to be without effect. So a client with a request that is not idempotent follows none:
//!
//! ```
//! # fn client() -> reqwest::Result<reqwest::Client> {
//! reqwest::Client::builder()
//!     .retry(reqwest::retry::never())
//!     .redirect(reqwest::redirect::Policy::none())
//!     .build()
//! # }
//! ```
//!
//! Its 303 is then an `Ok` with this status, and the `Location` names the result. The body is usually empty, so read
//! the status before the body. A 301, 302, 307 or 308 is a
//! [`Failure`] whose [`headers`](Failure::headers) have the `Location`. Reads have a client of their own that follows
//! redirects, because a read has nothing of a 303 that nobody follows. Clients of `hyper` follow no redirects. A request
//! with an `Idempotency-Key` is not executed twice, but without this setting the words on its end may be wrong too.
//!
//! # When not
//!
//! * The service reports its errors in the body of a 200 or answers 429 for a quota that renews
//!   only next month. Classify by the body with your own classifier before this one:
//!   `(mine, Classifier::idempotent())`.
//! * The service answers 429 or 409 half-way through its work and the request is not idempotent.
//!   Classify these answers yourself.
//! * A client or proxy underneath already retries. Switch off one of the two, because the attempts
//!   multiply.
//!
//! # Examples
//!
//! ```
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! use resile::http::{Classifier, Failure};
//! use resile::{Attempt, Never, RetryPolicy, retry};
//!
//! const POLICY: RetryPolicy<Classifier> =
//!     RetryPolicy::new().with_classifier(Classifier::idempotent());
//!
//! # async fn send(attempt: Attempt) -> ::http::Response<&'static str> {
//! #     let answer = ::http::Response::builder();
//! #     let answer = if attempt.is_first() {
//! #         answer.status(503).header("retry-after", "20")
//! #     } else {
//! #         answer
//! #     };
//! #     answer.body("hello").unwrap()
//! # }
//! async fn get(attempt: Attempt) -> Result<&'static str, Failure> {
//!     // The first answer is 503 with `Retry-After: 20`.
//!     let response = Failure::check(send(attempt).await)?;
//!     Ok(response.into_body())
//! }
//!
//! let before = tokio::time::Instant::now();
//! assert_eq!(retry(get, &POLICY, Never).await.unwrap(), "hello");
//! assert!(before.elapsed().as_secs() >= 20);
//! # }
//! ```
//!
//! With `reqwest` (feature `reqwest`) `http::error_for_status(response).await?` replaces
//! [`Failure::check`]. The example `client` is a whole program.

mod classifier;
mod error;
mod failure;
pub mod headers;
mod limits;
#[cfg(feature = "reqwest")]
mod reqwest;
mod service_limit;

#[cfg(feature = "reqwest")]
pub use self::reqwest::{error_for_status, start_of_body};
pub use classifier::Classifier;
pub use error::StatusError;
pub use failure::Failure;
pub use limits::{learn, limits};
