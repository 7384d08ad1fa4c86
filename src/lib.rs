#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod backoff;
mod budget;
mod cancel;
#[cfg(feature = "chaos")]
pub mod chaos;
mod classify;
mod error;
mod ext;
pub mod hedge;
#[cfg(feature = "http")]
pub mod http;
pub mod observe;
mod policy;
pub mod retry;
#[cfg(feature = "stream")]
pub mod stream;
mod time;
pub mod timeout;

pub use backoff::{Backoff, Jitter, Schedule};
pub use budget::{Budget, Withdrawal};
pub use cancel::{Cancel, Never};
pub use classify::{Always, Cause, Classify, Opinion, OrElse, Verdict};
pub use error::{Error, Lift};
pub use ext::ResilienceExt;
#[cfg(feature = "stream")]
pub use ext::StreamResilienceExt;
pub use hedge::{Hedge, HedgePolicy, hedge};
pub use observe::{Observe, Standard};
pub use policy::{Attempt, Decision, RetryPolicy, Stop};
pub use retry::{Event, GaveUp, Retry, Run, retry};
#[cfg(feature = "stream")]
pub use stream::{CutOff, RetryStream, retry_stream};
#[cfg(feature = "tokio")]
pub use time::TokioTimer;
pub use time::{DefaultTimer, ManualSleep, ManualTimer, NoTimer, Timer, TimerSlot};
pub use timeout::{Adaptive, Elapsed, Limit, Timeout};
