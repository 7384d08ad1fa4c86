//! The timer of an upstream that has no other.

#[cfg(all(feature = "browser", target_family = "wasm", target_os = "unknown"))]
use super::browser::BrowserTimer as Chosen;
#[cfg(all(feature = "tokio", not(all(target_family = "wasm", target_os = "unknown"))))]
use super::tokio::TokioTimer as Chosen;
#[cfg(not(any(
    all(feature = "browser", target_family = "wasm", target_os = "unknown"),
    all(feature = "tokio", not(all(target_family = "wasm", target_os = "unknown"))),
)))]
use NoTimer as Chosen;

/// A placeholder for a missing timer. It is the default without the feature `tokio`, and on
/// wasm32-unknown-unknown without the feature `browser`.
///
/// A call must go [on an upstream](crate::retry::Retry::on) [with a timer](crate::Upstream::with_timer)
/// before it is awaited. The compiler checks this.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct NoTimer;

impl NoTimer {
    #[allow(dead_code, reason = "another timer is the default")]
    const fn new() -> Self {
        Self
    }
}

/// The default timer of an upstream: `TokioTimer` with the feature `tokio`, else [`NoTimer`].
///
/// On wasm32-unknown-unknown it is `BrowserTimer` with the feature `browser`, else [`NoTimer`]. The
/// clock of tokio would panic there.
pub type DefaultTimer = Chosen;

/// The value of [`DefaultTimer`].
pub(crate) const DEFAULT_TIMER: DefaultTimer = Chosen::new();

/// The sleep of [`DefaultTimer`].
#[cfg(any(
    all(feature = "browser", target_family = "wasm", target_os = "unknown"),
    all(feature = "tokio", not(all(target_family = "wasm", target_os = "unknown"))),
))]
pub(crate) type DefaultSleep = <Chosen as super::Timer>::Sleep;
/// There is no sleep without a timer.
#[cfg(not(any(
    all(feature = "browser", target_family = "wasm", target_os = "unknown"),
    all(feature = "tokio", not(all(target_family = "wasm", target_os = "unknown"))),
)))]
pub(crate) type DefaultSleep = std::convert::Infallible;

/// Reads [`DefaultTimer`].
#[cfg(any(
    all(feature = "browser", target_family = "wasm", target_os = "unknown"),
    all(feature = "tokio", not(all(target_family = "wasm", target_os = "unknown"))),
))]
#[expect(clippy::unnecessary_wraps, reason = "without a timer there is no clock")]
#[inline]
pub(crate) fn default_reading() -> Option<u64> {
    Some(super::nanos(super::Timer::now(&DEFAULT_TIMER)))
}
/// There is no clock without a timer.
#[cfg(not(any(
    all(feature = "browser", target_family = "wasm", target_os = "unknown"),
    all(feature = "tokio", not(all(target_family = "wasm", target_os = "unknown"))),
)))]
#[inline]
pub(crate) fn default_reading() -> Option<u64> {
    None
}
