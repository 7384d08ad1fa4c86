#[cfg(feature = "fleet")]
use super::advice::Advice;
use super::core::Core;
use super::core::{Outcome, Owner};
use super::error::Open;
use super::settings::{OPEN_JITTER, Probes, Rate};
use super::state::{Snapshot, State};
use super::ticket::Ticket;
use super::window::Slot;
use crate::backoff::Backoff;
use crate::time::nanos;
use std::fmt;
use std::time::Duration;

/// A circuit breaker, a part of an [`Upstream`](crate::Upstream).
///
/// Each attempt on the upstream asks the breaker first and reports its outcome. If the breaker
/// refuses an attempt, the call ends at once with [`StopReason::Open`](crate::StopReason::Open),
/// and the error has the time until the breaker lets calls through. If the breaker would also
/// refuse the next retry, the call ends without waiting for the delay. A call that already waits for its delay
/// or in the hold of a [`Cooldown`](crate::Cooldown) when the breaker opens asks again at the end of that wait.
///
/// After its open time the breaker is half-open: it admits some calls as probes and refuses the others
/// until the probes decide. Such a refusal has no time, because a probe may end at any moment.
///
/// It counts the health in the verdict on each attempt, as [the table](crate::breaker#counted-outcomes) says. A
/// refusal by the caller's own limit, such as a 429, does not count if the upstream has a cooldown, a
/// throttle or a quota of rates, because that part answers it. Otherwise it counts for the rate.
///
/// # Defaults
///
/// | setting | default | why |
/// |---|---|---|
/// | consecutive failures | 10, without overloads | an upstream with one failure in three calls has 10 in a row about once in 89,000 calls |
/// | failure rate | half of at least 20 calls | below half, most retries still succeed; fewer calls than 20 are noise |
/// | window | 10 s, sliding by a sixteenth | long enough to hold 20 calls, short enough to notice |
/// | slow-call rate | off | only the caller knows which calls are slow |
/// | open time | 5 s, then 10 s, … 60 s, ± 20 % | most restarts take seconds; clients must not come back together |
/// | longest open time by a hint | 5 min | a longer pause is not accepted blindly |
/// | probes | 5, of which 3 must pass | one lucky or unlucky call should not decide |
/// | lease of a probe | 30 s | longer than most calls take; a hung probe must make room for another |
///
/// # The way back
///
/// Nobody asks the upstream during an open time, so the last open time is also the longest time of refusals after the
/// upstream is back. With the defaults an outage of 20 s has open times of about 5, 10 and 20 s, so calls may be refused
/// for 15 s after it, and after an outage of some minutes for up to 60 s. A lower cap shortens this:
/// [`with_open_time`](Self::with_open_time) with `Backoff::exponential(Duration::from_secs(5))` and a cap of 10 s
/// means at most 10 s, and `Backoff::fixed(Duration::from_secs(2))` 2 s. The price is a few more probes in an outage.
///
/// # Fairness
///
/// A half-open breaker admits probes in the order of their requests. The closed path is lock-free
/// and allocates nothing, and a success reads the clock only if a rate is counted.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use resile::{Breaker, StopReason, Upstream, breaker};
/// use std::io;
///
/// static STORE: Upstream =
///     Upstream::new("store").with_breaker(Breaker::new().with_consecutive(3));
///
/// async fn get() -> io::Result<()> {
///     Err(io::ErrorKind::ConnectionRefused.into())
/// }
/// for _ in 0..3 {
///     STORE.call(get(), resile::classify::Always).await.unwrap_err();
/// }
/// assert_eq!(STORE.breaker().map(Breaker::state), Some(breaker::State::Open));
///
/// // From now on `get` is not even polled.
/// let refused = STORE.call(get(), resile::classify::Always).await.unwrap_err();
/// assert_eq!((refused.reason(), refused.attempts()), (StopReason::Open, 0));
/// assert!(refused.retry_after().is_some());
/// # }
/// ```
pub struct Breaker {
    pub(super) core: Core,
}

impl Breaker {
    /// Creates a closed breaker with the defaults.
    #[must_use]
    pub const fn new() -> Self {
        Self { core: Core::new() }
    }

    /// Sets the number of failures in a row that opens the breaker. 0 means 1.
    ///
    /// The `n` connections of a pool that are lost together are as many failures in a row, and calls that connect again
    /// may add some. So `4 * n` with an open time of 1 s is better for a pool.
    #[must_use]
    pub const fn with_consecutive(mut self, failures: u32) -> Self {
        self.core.settings.consecutive = Some(failures);
        self
    }

    /// Disables opening by failures in a row.
    #[must_use]
    pub const fn without_consecutive(mut self) -> Self {
        self.core.settings.consecutive = None;
        self
    }

    /// Counts an overload as a failure in a row too, such as a 503 with `Retry-After` or a 529. By default it
    /// counts for the rate only, because an overloaded upstream is reachable and its [`Cooldown`](crate::Cooldown)
    /// makes calls wait.
    ///
    /// Set it where another upstream stands by: a cooldown lets out so few attempts that the rate has
    /// no numbers, and each call would wait for the overloaded upstream until its own deadline. A
    /// refusal by the caller's own limit, such as a 429, still does not count beside a part that
    /// [answers it](crate::breaker#counted-outcomes).
    #[must_use]
    pub const fn with_overloads(mut self) -> Self {
        self.core.settings.overloads = true;
        self
    }

