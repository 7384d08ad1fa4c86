//! Alternatives for one answer, tried in order: another model, another provider, a cached answer.
//!
//! A retry asks the same upstream again, which helps against faults that pass. Some faults do not
//! pass: a used-up quota, a withdrawn model, a provider that is down for an hour. Only another
//! upstream helps then. A fallback therefore asks a different question about each error:
//!
//! | error | may succeed later (retry) | may succeed elsewhere (fallback) |
//! |---|---|---|
//! | the quota is exhausted | no | yes |
//! | the prompt is malformed | no | no |
//! | the reply was cut off | perhaps | perhaps |
//!
//! So a fallback has its own classifier. Its [`is_again`](crate::Verdict::is_again) means: try the
//! next alternative.
//!
//! # When not
//!
//! * The alternative is not good enough to be used without asking. A smaller model or an older
//!   answer may be worse than an error, so fail instead.
//! * The alternatives share the broken part (one region, one account), so each of them only adds
//!   load and delay.
//! * The request is an order. An alternative that has lost its answer may have executed it, and the next one would
//!   execute it again.
//!
//! A fallback hides an outage of the first choice, so watch its events.
//!
//! # An order
//!
//! Without a classifier a fallback does not send an order on that is [in doubt](crate::GaveUp::is_in_doubt), and its error
//! is in doubt too. A request is an order if the classifier of its own call forbids a repetition after a cut, as
//! `http::Classifier::non_idempotent()` does. A closure says so by
//! [`cut_is`](crate::classify::ClassifyExt::cut_is). Without that it may be one for a read, so the fallback goes on, but its
//! error keeps the doubt.
//!
//! The fallback hears this from each call of this crate that it polls. It does not hear a call in another task, such as
//! one by `tokio::spawn`. There set the classifier `|end: &GaveUp<_>| end.verdict()`, which passes the verdict on.
//!
//! # The budget
//!
//! A fallback with a name alone, `.on("ask")`, pays nothing: each alternative has an upstream with
//! a budget of its own, and its first attempt there is not a retry. A fallback on an
//! [`Upstream`](crate::Upstream) says that all alternatives send to that upstream. The second
//! alternative is then a further request for the same answer, so the budget of that upstream pays
//! for it like for a retry, and a spent budget ends such a fallback after its first alternative.
//! Otherwise a fallback over three models would triple the load on a provider that is down.
//!
//! # Order of the layers
//!
//! Put the fallback outermost, around one retry for each alternative. Each retry runs on its own
//! [`Upstream`](crate::Upstream), but all of them share one token and one total timeout. Each retry
//! may get a part of that timeout:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! use resile::fallback::Alternative;
//! use resile::{Breaker, FallbackPolicy, GaveUp, Never, RetryPolicy, Upstream, fallback, retry};
//! use std::time::Duration;
//!
//! #[derive(Debug, thiserror::Error)]
//! #[error("{self:?}")]
//! enum CallError { Overloaded, QuotaGone, Malformed }
//!
//! /// Returns whether the same model may answer later.
//! fn later(e: &CallError) -> bool {
//!     matches!(e, CallError::Overloaded)
//! }
//! /// Returns whether another model may answer.
//! fn elsewhere(gave_up: &GaveUp<CallError>) -> bool {
//!     !matches!(gave_up.last(), Some(CallError::Malformed))
//! }
//!
//! # async fn ask(model: &str) -> Result<String, CallError> {
//! #     match model {
//! #         "large" => Err(CallError::QuotaGone),
//! #         "medium" => Err(CallError::Overloaded),
//! #         _ => Ok(format!("{model} says hello")),
//! #     }
//! # }
//! static LARGE: Upstream = Upstream::new("large").with_breaker(Breaker::new());
//! static MEDIUM: Upstream = Upstream::new("medium").with_breaker(Breaker::new());
//! static SMALL: Upstream = Upstream::new("small").with_breaker(Breaker::new());
//! let policy = FallbackPolicy::new()
//!     .with_total_timeout(Duration::from_secs(60))
//!     .with_classifier(elsewhere);
//!
//! let ask_one = |alternative: Alternative<'_, &'static Upstream>| {
//!     let (upstream, share) = (*alternative.value(), alternative.share());
//!     async move {
//!         let policy = RetryPolicy::new().with_classifier(later).with_total_timeout(share);
//!         retry(|_| ask(upstream.name()), policy, Never).on(upstream).await
//!     }
//! };
//! let models = [&LARGE, &MEDIUM, &SMALL];
//! // The name is that of the whole call in its log and its error.
//! let answer = fallback(&models, ask_one, policy, Never).on("answer").await;
//! let answer = answer.map_err(GaveUp::flatten);
//! assert_eq!(answer.unwrap(), "small says hello");
//! # }
//! ```

mod alternative;
mod counted;
pub(crate) mod fallback;
mod future;
pub(crate) mod policy;

pub use alternative::Alternative;
pub use future::Fallback;
pub(crate) use policy::FallbackPolicy;
