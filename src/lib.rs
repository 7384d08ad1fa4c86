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
// The docs have no files beside them. So the picture of the page stands at its end there.
#![doc = ""]
#![doc = "<figure id=\"collapse\" class=\"picture\">"]
#![cfg_attr(doc, doc = include_str!("../docs/collapse.svg"))]
#![doc = "<figcaption>A spike and a ramp: answers a second, as means of 600 runs.</figcaption>"]
#![doc = "</figure>"]
#![doc = ""]
#![doc = "<style>img[src='docs/collapse.svg'] { display: none } .picture svg { max-width: 100%; height: auto }</style>"]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod adaptive;
pub mod backoff;
pub mod breaker;
mod budget;
mod bulkhead;
pub mod call;
pub mod cancel;
#[cfg(feature = "chaos")]
pub mod chaos;
pub mod classify;
#[cfg(feature = "serde")]
pub mod config;
pub mod cooldown;
mod engine;
pub mod error;
mod ext;
pub mod fallback;
#[cfg(feature = "fleet")]
pub mod fleet;
#[cfg(any(doc, doctest))]
pub mod guide;
pub mod hedge;
mod histogram;
#[cfg(feature = "http")]
pub mod http;
pub mod io;
mod keyed;
pub mod observe;
pub mod policy;
mod question;
pub mod quota;
pub mod retry;
mod signal;
#[cfg(feature = "stream")]
pub mod stream;
mod sync;
mod throttle;
pub mod time;
pub mod timeout;
pub mod upstream;
mod verdict;

pub use adaptive::AdaptiveTimeout;
pub use backoff::backoff::Backoff;
pub use backoff::jitter::Jitter;
pub use breaker::breaker::Breaker;
pub use budget::Budget;
pub use bulkhead::Bulkhead;
pub use cancel::cancel::{Drain, Never};
pub use classify::classify::Classify;
pub use cooldown::cooldown::Cooldown;
pub use error::gave_up::GaveUp;
pub use ext::ResilienceExt;
#[cfg(feature = "stream")]
pub use ext::StreamResilienceExt;
pub use fallback::fallback::fallback;
pub use fallback::policy::FallbackPolicy;
pub use hedge::hedge::hedge;
pub use hedge::policy::HedgePolicy;
pub use keyed::Keyed;
pub use policy::attempt::Attempt;
pub use policy::decision::StopReason;
pub use policy::policy::RetryPolicy;
pub use quota::quota::Quota;
pub use retry::retry::retry;
pub use retry::run::Run;
#[cfg(feature = "stream")]
pub use stream::retry::retry_stream;
pub use throttle::Throttle;
pub use upstream::upstream::Upstream;
pub use verdict::{Health, Verdict};
