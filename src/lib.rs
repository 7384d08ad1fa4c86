// A page in Markdown defines its links for readers of the file, and the first definition of a label
// counts. So rustdoc takes the definitions before the page.
#![doc = include_str!("front.md")]
#![cfg_attr(feature = "http", doc = "[`http`]: crate::http")]
#![cfg_attr(not(feature = "http"), doc = "[`http`]: #features")]
#![cfg_attr(feature = "stream", doc = "[`retry_stream`]: crate::retry_stream")]
#![cfg_attr(not(feature = "stream"), doc = "[`retry_stream`]: #features")]
#![cfg_attr(feature = "chaos", doc = "[`Chaos`]: crate::chaos::Chaos")]
#![cfg_attr(not(feature = "chaos"), doc = "[`Chaos`]: #features")]
#![doc = ""]
#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod adaptive;
mod backoff;
pub mod breaker;
mod budget;
pub mod bulkhead;
pub mod call;
mod cancel;
#[cfg(feature = "chaos")]
pub mod chaos;
mod classify;
#[cfg(feature = "serde")]
mod config;
pub mod cooldown;
mod engine;
mod ext;
pub mod fallback;
pub mod fleet;
#[cfg(any(doc, doctest))]
pub mod guide;
pub mod hedge;
mod histogram;
#[cfg(feature = "http")]
pub mod http;
pub mod keyed;
pub mod observe;
mod policy;
pub mod quota;
pub mod retry;
mod signal;
#[cfg(feature = "stream")]
pub mod stream;
mod sync;
mod time;
pub mod timeout;
pub mod upstream;
mod verdict;

pub use adaptive::AdaptiveTimeout;
pub use backoff::{Backoff, Jitter, Schedule};
pub use breaker::Breaker;
pub use budget::Budget;
pub use bulkhead::Bulkhead;
pub use call::{Admission, Call};
pub use cancel::{Cancel, Drain, Never};
pub use classify::{Always, Classify, ClassifyExt, CutIs, Opinion, Over};
#[cfg(feature = "serde")]
pub use config::duration;
pub use cooldown::Cooldown;
pub use engine::{Boxed, GaveUp, Source};
pub use ext::ResilienceExt;
#[cfg(feature = "stream")]
pub use ext::StreamResilienceExt;
pub use fallback::{Alternative, Fallback, FallbackPolicy, fallback};
pub use hedge::{Hedge, HedgePolicy, hedge};
pub use keyed::Keyed;
pub use policy::{AsPolicy, Attempt, Decision, RetryPolicy, StopReason};
pub use retry::{Retry, Run, retry};
#[cfg(feature = "stream")]
pub use stream::{RetryStream, retry_stream};
#[cfg(all(feature = "tokio", not(all(target_family = "wasm", target_os = "unknown"))))]
pub use time::TokioTimer;
#[cfg(all(feature = "browser", target_family = "wasm", target_os = "unknown"))]
pub use time::{BrowserSleep, BrowserTimer};
pub use time::{DefaultTimer, ManualSleep, ManualTimer, NoTimer, Seeded, Timer};
#[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
pub use time::{ThreadSleep, ThreadTimer};
pub use upstream::Upstream;
pub use verdict::{Cut, Health, Verdict};
