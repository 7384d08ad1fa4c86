// The README's links lead to files; on this page, where the first definition counts, to the items.
#![doc = "[`retry`]: retry()"]
#![doc = "[`RetryPolicy`]: RetryPolicy"]
#![doc = "[RetryPolicy]: RetryPolicy::new"]
#![doc = "[defaults]: RetryPolicy#defaults"]
#![doc = "[configuration]: RetryPolicy#configuration"]
#![doc = "[`Backoff`]: Backoff"]
#![doc = "[`Jitter`]: Jitter"]
#![doc = "[`Classify`]: Classify"]
#![doc = "[`Verdict`]: Verdict"]
#![doc = "[`Budget`]: Budget"]
#![doc = "[`Breaker`]: Breaker"]
#![doc = "[`Cooldown`]: Cooldown"]
#![doc = "[`Bulkhead`]: Bulkhead"]
#![doc = "[`Keyed`]: Keyed"]
#![doc = "[`hedge`]: hedge()"]
#![doc = "[`fallback`]: fallback()"]
#![cfg_attr(feature = "stream", doc = "[`retry_stream`]: retry_stream()")]
#![cfg_attr(feature = "chaos", doc = "[`Chaos`]: chaos::Chaos")]
#![doc = "[`Run`]: Run"]
#![doc = "[`Upstream`]: Upstream"]
#![doc = "[`AdaptiveTimeout`]: AdaptiveTimeout"]
#![doc = "[`GaveUp`]: GaveUp"]
#![doc = "[GaveUp]: StopReason::Unclassified"]
#![cfg_attr(feature = "http", doc = "[`http`]: mod@http")]
#![cfg_attr(feature = "llm", doc = "[`llm`]: mod@llm")]
#![cfg_attr(feature = "llm", doc = "[llm]: llm::Failure")]
#![doc = "[`Observe`]: observe::Observe"]
#![cfg_attr(feature = "metrics", doc = "[`Metrics`]: observe::Metrics")]
#![doc = "[`Timer`]: Timer"]
#![doc = "[`ManualTimer`]: ManualTimer"]
// What is not there without its feature: to the table of features.
#![doc = "[`retry_stream`]: #features"]
#![doc = "[`Chaos`]: #features"]
#![doc = "[`http`]: #features"]
#![doc = "[`llm`]: #features"]
#![doc = "[llm]: #features"]
#![doc = "[`Metrics`]: #features"]
// The pictures are files of the repository, which this page cannot show: empty ones, and not shown.
#![doc = "[collapse]: data:image/svg+xml,"]
#![doc = "[storm]: data:image/svg+xml,"]
#![doc = ""]
#![doc = include_str!("../README.md")]
#![doc = "<style>img[src='data:image/svg+xml,'] { display: none }</style>"]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod adaptive;
mod backoff;
pub mod breaker;
mod budget;
pub mod bulkhead;
mod call;
mod cancel;
#[cfg(feature = "chaos")]
pub mod chaos;
mod classify;
#[cfg(feature = "serde")]
mod config;
pub mod cooldown;
mod error;
mod ext;
pub mod fallback;
pub mod hedge;
#[cfg(feature = "http")]
pub mod http;
pub mod keyed;
#[cfg(feature = "llm")]
pub mod llm;
pub mod observe;
mod policy;
pub mod retry;
mod rng;
mod single;
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
pub use budget::{Budget, Withdrawal};
pub use bulkhead::Bulkhead;
pub use call::{Boxed, GaveUp, Source};
pub use cancel::{Cancel, Drain, Never};
pub use classify::{Always, Classify, CutIs, Opinion};
#[cfg(feature = "serde")]
pub use config::duration;
pub use cooldown::Cooldown;
pub use error::{ClassifyOperation, Error};
pub use ext::ResilienceExt;
#[cfg(feature = "stream")]
pub use ext::StreamResilienceExt;
pub use fallback::{Alternative, Fallback, FallbackPolicy, fallback};
pub use hedge::{Hedge, HedgePolicy, hedge};
pub use keyed::Keyed;
pub use policy::{AsPolicy, Attempt, Decision, RetryPolicy, StopReason};
pub use retry::{Retry, Run, retry};
pub use single::Admission;
#[cfg(feature = "stream")]
pub use stream::{RetryStream, retry_stream};
#[cfg(feature = "tokio")]
pub use time::TokioTimer;
pub use time::{DefaultTimer, ManualSleep, ManualTimer, NoTimer, Timer};
pub use upstream::Upstream;
pub use verdict::{Cut, Health, Verdict};
