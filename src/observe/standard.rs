use super::{Observe, Report};

/// The observer that is used when nobody gave one.
///
/// With the feature `tracing` it writes to the `tracing` target `resile`: WARN for each retry and for giving up,
/// DEBUG for a call that recovered, WARN for one within another one's attempt. Fields, where they apply:
/// `attempt`, `attempts_allowed`, `delay`, `hint`, `cause`, `stop`, `outer`, `inner`. Without the feature it is silent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standard;

impl<Ev: Report + ?Sized> Observe<Ev> for Standard {
    const TROUBLE_ONLY: bool = true;

    #[inline]
    fn is_enabled(&self) -> bool {
        #[cfg(feature = "tracing")]
        return tracing::level_enabled!(tracing::Level::WARN);
        #[cfg(not(feature = "tracing"))]
        return false;
    }

    #[inline]
    fn observe(&self, event: &Ev) {
        #[cfg(feature = "tracing")]
        if event.is_reported() {
            log(event);
        }
        #[cfg(not(feature = "tracing"))]
        let _ = event;
    }
}

#[cfg(feature = "tracing")]
#[cold]
fn log<Ev: Report + ?Sized>(event: &Ev) {
    let line = event.report();
    macro_rules! write {
        ($level:ident) => {
            tracing::$level!(
                target: "resile",
                attempt = line.attempt,
                attempts_allowed = line.attempts_allowed,
                delay = line.delay.map(tracing::field::debug),
                hint = line.hint.map(tracing::field::debug),
                cause = line.cause.map(tracing::field::display),
                stop = line.stop,
                outer = line.outer.map(tracing::field::display),
                inner = line.inner.map(tracing::field::display),
                "{}",
                line.message
            )
        };
    }
    if line.warn { write!(warn) } else { write!(debug) }
}
