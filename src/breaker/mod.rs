//! A circuit breaker: calls to a peer that is down are refused at once, until a few of them show that it is back.
//!
//! A retry spends effort on one call; a breaker saves it across all of them. It spares the caller the wait for what
//! will fail anyway, and the peer the load while it comes back up. It is worth having where many calls share one peer
//! and a call that fails is slow or costs something.
//!
//! It is the wrong tool where calls that share a breaker do not share a fate: one tenant's, shard's or model's
//! failures then refuse the calls of all (give each its own). And it does not replace a
//! [`Budget`](crate::Budget): below its threshold it does nothing, and that is where retries add their load.
//!
//! # What opens it
//!
//! Any of three, as each sees what the others miss:
//! * **consecutive failures**: the peer is gone. Sees an outage at low traffic, and misses one that lets some calls
//!   through;
//! * **failure rate** over a sliding window, of at least so many calls: sees a partial outage, and needs traffic;
//! * **slow-call rate**: the peer answers, too late to be of use. Off unless a limit is given.
//!
//! # What counts
//!
//! | outcome | consecutive | rate | a probe |
//! |---|---|---|---|
//! | success | ends the streak | counts as good | passes |
//! | `Verdict::Retry`, transient | counts | counts as bad | fails |
//! | `Verdict::Retry`, throttled | | counts as bad | fails |
//! | `Verdict::Fail`, no opinion, or dropped unfinished | | | gives its place back |
//!
//! A permanent error says nothing about the peer's health; a throttled call shows that the peer is there. What was
//! admitted before the breaker moved decides nothing after.

mod core;
mod error;
mod event;
mod future;
mod machine;
mod permit;
mod publish;
mod settings;
mod state;
mod ticket;
mod unwind;
mod window;
#[cfg(test)]
mod wraps;

pub use error::Open;
pub use event::Event;
pub use future::Guarded;
pub use permit::{Isolation, Permit};
pub use state::{Snapshot, State, Trip};

pub(crate) use permit::Guard;
pub(crate) use ticket::Ticket;

use std::fmt;
use std::time::Duration;

use self::core::{Core, Host};
use settings::{OPEN_JITTER, Probes, Rate, Settings};
use window::Slot;

use crate::backoff::Backoff;
use crate::classify::Always;
use crate::observe::{Observe, Standard};
use crate::time::{DEFAULT_TIMER, DefaultTimer, Timer, nanos};

/// A circuit breaker for one peer, shared by the calls to it: as a `static`, in an `Arc`, or one per key.
///
/// As a postfix adapter, [`.guarded_by(&breaker)`](crate::ResilienceExt::guarded_by), it judges errors with its own
/// classifier; attached to a run, [`with_breaker`](crate::Retry::with_breaker), it shares the policy's verdict. By
/// hand, take a [`permit`](Self::permit) and tell it how the call ended.
///
/// # Defaults
///
/// | setting | default | why |
/// |---|---|---|
/// | consecutive failures | 10 | a peer that fails a third of its calls would see 10 in a row once in 60,000 calls |
/// | failure rate | half of at least 20 calls | below half, most retries still succeed; fewer calls than 20 are noise |
/// | window | 10 s, sliding by a sixteenth | long enough to hold 20 calls, short enough to notice |
/// | slow-call rate | off | only the caller knows what is slow |
/// | open | 5 s, then 10 s, … 60 s, ± 20 % | most restarts take seconds; clients must not come back together |
/// | hint cap | 5 min | a peer that asks for a longer pause is not waited for blindly |
/// | probes | 5, of which 3 must pass | one lucky or unlucky call should not decide |
/// | lease of a probe | 30 s | longer than most calls take; a hung probe gives its place up |
///
/// # Fairness
///
/// Half-open, whoever asks first is a probe. The closed path takes no lock and allocates nothing; a success reads the
/// clock only where a rate is counted.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use resile::{Breaker, Error, Lift, ResilienceExt, breaker};
/// use std::io;
///
/// static BREAKER: Breaker = Breaker::new().with_consecutive(3);
///
/// async fn call() -> Result<(), Error<io::Error>> {
///     Err(Error::Operation(io::ErrorKind::ConnectionRefused.into()))
/// }
/// for _ in 0..3 {
///     call().guarded_by(&BREAKER).await.unwrap_err();
/// }
/// assert_eq!(BREAKER.state(), breaker::State::Open);
///
/// // From now on `call` is not even polled.
/// let Err(Error::Open(open)) = call().guarded_by(&BREAKER).await else { panic!() };
/// assert!(open.retry_after().is_some());
/// # }
/// ```
pub struct Breaker<C = Always, O = Standard, M = DefaultTimer> {
    settings: Settings,
    core: Core,
    classify: C,
    observer: O,
    timer: M,
}

