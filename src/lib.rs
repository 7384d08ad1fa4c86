#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod backoff;
mod budget;
pub mod bulkhead;
mod cancel;
mod classify;
pub mod cooldown;
mod error;
mod ext;
pub mod fallback;
#[cfg(feature = "http")]
pub mod http;
pub mod keyed;
pub mod observe;
mod policy;
pub mod retry;
mod sync;
mod time;
pub mod timeout;

pub use backoff::{Backoff, Jitter, Schedule};
pub use budget::{Budget, Withdrawal};
pub use bulkhead::{Bulkhead, Full, Permit};
pub use cancel::{Cancel, Cancelled, Never};
pub use classify::{Always, Cause, Classify, Opinion, OrElse, Verdict};
pub use cooldown::{Cooldown, Paced, Until};
pub use error::{Error, Lift};
pub use ext::ResilienceExt;
pub use fallback::{Alternative, Fallback, FallbackPolicy, NoAnswer, fallback};
pub use keyed::Keyed;
pub use observe::{Observe, Standard};
pub use policy::{Attempt, Decision, RetryPolicy, Stop};
pub use retry::{Event, GaveUp, Retry, Run, retry};
#[cfg(feature = "tokio")]
pub use time::TokioTimer;
pub use time::{DefaultTimer, ManualSleep, ManualTimer, NoTimer, Timer, TimerSlot};
pub use timeout::{Elapsed, Timeout};
