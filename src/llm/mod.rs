//! What a failure of an LLM provider means: whether the same request may succeed later, how long to wait first, and
//! what would mend it otherwise.
//!
//! Providers do not agree on statuses. A 429 may pass in a second, tomorrow, or when somebody pays; a 400 may be a key
//! that is wrong, a prompt that is too long, or a model that is retired; a 200 may be an error from its first event on.
//! What they mean stands in their codes and in their words, in some thirty shapes. One pure function, [`Reply::judge`],
//! reads them all and says what it is, as a [`Failure`]; [`Classifier`] makes a [`Verdict`](crate::Verdict) of that.
//!
//! # Kinds
//!
//! | [`Kind`] | typical signals | the same again? | [`Recovery`] | why |
//! |---|---|---|---|---|
//! | [`RateLimit`](Kind::RateLimit) | 429, `rate_limit_exceeded`, `ThrottlingException`, a quota per minute | yes, after the hint | wait | time gives it back |
//! | [`QuotaExhausted`](Kind::QuotaExhausted) | 402; `insufficient_quota` (a 429), "credit balance is too low" (a 400); a quota per day, a limit of 0, a plan's window | no; [`wait`](Failure::wait) says when it resets, where known | billing, another key or model | no wait that a call can sit out |
//! | [`Overloaded`](Kind::Overloaded) | 529, 503, `overloaded_error`, "at capacity", a model that is loading | yes, after a longer wait | wait, or another model | many wait for the same capacity: haste keeps it short |
//! | [`Server`](Kind::Server) | 500, 502, 520 to 527, `api_error`, an error after a good status that says nothing more | yes | wait | it accepted the request, then broke |
//! | [`Timeout`](Kind::Timeout) | 408, 504, 522, 524; our own limit | yes | wait | |
//! | [`Network`](Kind::Network) | connect, reset, TLS, DNS; an answer cut short, a stream without its terminal event | yes | wait | |
//! | [`Conflict`](Kind::Conflict) | 409 | yes | wait | the other request ends |
//! | [`Auth`](Kind::Auth) | 401; a wrong key as a 400 | no | credentials | |
//! | [`Permission`](Kind::Permission) | 403; a location as a 400 | no | access | |
//! | [`NotFound`](Kind::NotFound) | 404; an unknown model as a 400 | no | another model | |
//! | [`InvalidRequest`](Kind::InvalidRequest) | 400, 422, 501 | no | mend the request | |
//! | [`ContextLength`](Kind::ContextLength) | `context_length_exceeded`, "prompt is too long: N > M" ([`tokens`](Failure::tokens) has both) | no | shrink, then send | |
//! | [`TooLarge`](Kind::TooLarge) | 413; a 429 of which the request alone is more than the limit | no | split | no wait makes the limit larger |
//! | [`ContentFilter`](Kind::ContentFilter) | `content_filter`, `blockReason`, a good answer that ends so | no | rephrase | |
//! | [`InvalidOutput`](Kind::InvalidOutput) | `tool_use_failed`, broken arguments, an answer cut by its token limit, nothing | no | ask again, on a count of its own | the transport did its part: what is asked next should say what was wrong |
//! | [`Cancelled`](Kind::Cancelled) | our own | no | | |
//! | [`Unknown`](Kind::Unknown) | nothing matched | no | | |
//!
//! # What decides
//!
//! The first of these that has an opinion; [`Failure::rule`] names it.
//!
//! 1. That we stopped it ourselves.
//! 2. Over `retryable`, not over the kind: the header `x-should-retry`. It is the one way that a permanent kind is
//!    retried.
//! 3. The innermost error object, whatever envelopes are around it: arrays, JSON inside strings, gateways' `raw` and
//!    `upstream_status`, events of a stream, `detail`, a bare string, HTML, broken JSON. It counts inside a good answer
//!    too, and then names the status.
//! 4. Google's details: the reason, then the longest window of the quotas that failed, then a limit of zero.
//! 5. Arithmetic: "Limit 6000, Requested 8000" is too large, though the code says rate limit and the hint says wait.
//! 6. Machine codes, of several the strongest: quota, capacity, context and content, rate, credentials, not found, the
//!    rest. `invalid_request_error`, `api_error`, `server_error` and their like count last of all: everybody sends them
//!    with everything.
//! 7. The provider's words, each phrase only at the statuses at which it means that, and never inside a quotation: the
//!    provider may quote a prompt that speaks of rate limits. Describe of a rate come before words of a length ("Too many
//!    tokens, please wait").
//! 8. How a good answer says that it ended.
//! 9. The class of the status. A number in free text is no status.
//!
//! # How long to wait
//!
//! The first of these; inside one body the longest.
//!
//! 1. `retry-after-ms`, `x-ms-retry-after-ms`, `x-amz-retry-after`.
//! 2. `Retry-After`: see [`retry_after`](crate::http::retry_after).
//! 3. Fields of the body: `retryDelay`, `quotaResetDelay`, `estimated_time`, `resets_at`, `quotaResetTimeStamp`,
//!    `resets_in_seconds`, `retry_after`, and the headers that a gateway passes on in it.
//! 4. Reset headers, only of limits of which nothing remains.
//! 5. The provider's sentence: "try again in 9m38.016s". Not "adjust your input and try again".
//!
//! What is not a number, negative, infinite, zero or past is no hint. A number too large to hold is `Duration::MAX`, so
//! that a policy's hint cap stops at it.
//!
//! A moment ("resets at 08:54:20") is read against the `Date` of the answer, wherever it is named: in the headers, in the
//! body, in a sentence. Where there is no such header, or none of the years 1990 to 2999, it is read against the clock of
//! this machine, or the `now` that [`Reply::judge`] was given. Headers that a gateway passes on in a body are read
//! against a `Date` among them, if there is one.
//!
//! # Bounds
//!
//! No input panics. A body is parsed up to 256 KiB and 128 levels, and read as text up to 32 KiB; a message is kept up
//! to 4 KiB.
//!
//! # When not
//!
//! * The provider bills what it fails, or a call acts by itself: a retry then costs or does things twice. Judge with
//!   care.
//! * After content of a stream has been handed on ([`Phase::Content`]) a retry repeats it. `is_retryable` speaks of the
//!   request; whether a stream may begin anew is its consumer's to say.
//! * The provider's own client already retries: attempts multiply. Switch one of them off.
//! * Numeric codes of single providers that come without words are left to the status: the same number means two things
//!   at two providers.
//!
//! # Examples
//!
//! With `Failure` as the error of an operation nothing else is needed: our own limits and the transport's errors become
//! one too.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! use resile::llm::{self, Failure, Kind};
//! use resile::{Never, ResilienceExt, retry};
//! use std::time::Duration;
//!
//! # async fn post(_: &str) -> std::io::Result<http::Response<String>> {
//! #     let error = r#"{"error":{"code":"insufficient_quota","message":"You exceeded your current quota."}}"#;
//! #     Ok(http::Response::builder().status(429).body(error.to_owned()).unwrap())
//! # }
//! async fn complete(prompt: &str) -> Result<String, Failure> {
//!     let (parts, body) = post(prompt).await?.into_parts(); // an `io::Error` becomes a `Failure`
//!     if parts.status.is_success() { Ok(body) } else { Err(Failure::from_parts(&parts, body)) }
//! }
//!
//! let policy = llm::interactive();
//! let gave_up = retry(|_| complete("hello").timeout(Duration::from_secs(60)), &policy, Never).await.unwrap_err();
//! assert_eq!(gave_up.attempts(), 1); // this 429 does not pass
//! assert_eq!(gave_up.last().unwrap().kind(), Kind::QuotaExhausted);
//! # }
//! ```
//!
//! `examples/classify` explains an error that is pasted to it.

mod body;
mod classifier;
mod codes;
mod failure;
mod finish;
mod google;
mod headers;
mod kind;
mod numbers;
mod phrases;
mod policy;
mod reply;
#[cfg(feature = "reqwest")]
mod reqwest;
mod rule;
mod statuses;
mod text;
mod tokens;
mod transport;
mod wait;

#[cfg(feature = "reqwest")]
pub use self::reqwest::error_for_status;
pub use classifier::Classifier;
pub use failure::Failure;
pub use kind::{Kind, Phase, Recovery, Scope};
pub use policy::{batch, interactive};
pub use reply::Reply;
pub use rule::Rule;
pub use tokens::Tokens;
