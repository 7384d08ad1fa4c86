//! A circuit breaker: calls to an upstream that is down are refused at once, until a few of them show that it is back.
//!
//! A retry spends effort on one call; a breaker saves it across all of them. It spares the caller the wait for what
//! will fail anyway, and the upstream the load while it comes back up. It is worth having where many calls share one
//! upstream and a call that fails is slow or costs something.
//!
//! It is the wrong tool where calls that share a breaker do not share a fate: one tenant's, shard's or model's
//! failures then refuse the calls of all (give each its own [`Upstream`](crate::Upstream)). And it does not replace a
//! [`Budget`](crate::Budget): below its threshold it does nothing, and that is where retries add their load.
//!
//! # What opens it
//!
//! Any of three, as each sees what the others miss:
//! * **consecutive failures**: the upstream is gone. Sees an outage at low traffic, and misses one that lets some calls
//!   through;
//! * **failure rate** over a sliding window, of at least so many calls: sees a partial outage, and needs traffic;
//! * **slow-call rate**: the upstream answers, too late to be of use. Off unless a limit is given.
//!
//! # What counts
//!
//! The [health](crate::Health) of the upstream in the verdict on each attempt:
//!
//! | outcome | consecutive | rate | a probe |
//! |---|---|---|---|
//! | success, or `Healthy` | ends the streak | counts as good | passes |
//! | `Failing` | counts | counts as bad | fails |
//! | `Throttling` | | counts as bad | fails |
//! | `Unknown`, no opinion, or dropped unfinished | | | gives its place back |
//!
//! Whether the request may be sent again does not matter here: a `POST` that failed counts like a `GET`. An error that
//! shows the upstream at work (a 404) is a good sign; a throttled call shows that the upstream is there. What was
//! admitted before a transition decides nothing after it.
//!
//! An attempt that was cut by the attempt timeout counts by the verdict on the cut, which is `Failing` unless the
//! classifier says otherwise. An attempt that was cut by the total timeout counts too, if it had at least half of the
//! shorter of the two timeouts; less time shows nothing.

mod core;
mod error;
mod machine;
mod publish;
mod settings;
mod state;
mod ticket;
mod transition;
mod unwind;
mod window;
#[cfg(test)]
mod wraps;

pub use state::{Snapshot, State, TripReason};
pub use transition::Transition;

pub(crate) use self::core::{Outcome, Owner};
pub(crate) use error::Open;
pub(crate) use ticket::Ticket;

use std::fmt;
use std::time::Duration;

use self::core::Core;
use settings::{OPEN_JITTER, Probes, Rate};
use window::Slot;

use crate::backoff::Backoff;
use crate::time::nanos;

/// A circuit breaker, a part of an [`Upstream`](crate::Upstream).
///
/// Each attempt on the upstream asks it first and reports its outcome. StatusError, a call ends at once as
/// [`StopReason::Open`](crate::StopReason::Open), with the time until the breaker lets calls through; a delay after which
/// the retry would be refused is not waited out.
///
/// # Defaults
///
/// | setting | default | why |
/// |---|---|---|
/// | consecutive failures | 10 | an upstream that fails a third of its calls would see 10 in a row once in 60,000 calls |
/// | failure rate | half of at least 20 calls | below half, most retries still succeed; fewer calls than 20 are noise |
/// | window | 10 s, sliding by a sixteenth | long enough to hold 20 calls, short enough to notice |
/// | slow-call rate | off | only the caller knows what is slow |
/// | open | 5 s, then 10 s, … 60 s, ± 20 % | most restarts take seconds; clients must not come back together |
/// | hint cap | 5 min | an upstream that asks for a longer pause is not waited for blindly |
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
/// use resile::{Breaker, StopReason, Upstream, breaker};
/// use std::io;
///
/// static STORE: Upstream = Upstream::new("store").with_breaker(Breaker::new().with_consecutive(3));
///
/// async fn get() -> io::Result<()> {
///     Err(io::ErrorKind::ConnectionRefused.into())
/// }
/// for _ in 0..3 {
///     STORE.call(get(), resile::Always).await.unwrap_err();
/// }
/// assert_eq!(STORE.breaker().map(Breaker::state), Some(breaker::State::Open));
///
/// // From now on `get` is not even polled.
/// let refused = STORE.call(get(), resile::Always).await.unwrap_err();
/// assert_eq!((refused.reason(), refused.attempts()), (StopReason::Open, 0));
/// assert!(refused.retry_after().is_some());
/// # }
/// ```
pub struct Breaker {
    core: Core,
}

impl Breaker {
    /// Creates a closed breaker with the defaults.
    #[must_use]
    pub const fn new() -> Self {
        Self { core: Core::new() }
    }

    /// Opens after that many failures in a row; 0 means 1.
    #[must_use]
    pub const fn with_consecutive(mut self, failures: u32) -> Self {
        self.core.settings.consecutive = Some(failures);
        self
    }

    /// Failures in a row do not open it.
    #[must_use]
    pub const fn without_consecutive(mut self) -> Self {
        self.core.settings.consecutive = None;
        self
    }

