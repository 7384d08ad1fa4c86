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
#![doc = "[timeout]: ResilienceExt::timeout"]
#![doc = "[`Adaptive`]: Adaptive"]
#![doc = "[`GaveUp`]: GaveUp"]
#![doc = "[`Error`]: Error"]
#![cfg_attr(feature = "http", doc = "[`http`]: mod@http")]
#![cfg_attr(feature = "llm", doc = "[`llm`]: mod@llm")]
#![doc = "[`Observe`]: Observe"]
#![cfg_attr(feature = "metrics", doc = "[`Metrics`]: observe::Metrics")]
#![doc = "[`Timer`]: Timer"]
#![doc = "[`ManualTimer`]: ManualTimer"]
// What is not there without its feature: to the table of features.
#![doc = "[`retry_stream`]: #features"]
#![doc = "[`Chaos`]: #features"]
#![doc = "[`http`]: #features"]
#![doc = "[`llm`]: #features"]
#![doc = "[`Metrics`]: #features"]
// The pictures are files of the repository, which this page cannot show: empty ones, and not shown.
#![doc = "[collapse]: data:image/svg+xml,"]
#![doc = "[storm]: data:image/svg+xml,"]
#![doc = ""]
#![doc = include_str!("../README.md")]
#![doc = "<style>img[src='data:image/svg+xml,'] { display: none }</style>"]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod backoff;
pub mod breaker;
mod budget;
pub mod bulkhead;
mod cancel;
#[cfg(feature = "chaos")]
pub mod chaos;
mod classify;
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
#[cfg(feature = "stream")]
pub mod stream;
mod sync;
mod time;
pub mod timeout;

pub use backoff::{Backoff, Jitter, Schedule};
pub use breaker::{Breaker, Open};
pub use budget::{Budget, Withdrawal};
pub use bulkhead::{Bulkhead, Full, Permit};
pub use cancel::{Cancel, Cancelled, Never};
pub use classify::{Always, Cause, Classify, Opinion, OrElse, Verdict};
pub use cooldown::{Cooldown, Paced, Until};
pub use error::{Error, Lift};
pub use ext::ResilienceExt;
#[cfg(feature = "stream")]
pub use ext::StreamResilienceExt;
pub use fallback::{Alternative, Fallback, FallbackPolicy, NoAnswer, fallback};
pub use hedge::{Hedge, HedgePolicy, hedge};
pub use keyed::Keyed;
pub use observe::{Observe, Standard};
pub use policy::{Attempt, Decision, RetryPolicy, Stop};
pub use retry::{Event, GaveUp, Retry, Run, retry};
#[cfg(feature = "stream")]
pub use stream::{CutOff, RetryStream, retry_stream};
#[cfg(feature = "tokio")]
pub use time::TokioTimer;
pub use time::{DefaultTimer, ManualSleep, ManualTimer, NoTimer, Timer, TimerSlot};
pub use timeout::{Adaptive, Elapsed, Limit, Timeout};
