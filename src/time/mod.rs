//! Clocks: every wait, every reading of time and every random number goes through a [`Timer`].

#[cfg(all(feature = "browser", target_family = "wasm", target_os = "unknown"))]
mod browser;
mod default;
mod limit;
mod manual;
mod nanos;
mod rng;
mod rounded;
#[cfg(all(feature = "browser", target_family = "wasm", target_os = "unknown"))]
mod script;
mod seeded;
#[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
mod thread;
mod timer;
#[cfg(all(feature = "tokio", not(all(target_family = "wasm", target_os = "unknown"))))]
mod tokio;

pub(crate) use self::nanos::nanos;
#[cfg(all(feature = "tokio", not(all(target_family = "wasm", target_os = "unknown"))))]
pub use self::tokio::TokioTimer;
#[cfg(all(feature = "browser", target_family = "wasm", target_os = "unknown"))]
pub use browser::{BrowserSleep, BrowserTimer};
pub(crate) use default::{DEFAULT_TIMER, DefaultSleep, default_reading};
pub use default::{DefaultTimer, NoTimer};
pub(crate) use limit::Limit;
pub use manual::{ManualSleep, ManualTimer};
pub(crate) use rng::sequence;
pub(crate) use rounded::Rounded;
#[cfg(all(feature = "browser", target_family = "wasm", target_os = "unknown"))]
pub(crate) use script::since_1970;
pub use seeded::Seeded;
#[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
pub use thread::{ThreadSleep, ThreadTimer};
pub use timer::Timer;