    /// Sets the failure rate that opens the breaker: this share (0 to 1) or more of at least
    /// `of_at_least` calls within the window. With a share above 1 or NaN the breaker never opens by this rate.
    ///
    /// The breaker checks the rate at each failure, but not at a success that completes the number
    /// of calls. Counts are exact up to `u32::MAX` calls of one kind in a sixteenth of the window.
    #[must_use]
    pub const fn with_failure_rate(mut self, share: f64, of_at_least: u32) -> Self {
        self.core.settings.failure_rate = Some(Rate { share, of_at_least });
        self
    }

    /// Disables the failure rate. Without any rate, a success does not read the clock.
    #[must_use]
    pub const fn without_failure_rate(mut self) -> Self {
        self.core.settings.failure_rate = None;
        self
    }

    /// Sets the slow-call rate that opens the breaker: this share (0 to 1) or more of at least
    /// `of_at_least` calls within the window took longer than `limit`. Successful and failed calls
    /// both count.
    ///
    /// The latency of a stream is the time to its first content, because a good answer may flow for
    /// minutes.
    #[must_use]
    pub const fn with_slow_rate(mut self, limit: Duration, share: f64, of_at_least: u32) -> Self {
        self.core.settings.slow_limit = nanos(limit);
        self.core.settings.slow_rate = Some(Rate { share, of_at_least });
        self
    }

    /// Sets the length of the window for both rates. The window slides by a sixteenth of its
    /// length, so a call counts for fifteen to sixteen sixteenths of it.
    #[must_use]
    pub const fn with_window(mut self, window: Duration) -> Self {
        self.core.settings.slot = Slot::of(window);
        self
    }

    /// Sets the open time: the first delay for the first opening, the second delay for the next
    /// opening in a row, and so on.
    ///
    /// The curves [`Backoff::fixed`], `steps` and `custom` have no jitter unless one is given. A
    /// growing curve has ± 20 % unless another jitter is given, because `Jitter::Full` could make
    /// an open breaker half-open at once.
    #[must_use]
    pub const fn with_open_time(mut self, open: Backoff) -> Self {
        self.core.settings.open = open.or_jitter(OPEN_JITTER);
        self
    }

    /// Sets the number of probes (1 to 32) and the share of them (0 to 1) that must pass to close
    /// the breaker. At least one must pass. A half-open breaker lets at most `of` probes run at
    /// once.
    #[must_use]
    pub const fn with_probes(mut self, share: f64, of: u32) -> Self {
        self.core.settings.probes = Probes::of(of, share);
        self
    }

    /// Sets the lease of a probe. When the lease runs out, another probe may start, but a late
    /// result still counts.
    #[must_use]
    pub const fn with_lease(mut self, lease: Duration) -> Self {
        self.core.settings.lease = lease;
        self
    }

    /// Returns the state. An open breaker becomes half-open only when a call arrives after its open
    /// time.
    #[must_use]
    pub fn state(&self) -> State {
        self.core.state()
    }
}

/// The operations for the upstream that owns the breaker.
impl Breaker {
    /// Admits or refuses a call.
    #[inline]
    pub(crate) fn admit(&self, owner: &impl Owner) -> Result<Ticket, Open> {
        self.core.admit(owner)
    }

    /// Admits a call if the breaker is closed. Returns `None` if the machine must decide.
    #[inline]
    pub(crate) fn admit_closed(&self) -> Option<Ticket> {
        self.core.admit_closed()
    }

    /// Returns the refusal of a call after `delay`, if the refusal is certain.
    #[inline]
    pub(crate) fn refusal_within(&self, delay: Duration, owner: &impl Owner) -> Option<Open> {
        self.core.refusal_within(delay, owner)
    }

    /// Returns whether the breaker counts slow calls. Then it needs the start of each call.
    #[inline]
    pub(crate) const fn times_calls(&self) -> bool {
        self.core.settings.times_calls()
    }

    /// Counts the outcome of an admitted call. `began` and `at` are its start and its end, if known.
    /// For a success at the first poll, `at` is the start of that poll.
    #[inline]
    pub(crate) fn settle(
        &self,
        ticket: Ticket,
        began: Option<u64>,
        outcome: Outcome,
        at: Option<u64>,
        owner: &impl Owner,
    ) {
        self.core.settle(ticket, began, outcome, at, owner);
    }

    /// Releases the ticket of a call that was dropped unfinished.
    #[inline]
    pub(crate) fn forget(&self, ticket: Ticket) {
        self.core.forget(ticket);
    }

    /// Holds the breaker open until each `isolate` has had its [`release`](Self::release).
    pub(crate) fn isolate(&self, owner: &impl Owner) {
        self.core.isolate(owner);
    }

    pub(crate) fn release(&self, owner: &impl Owner) {
        self.core.release(owner);
    }

    /// Closes the breaker and discards its counts.
    pub(crate) fn reset(&self, owner: &impl Owner) {
        self.core.reset(owner);
    }

    /// Takes the advice of other processes until the next advice.
    #[cfg(feature = "fleet")]
    pub(crate) fn advise(&self, advice: Advice, owner: &impl Owner) {
        self.core.advise(advice, owner);
    }

    /// Returns whether the breaker is open, and another process probes when its open time is over.
    pub(crate) fn is_probed(&self) -> bool {
        self.core.is_probed()
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