    /// Opens when this share (0 to 1) of at least so many calls within the window failed. A share above 1 or NaN
    /// never does.
    ///
    /// Each failure asks this question. A success does not, also where it completes the number of calls. The counts are
    /// exact up to `u32::MAX` calls of one kind in a sixteenth of the window.
    #[must_use]
    pub const fn with_failure_rate(mut self, share: f64, of_at_least: u32) -> Self {
        self.core.settings.failure_rate = Some(Rate { share, of_at_least });
        self
    }

    /// No share of failures opens it. Without any rate, a success does not read the clock.
    #[must_use]
    pub const fn without_failure_rate(mut self) -> Self {
        self.core.settings.failure_rate = None;
        self
    }

    /// Opens when this share (0 to 1) of at least so many calls within the window, good or bad, took longer than
    /// `limit`.
    #[must_use]
    pub const fn with_slow_rate(mut self, limit: Duration, share: f64, of_at_least: u32) -> Self {
        self.core.settings.slow_limit = nanos(limit);
        self.core.settings.slow_rate = Some(Rate { share, of_at_least });
        self
    }

    /// No share of slow calls opens it.
    #[must_use]
    pub const fn without_slow_rate(mut self) -> Self {
        self.core.settings.slow_rate = None;
        self
    }

    /// The window of time over which rates are counted. It slides by a sixteenth of its length: what is counted is
    /// between fifteen and sixteen sixteenths of it old, at most.
    #[must_use]
    pub const fn with_window(mut self, window: Duration) -> Self {
        self.core.settings.slot = Slot::of(window);
        self
    }

    /// How long it stays open: the first time, the second in a row, …
    ///
    /// A time that is spelled out is that time: [`Backoff::fixed`], `steps` and `custom` have no jitter unless one is
    /// given. A curve that grows has ± 20 % unless another jitter is given, as `Jitter::Full` would let a breaker go
    /// half-open at once.
    #[must_use]
    pub const fn with_open_time(mut self, open: Backoff) -> Self {
        self.core.settings.open = open.or_jitter(OPEN_JITTER);
        self
    }

    /// The longest time for which a peer's hint may open it.
    #[must_use]
    pub const fn with_hint_cap(mut self, cap: Duration) -> Self {
        self.core.settings.hint_cap = cap;
        self
    }

    /// Sets which share (0 to 1) of how many probes (1 to 32) must pass to close it; at least one must. Half-open, it lets
    /// so many through.
    #[must_use]
    pub const fn with_probes(mut self, share: f64, of: u32) -> Self {
        self.core.settings.probes = Probes::of(of, share);
        self
    }

    /// After what time a probe that has not ended gives its place to the next one.
    #[must_use]
    pub const fn with_lease(mut self, lease: Duration) -> Self {
        self.core.settings.lease = lease;
        self
    }

    /// Returns its state. An open breaker becomes half-open when the next call comes after its time, not before.
    #[must_use]
    pub fn state(&self) -> State {
        self.core.state()
    }
}

/// What its upstream does with it.
impl Breaker {
    /// Admits a call or refuses it.
    #[inline]
    pub(crate) fn admit(&self, owner: &impl Owner) -> Result<Ticket, Open> {
        self.core.admit(owner)
    }

    /// Admits a call if it is closed. `None`: it must be asked.
    #[inline]
    pub(crate) fn admit_closed(&self, owner: &impl Owner) -> Option<Ticket> {
        self.core.admit_closed(owner)
    }

    /// Returns the refusal that a call `delay` from now will get, where that is certain.
    #[inline]
    pub(crate) fn refusal_within(&self, delay: Duration, owner: &impl Owner) -> Option<Open> {
        self.core.refusal_within(delay, owner)
    }

    /// Counts the outcome of an admitted call. `at` is when it ended, where that is known; of a healthy one, when its
    /// one turn began.
    #[inline]
    pub(crate) fn settle(
        &self,
        ticket: Ticket,
        outcome: Outcome,
        at: Option<u64>,
        owner: &impl Owner,
    ) {
        self.core.settle(ticket, outcome, at, owner);
    }

    /// Forgets an admitted call that was dropped.
    #[inline]
    pub(crate) fn forget(&self, ticket: Ticket) {
        self.core.forget(ticket);
    }

    /// Keeps the breaker open until as many releases.
    pub(crate) fn isolate(&self, owner: &impl Owner) {
        self.core.isolate(owner);
    }

    pub(crate) fn release(&self, owner: &impl Owner) {
        self.core.release(owner);
    }

    /// Closes it and forgets what it counted.
    pub(crate) fn reset(&self, owner: &impl Owner) {
        self.core.reset(owner);
    }

    pub(crate) fn snapshot(&self, owner: &impl Owner) -> Snapshot {
        self.core.snapshot(owner)
    }
}

impl Default for Breaker {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Breaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Breaker")
            .field("state", &self.state())
            .field("settings", &self.core.settings)
            .finish_non_exhaustive()
    }
}