impl Breaker {
    /// A closed breaker with the defaults.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            settings: Settings::new(),
            core: Core::new(),
            classify: Always,
            observer: Standard,
            timer: DEFAULT_TIMER,
        }
    }

    /// Opens after that many failures in a row; 0 means 1.
    #[must_use]
    pub const fn with_consecutive(mut self, failures: u32) -> Self {
        self.settings.consecutive = Some(failures);
        self
    }

    /// Failures in a row do not open it.
    #[must_use]
    pub const fn without_consecutive(mut self) -> Self {
        self.settings.consecutive = None;
        self
    }

    /// Opens when this share (0 to 1) of at least so many calls within the window failed. A share above 1 or NaN
    /// never does.
    ///
    /// Each failure asks this question. A success does not, also where it completes the number of calls. The counts are
    /// exact up to `u32::MAX` calls of one kind in a sixteenth of the window.
    #[must_use]
    pub const fn with_failure_rate(mut self, share: f64, of_at_least: u32) -> Self {
        self.settings.failure_rate = Some(Rate { share, of_at_least });
        self
    }

    /// No share of failures opens it. Without any rate, a success does not read the clock.
    #[must_use]
    pub const fn without_failure_rate(mut self) -> Self {
        self.settings.failure_rate = None;
        self
    }

    /// Opens when this share (0 to 1) of at least so many calls within the window, good or bad, took longer than
    /// `limit`.
    #[must_use]
    pub const fn with_slow_rate(mut self, limit: Duration, share: f64, of_at_least: u32) -> Self {
        self.settings.slow_limit = nanos(limit);
        self.settings.slow_rate = Some(Rate { share, of_at_least });
        self
    }

    /// The window of time over which rates are counted. It slides by a sixteenth of its length: what is counted is
    /// between fifteen and sixteen sixteenths of it old, at most.
    #[must_use]
    pub const fn with_window(mut self, window: Duration) -> Self {
        self.settings.slot = Slot::of(window);
        self
    }

    /// How long it stays open: the first time, the second in a row, …
    ///
    /// A time that is spelled out is that time: [`Backoff::fixed`], `steps` and `custom` have no jitter unless one is
    /// given. A curve that grows has ± 20 % unless another jitter is given, as `Jitter::Full` would let a breaker go
    /// half-open at once.
    #[must_use]
    pub const fn with_open(mut self, open: Backoff) -> Self {
        self.settings.open = open.or_jitter(OPEN_JITTER);
        self
    }

    /// The longest time for which a peer's hint may open it.
    #[must_use]
    pub const fn with_hint_cap(mut self, cap: Duration) -> Self {
        self.settings.hint_cap = cap;
        self
    }

    /// How many probes it lets through half-open (1 to 32), and which share of them (0 to 1) must pass to close it;
    /// at least one must.
    #[must_use]
    pub const fn with_probes(mut self, probes: u32, share: f64) -> Self {
        self.settings.probes = Probes::of(probes, share);
        self
    }

    /// After what time a probe that has not ended gives its place to the next one.
    #[must_use]
    pub const fn with_lease(mut self, lease: Duration) -> Self {
        self.settings.lease = lease;
        self
    }
}

impl<C, O, M> Breaker<C, O, M> {
    /// What judges errors where the breaker is a postfix adapter.
    #[must_use]
    pub fn with_classify<D>(self, classify: D) -> Breaker<D, O, M> {
        let Self { settings, core, classify: _, observer, timer } = self;
        Breaker { settings, core, classify, observer, timer }
    }

    /// `observer` is told its moves, in order, instead of [`Standard`].
    #[must_use]
    pub fn with_observer<P: Observe<Event>>(self, observer: P) -> Breaker<C, P, M> {
        let Self { settings, core, classify, observer: _, timer } = self;
        Breaker { settings, core, classify, observer, timer }
    }

    /// Time is `timer`'s.
    #[must_use]
    pub fn with_timer<N: Timer>(self, timer: N) -> Breaker<C, O, N> {
        let Self { settings, core, classify, observer, timer: _ } = self;
        Breaker { settings, core, classify, observer, timer }
    }

    /// Its state. An open breaker becomes half-open when the next call comes after its time, not before.
    #[must_use]
    pub fn state(&self) -> State {
        self.core.state()
    }
}

impl<C, O: Observe<Event>, M: Timer> Breaker<C, O, M> {
    /// Asks to make a call.
    ///
    /// # Errors
    ///
    /// [`Open`] when calls are refused, with the time until it is worth asking again.
    #[inline]
    pub fn permit(&self) -> Result<Permit<'_, C, O, M>, Open> {
        self.core.admit(self).map(|ticket| Permit::new(self, ticket))
    }

    /// Keeps the breaker open for as long as the guard, or another one, is held; the last one to go closes it.
    pub fn isolate(&self) -> Isolation<'_, C, O, M> {
        self.core.isolate(self);
        Isolation { breaker: self }
    }

    /// Closes it and forgets what it counted. While it is isolated, it stays so.
    pub fn reset(&self) {
        self.core.reset(self);
    }

    /// What it knows at this moment.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.core.snapshot(self)
    }
}

impl<C, O: Observe<Event>, M: Timer> Host for Breaker<C, O, M> {
    #[inline]
    fn settings(&self) -> &Settings {
        &self.settings
    }

    #[inline]
    fn now(&self) -> Duration {
        self.timer.now()
    }

    #[inline]
    fn listens(&self) -> bool {
        self.observer.is_enabled()
    }

    fn tell(&self, event: &Event) {
        self.observer.observe(event);
    }
}

impl Default for Breaker {
    fn default() -> Self {
        Self::new()
    }
}

impl<C, O, M> fmt::Debug for Breaker<C, O, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Breaker")
            .field("state", &self.state())
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
