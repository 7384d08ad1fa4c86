//! Classification of the failures of LLM providers. A [`Failure`] shows whether a retry may help,
//! and how long to wait before it. For a permanent failure, it names the action that resolves the
//! failure.
//!
//! The [guide](crate::guide) has a chapter on LLM providers and one on their
//! [SDKs](crate::guide::sdks).
//!
//! Providers do not agree on statuses. A 429 may pass in a second, tomorrow or only after a
//! payment. A 400 may mean a wrong key, an overlong prompt or a retired model. A 200 may carry an
//! error from its first event on. The codes and the words of the providers carry the meaning in
//! some thirty shapes. The pure function [`Reply::classify`] reads all of them and returns a
//! [`Failure`]. [`Classifier`] turns the failure into a [`Verdict`](crate::Verdict).
//!
//! # Kinds
//!
//! | [`Kind`] | typical signals | retry? | [`Recovery`] | why |
//! |---|---|---|---|---|
//! | [`RateLimit`](Kind::RateLimit) | 429, `rate_limit_exceeded`, `ThrottlingException`, a quota per minute | yes, after the hint | wait | the limit refills with time |
//! | [`QuotaExhausted`](Kind::QuotaExhausted) | 402, `insufficient_quota` (a 429), "credit balance is too low" (a 400), a limit per hour or more, a limit of 0, a plan's window, a wait of an hour or more | no, but [`wait`](Failure::wait) is the time until the reset, if known | billing, another key or model | the reset is too far away for a waiting call |
//! | [`Overloaded`](Kind::Overloaded) | 529, 503, `overloaded_error`, "at capacity", "not your usage limit", a model that is loading | yes, after a longer wait | wait, or another model | many callers wait for the same capacity, and quick retries keep it scarce |
//! | [`Server`](Kind::Server) | 500, 502, 520 to 527 except 522 and 524, `api_error`, an error without details after a good status | yes | wait | the provider accepted the request and then failed |
//! | [`Timeout`](Kind::Timeout) | 408, 504, 522, 524, the caller's own timeout | yes | wait | |
//! | [`Network`](Kind::Network) | connect, reset, TLS, DNS, a truncated answer, a stream without its terminal event | yes | wait | |
//! | [`Conflict`](Kind::Conflict) | 409 | yes | wait | the other request ends |
//! | [`Auth`](Kind::Auth) | 401, a wrong key as a 400 | no | credentials | |
//! | [`Permission`](Kind::Permission) | 403, a location as a 400 | no | access | |
//! | [`NotFound`](Kind::NotFound) | 404, an unknown model as a 400 | no | another model | |
//! | [`InvalidRequest`](Kind::InvalidRequest) | 400, 422, 501 | no | correct the request | |
//! | [`ContextLength`](Kind::ContextLength) | `context_length_exceeded`, "prompt is too long: N > M" ([`tokens`](Failure::tokens) has both numbers) | no | shorten the prompt | |
//! | [`TooLarge`](Kind::TooLarge) | 413, a 429 for a request that alone exceeds the limit | no | split | no wait raises the limit |
//! | [`ContentFilter`](Kind::ContentFilter) | `content_filter`, `blockReason`, a good answer with such an ending | no | rephrase | |
//! | [`InvalidOutput`](Kind::InvalidOutput) | `tool_use_failed`, broken arguments, an answer cut off by its token limit, an empty answer | no | ask again, with a separate count | the transport worked, and the next prompt should name the fault |
//! | [`Cancelled`](Kind::Cancelled) | the caller's own cancellation | no | | |
//! | [`Unknown`](Kind::Unknown) | no match | no | | |
//!
//! # Order of the rules
//!
//! The first rule with an opinion decides. [`Failure::rule`] names the rule.
//!
//! 1. A cancellation by the caller.
//! 2. The header `x-should-retry`. The header decides `retryable` but not the kind. No other signal
//!    makes a permanent kind retryable.
//! 3. The innermost error object with its status. The envelopes around it may be arrays, JSON inside
//!    strings, `raw` and `upstream_status` of gateways, stream events, `detail`, a bare string or
//!    HTML. The object may be printed by Python, JavaScript or Rust, and it may be cut off. An error
//!    object inside a good answer counts too and may name the status. Of JSON lines the first error
//!    counts. A printed error of gRPC names a status and a message.
//! 4. Google's details: first the reason, then the longest window of the failed quotas and then a
//!    limit of zero.
//! 5. Arithmetic: "Limit 6000, Requested 8000" is too large. A code for a rate limit or a hint to
//!    wait does not change this. Words about a long prompt do.
//! 6. The strongest machine code. The order is quota, capacity, context and content, rate,
//!    credentials, not found, the rest. Generic codes do not count here because providers send them
//!    with any failure. A code in a text counts behind `code:` or in parentheses. A known code of a
//!    permanent failure also counts elsewhere in a mere text. A name such as `request_timeout` does
//!    not, because it may be a parameter.
//! 7. The provider's words. First the grammar finds a limit that no short wait refills: a period of
//!    an hour or more, an allowance and a verb like "reached" in one statement, or too little
//!    money. Such a limit also overrules a code for a rate limit. Next are the phrases. Each phrase
//!    counts only at certain statuses and not inside a quotation: a quoted prompt may mention rate
//!    limits. A failure without a status is read with its quotations if nothing else says more.
//!    Words about a rate come before words about a length ("Too many tokens, please wait"). Last,
//!    the grammar finds the meanings of other words: a long prompt, unsafe content, an answer that
//!    cannot be parsed, a refused credential.
//! 8. An error status. A number in free text is no status.
//! 9. Without an error status: the class of an error in a text, a generic code
//!    (`invalid_request_error`, `api_error`, `server_error`), then the ending that a good answer
//!    names, then the phase.
//!
//! A rate limit becomes a quota if the headers show a used-up window of an hour or more, or if the
//! wait is an hour or longer.
//!
//! [`Failure::is_by_status_alone`] is true if no code, no words and no wait had an opinion.
//!
//! # Waits
//!
//! The first source with a wait decides. Inside one body the longest wait counts.
//!
//! 1. `retry-after-ms`, `x-ms-retry-after-ms`, `x-amz-retry-after`.
//! 2. `Retry-After`: see [`retry_after`](crate::http::retry_after).
//! 3. Fields of the body: `retryDelay`, `quotaResetDelay`, `estimated_time`, `resets_at`,
//!    `quotaResetTimeStamp`, `resets_in_seconds`, `retry_after` and headers that a gateway passes
//!    on.
//! 4. Reset headers of used-up limits, and the field `RateLimit` of a used-up limit.
//! 5. The provider's sentence: "try again in 9m38.016s". Not "adjust your input and try again".
//!
//! A value is no hint if it is negative, zero, infinite, past or not a number. A number too large
//! to hold is `Duration::MAX`, so it exceeds any finite hint cap.
//!
//! A moment ("resets at 08:54:20") is measured from the `Date` header of the answer. This applies
//! to moments in the headers, the body and the sentences. Without a `Date` in the years 1990 to
//! 2999 the moment is measured from this machine's clock or the `now` given to [`Reply::classify`].
//! Headers that a gateway passes on in a body are measured from their own `Date` if they have one.
//!
//! # Usage
//!
//! [`usage`] reads the numbers of LLM tokens that an answer reports, and [`record_usage`] passes
//! them to the [quota](crate::quota) of the current attempt. Call `record_usage` with each whole
//! answer and with each event of a stream. [`http::learn`](crate::http::learn) does the same with
//! the limits in the headers. With the feature `reqwest`, `error_for_status` calls `http::learn`,
//! and `read_answer` also records the usage.
//!
//! # Bounds
//!
//! No input panics. A body is parsed up to 256 KiB and 128 levels. It is read as text up to 32 KiB.
//! A message is kept up to 4 KiB. The usage of a longer body is searched in its last 16 KiB.
//!
//! # When not
//!
//! * The provider bills failed calls or a call has side effects. A retry then pays or acts twice.
//!   Classify with care.
//! * Stream content was already handed on ([`Phase::Content`]). A retry repeats this content.
//!   `is_retryable` describes the request only. The consumer decides whether a stream may restart.
//! * The provider's own client already retries: attempts multiply. Switch one of them off.
//! * A provider sends bare numeric codes without words. The status decides then because the same
//!   number means different things at two providers.
//!
//! # Examples
//!
//! An operation with the error type `Failure` needs nothing else. Timeouts and transport errors
//! convert into a `Failure`.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! use resile::llm::{self, Failure, Kind};
//! use resile::{Never, ResilienceExt, retry};
//! use std::time::Duration;
//!
//! # async fn post(_: &str) -> std::io::Result<http::Response<String>> {
//! #     let error = r#"{"error":{"code":"insufficient_quota"}}"#.to_owned();
//! #     Ok(http::Response::builder().status(429).body(error).unwrap())
//! # }
//! async fn complete(prompt: &str) -> Result<String, Failure> {
//!     // An `io::Error` becomes a `Failure`.
//!     let (parts, body) = post(prompt).await?.into_parts();
//!     if !parts.status.is_success() {
//!         return Err(Failure::from_parts(&parts, body));
//!     }
//!     Ok(body)
//! }
//!
//! let policy = llm::interactive();
//! let ask = |_| complete("hello").timeout(Duration::from_secs(60));
//! let gave_up = retry(ask, &policy, Never).await.unwrap_err();
//! assert_eq!(gave_up.attempts(), 1); // this 429 does not pass
//! assert_eq!(gave_up.last().unwrap().kind(), Kind::QuotaExhausted);
//! # }
//! ```
//!
//! `examples/classify` explains any error given to it.

mod body;
mod classifier;
mod codes;
mod display;
mod evidence;
mod failure;
mod finder;
mod finish;
mod generic;
mod google;
mod grammar;
mod headers;
mod kind;
mod known;
mod normal;
mod numbers;
mod phrases;
mod policy;
mod reply;
mod report;
#[cfg(feature = "reqwest")]
mod reqwest;
mod rule;
mod statuses;
mod text;
mod tokens;
mod transport;
mod usage;
mod vocabulary;
mod wait;

#[cfg(feature = "reqwest")]
pub use self::reqwest::{error_for_status, read_answer};
pub use classifier::Classifier;
pub use failure::Failure;
pub use kind::{Kind, Phase, Recovery, Scope};
pub use policy::{batch, interactive};
pub use reply::Reply;
pub use rule::Rule;
pub use tokens::Tokens;
pub use usage::{record_usage, usage};
