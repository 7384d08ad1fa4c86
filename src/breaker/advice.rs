use std::sync::atomic::Ordering;
use std::time::Duration;

use super::core::{Core, Owner};
use crate::time::nanos;

/// The advice of other processes to a breaker.
///
/// A crate that shares the votes of breakers between processes gives it by
/// [`Upstream::advise`](crate::Upstream::advise). The default advises nothing.
///
/// # Examples
///
/// ```
/// use resile::breaker::{Advice, State};
/// use resile::{Breaker, Upstream, Verdict};
///
/// static STORE: Upstream =
///     Upstream::new("store").with_breaker(Breaker::new());
///
/// let state = || STORE.breaker().map(Breaker::state);
///
/// STORE.advise(Advice::new().with_suspicion(true));
/// assert_eq!(state(), Some(State::Closed)); // advice alone opens nothing
///
/// // 5 failures in a row are enough now, instead of 10.
/// for _ in 0..5 {
///     STORE.try_admit().unwrap().settle(&Verdict::transient());
/// }
/// assert_eq!(state(), Some(State::Open));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Advice {
    is_suspect: bool,
    no_probe_for: Duration,
    is_probed: bool,
    ends_open: bool,
}

impl Advice {
    /// Creates an advice without suspicion and without a pause.
    #[must_use]
    pub const fn new() -> Self {
        Self { is_suspect: false, no_probe_for: Duration::ZERO, is_probed: false, ends_open: false }
    }

    /// Sets whether most other processes that call the upstream have opened their breakers.
    ///
    /// A suspicious breaker opens sooner, because each of its thresholds is halved: the number of
    /// failures in a row, both shares, and the numbers of calls that they need. Halved numbers are
    /// rounded up. A share above 1 or NaN still never opens the breaker. The breaker opens at a
    /// failure or a slow call of its own, and never at the advice itself.
    #[must_use]
    pub const fn with_suspicion(mut self, is_suspect: bool) -> Self {
        self.is_suspect = is_suspect;
        self
    }

    /// Sets a pause, from the moment of the advice, because another process probes the upstream
    /// now or its probe has failed. Zero means no pause.
    ///
    /// An open breaker does not become half-open before the pause is over, and it refuses calls as
    /// in its open time. A closed or half-open breaker admits calls as usual, but the pause goes on
    /// meanwhile and counts if the breaker opens. A pause longer than the lease of a probe is cut
    /// to [the lease](crate::Breaker::with_lease), so one advice cannot keep a breaker open for
    /// ever.
    #[must_use]
    pub const fn without_probe_for(mut self, pause: Duration) -> Self {
        self.no_probe_for = pause;
        self
    }

    /// Sets whether [the pause](Self::without_probe_for) is that of a process that probes now. Nobody
    /// knows when it ends, because the probe decides. A refusal then tells only the rest of the own open
    /// time, and no time after it, as while the breaker is half-open.
    #[must_use]
    pub const fn with_prober(mut self, is_probed: bool) -> Self {
        self.is_probed = is_probed;
        self
    }

    /// Sets whether a probe of another process has passed. It ends the open time of an open
    /// breaker: the next call is a probe, unless [a pause](Self::without_probe_for) says otherwise.
    ///
    /// ```
    /// use resile::breaker::{Advice, State};
    /// use resile::{Breaker, Upstream, Verdict};
    ///
    /// static STORE: Upstream = Upstream::new("store")
    ///     .with_breaker(Breaker::new().with_consecutive(1));
    ///
    /// STORE.try_admit().unwrap().settle(&Verdict::transient());
    /// assert!(STORE.try_admit().is_err());
    ///
    /// STORE.advise(Advice::new().with_probe(true));
    /// let probe = STORE.try_admit().unwrap();
    /// assert_eq!(STORE.breaker().map(Breaker::state), Some(State::HalfOpen));
    /// # probe.succeeded();
    /// ```
    #[must_use]
    pub const fn with_probe(mut self, has_passed: bool) -> Self {
        self.ends_open = has_passed;
        self
    }
}

impl Core {
    /// Takes the advice of other processes. It replaces the advice before.
    pub(super) fn advise(&self, advice: Advice, owner: &impl Owner) {
        let Advice { is_suspect, no_probe_for, is_probed, ends_open } = advice;
        let pause = nanos(no_probe_for.min(self.settings.lease));
        // The timer is foreign code, so it is read before the lock is taken.
        let paused_until = if pause == 0 { 0 } else { owner.now().saturating_add(pause) };
        let ended_at = ends_open.then(|| owner.now());
        let mut guarded = self.lock();
        guarded.machine.pause(paused_until, is_probed);
        if let Some(now) = ended_at {
            guarded.machine.end_open(now);
        }
        self.suspicion.store(u64::from(is_suspect), Ordering::Relaxed);
        self.publish_refusals(&guarded.machine);
    }
}
