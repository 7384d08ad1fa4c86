//! A cooldown that makes all calls wait after one call was asked to come back later.
//!
//! The guide has a chapter on [load](crate::guide::load).
//!
//! A rate limit applies to a *key*, not to one call. Suppose that one of twenty calls is asked to
//! come back in 20 s. The other nineteen would soon get the same refusal, and each refusal costs
//! the upstream work and spends a retry. Many upstreams also prolong the limit with each refusal.
//! So a [`Cooldown`] makes the other calls wait before they ask. Share a cooldown only between the
//! calls under one limit (a key, a model). [`Keyed`](crate::Keyed) keeps one for each key.
//!
//! A cooldown is not a rate limiter: it does nothing before the first refusal. If you know the
//! limit beforehand, stay below it. A cooldown is not a breaker either: it delays calls and never
//! refuses them, so a call under a cooldown needs a deadline or a cancellation token. If an
//! upstream is *down*, do not wait for it: use a [`Breaker`](crate::Breaker).
//!
//! # Examples
//!
//! ```
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! use resile::{Cooldown, Never, RetryPolicy, Upstream, Verdict, retry};
//! use std::time::Duration;
//!
//! #[derive(Debug, thiserror::Error)]
//! #[error("too many requests")]
//! struct TooMany { wait: Duration }
//! fn classify(e: &TooMany) -> Verdict { Verdict::throttled().after(e.wait) }
//!
//! static SEARCH: Upstream =
//!     Upstream::new("search").with_cooldown(Cooldown::new());
//!
//! async fn ask(refused: bool) -> Result<&'static str, TooMany> {
//!     if refused {
//!         return Err(TooMany { wait: Duration::from_secs(20) });
//!     }
//!     Ok("yes")
//! }
//!
//! let policy = RetryPolicy::new()
//!     .with_total_timeout(Duration::from_secs(60))
//!     .with_classifier(classify);
//! let first = retry(|attempt| ask(attempt.is_first()), policy, Never).on(&SEARCH);
//! let second = retry(|_| ask(false), policy, Never).on(&SEARCH);
//!
//! let began = tokio::time::Instant::now();
//! let answers = tokio::join!(first, second);
//! assert!(matches!(answers, (Ok("yes"), Ok("yes"))));
//! // The second call was never refused, but it waited too.
//! assert!(began.elapsed() >= Duration::from_secs(20));
//! # }
//! ```

pub(crate) mod cooldown;
mod gate;
#[cfg(feature = "fleet")]
mod hold;

pub(crate) use self::cooldown::Cooldown;
#[cfg(feature = "fleet")]
pub use hold::Hold;
