//! One call is told to come back later, and every call that shares the cooldown waits.
//!
//! A rate limit is the peer's word about a *key*, not about one call: when one of twenty calls is told "come back in
//! 20 s", the other nineteen are about to be told the same, and each refusal they fetch costs the peer work, spends a
//! retry, and with many peers prolongs the limit. A [`Cooldown`] passes the word on before they ask. Share one among
//! the calls that one limit applies to (a key, a model), not among more: [`Keyed`](crate::Keyed) keeps one for each.
//!
//! It is no rate limiter: it does nothing until the peer has refused once. Where the limit is known beforehand, do not
//! run into it. It is no breaker either: it delays calls and never refuses them, so a call under it needs a deadline or
//! a token of its own. For a peer that is *down*, waiting in line is the wrong cure: that is the breaker's.
//!
//! # Where it stands
//!
//! As an adapter inside a retry, so that each attempt waits first:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! use resile::{Cooldown, Never, ResilienceExt, RetryPolicy, Verdict, retry};
//! use std::time::Duration;
//!
//! #[derive(Debug)]
//! struct TooMany { wait: Duration }
//! fn judge(e: &TooMany) -> Verdict { Verdict::throttled(Some(e.wait)) }
//!
//! static COOLDOWN: Cooldown<fn(&TooMany) -> Verdict> = Cooldown::new().with_classify(judge);
//!
//! async fn ask(refused: bool) -> Result<&'static str, TooMany> {
//!     if refused { Err(TooMany { wait: Duration::from_secs(20) }) } else { Ok("yes") }
//! }
//!
//! let policy = RetryPolicy::new().with_deadline(Duration::from_secs(60)).with_classify(judge);
//! let first = retry(|attempt| ask(attempt.is_first()).paced_by(&COOLDOWN), &policy, Never);
//! let second = retry(|_| ask(false).paced_by(&COOLDOWN), &policy, Never);
//!
//! let began = tokio::time::Instant::now();
//! let answers = tokio::join!(first, second);
//! assert!(matches!(answers, (Ok("yes"), Ok("yes"))));
//! assert!(began.elapsed() >= Duration::from_secs(20)); // the second was never refused, and waited all the same
//! # }
//! ```

mod future;
mod gate;

pub use future::{Paced, Until};
pub(crate) use gate::Gate;

use std::fmt;
use std::time::Duration;

use crate::cancel::Cancel;
use crate::classify::Always;
use crate::time::{DEFAULT_TIMER, DefaultTimer, Timer, TimerSlot};
use gate::Settings;

/// Makes every call that shares it wait when one of them is told to come back later.
///
/// The wait only ever extends: of several hints the one that ends last counts, and a hint that ends sooner changes
/// nothing. When it is over the waiting calls are released one by one, spread at random over a moment *after* it, as
/// they would otherwise all arrive at one instant and be refused again. A call that waits while the wait is extended
/// goes on waiting.
///
/// A refusal that comes while they are being released shows that they came too fast: it continues the hold instead of
/// beginning another, so the next release, a share of all that time, takes longer, until the pace is one that the peer
/// bears, or the hold counts as thirty-two of the longest hint. During the release each waiting call asks sixteen times, and
/// goes with the chance that spreads them evenly over what is left; a call that comes then does the same.
///
/// In the model of a fleet at a rate limit in `examples/storm`, 100 processes of 100 agents under a peer that says "one
/// second", each 100 calls cost 17 refusals; with the hint and no cooldown, 203 with jitter and 977 without. The peer is
/// used to its limit all the same, and the last agent is done no later than with the hint alone.
///
/// It learns from [`hold`](Self::hold), and under [`paced_by`](crate::ResilienceExt::paced_by) from each error that its
/// own classifier judges as [`Cause::Throttled`](crate::Cause::Throttled); with the default classifier, which judges
/// none so, it learns from `hold` alone. Other errors say nothing about the calls beside them, a wait that they ask for
/// included.
///
/// # Defaults
///
/// | setting | default | why |
/// |---|---|---|
/// | jitter | a quarter of the hold | the calls that came during the wait leave at no more than four times the pace at which they came, for an eighth more waiting on average |
/// | least spread | 250 ms | the quarter of one second, the shortest wait that a `Retry-After` header can state: however short the wait, a crowd needs room |
/// | cap | 2 min | that of [`RetryPolicy`](crate::RetryPolicy): nobody waits longer on another's word than on their own. A quota that is gone for the day must not hold the process for the day: after the cap each call hears it for itself |
/// | default hold | 1 s | where the peer refused and gave no time: long enough for a limit counted per second, and short as it is a guess; further refusals extend it |
/// | classifier | none is throttled | only the caller knows the errors |
///
/// # Cost
///
/// While nothing is held or released a call costs one load: no clock, no lock, no allocation, no random number.
///
/// # Fairness
///
/// No order: waiters are released at random, and a call that comes amid the release has the same chance as one that has
/// waited long.
///
/// # Examples
///
/// ```
/// use resile::{Cooldown, ManualTimer};
/// use std::time::Duration;
///
/// let timer = ManualTimer::new();
/// let cooldown = Cooldown::new().with_timer(&timer);
/// assert_eq!(cooldown.remaining(), None);
///
/// cooldown.hold(Duration::from_secs(20));
/// timer.advance(Duration::from_secs(5));
/// cooldown.hold(Duration::from_secs(2)); // ends sooner: changes nothing
/// assert_eq!(cooldown.remaining(), Some(Duration::from_secs(15)));
/// ```
#[must_use = "a cooldown does nothing unless calls share it"]
pub struct Cooldown<C = Always, M = DefaultTimer> {
    gate: Gate,
    classify: C,
    timer: M,
}

impl Cooldown {
    /// Holds nothing yet.
    pub const fn new() -> Self {
        let settings = Settings {
            jitter: 0.25,
            least_spread: Duration::from_millis(250),
            cap: Duration::from_secs(2 * 60),
            default_hold: Duration::from_secs(1),
        };
        Self { gate: Gate::new(settings), classify: Always, timer: DEFAULT_TIMER }
    }
}

impl Default for Cooldown {
    fn default() -> Self {
        Self::new()
    }
}

/// Settings: before it is shared.
impl<C, M> Cooldown<C, M> {
    /// Over what share of the hold the waiters are released: from 0 to 1, NaN is 0. The hold is counted from the hint
    /// that began it to the end of the one that ends last, and as no more than the cap, nor than thirty-two times the longest of
    /// its hints since it last ended. A hint that comes before all waiters are released belongs to the same hold.
    pub const fn with_jitter(mut self, share: f64) -> Self {
        let share = if share > 0.0 { share } else { 0.0 };
        self.gate.settings_mut().jitter = if share > 1.0 { 1.0 } else { share };
        self
    }

    /// The time that the release takes at least. With zero here and as jitter, all are released at one instant.
    pub const fn with_least_spread(mut self, spread: Duration) -> Self {
        self.gate.settings_mut().least_spread = spread;
        self
    }

    /// The longest hold that one hint may cause; longer ones are cut to it. With zero nothing is ever held.
    pub const fn with_cap(mut self, cap: Duration) -> Self {
        self.gate.settings_mut().cap = cap;
        self
    }

    /// The hold where the peer asked for less and did not say for how long. With zero there is none.
    pub const fn with_default_hold(mut self, hold: Duration) -> Self {
        self.gate.settings_mut().default_hold = hold;
        self
    }

    /// The same with that judge of errors. Last in the row where a `static` names its type as a function pointer.
    pub const fn with_classify<D>(self, classify: D) -> Cooldown<D, M>
    where
        C: Copy,
        M: Copy,
    {
        Cooldown { gate: self.gate, classify, timer: self.timer }
    }

    /// Time is `timer`'s.
    pub const fn with_timer<N: Timer>(self, timer: N) -> Cooldown<C, N>
    where
        C: Copy,
        M: Copy,
    {
        Cooldown { gate: self.gate, classify: self.classify, timer }
    }

    /// The share of a hold over which its waiters are released.
    #[must_use]
    pub const fn jitter(&self) -> f64 {
        self.gate.settings().jitter
    }

    /// The time that the release takes at least.
    #[must_use]
    pub const fn least_spread(&self) -> Duration {
        self.gate.settings().least_spread
    }

    /// The longest hold that one hint may cause.
    #[must_use]
    pub const fn cap(&self) -> Duration {
        self.gate.settings().cap
    }

    /// The hold where the peer gave no time.
    #[must_use]
    pub const fn default_hold(&self) -> Duration {
        self.gate.settings().default_hold
    }

    /// What judges the errors.
    #[must_use]
    pub const fn classify(&self) -> &C {
        &self.classify
    }

    /// The cooldown without its timer, for a call that has its own.
    pub(crate) const fn gate(&self) -> &Gate {
        &self.gate
    }
}

impl<C, M: TimerSlot> Cooldown<C, M> {
    /// Somebody was told to come back after `after`: all wait that long from now, held to the cap, unless they wait
    /// longer already.
    pub fn hold(&self, after: Duration)
    where
        M: Timer,
    {
        self.gate().hold_for(self.timer.now(), after);
    }

    /// How long calls are still held; `None` if not. The release comes on top, for calls that come during it as well.
    ///
    /// For a caller who would rather do something else than wait that long.
    #[must_use]
    pub fn remaining(&self) -> Option<Duration>
    where
        M: Timer,
    {
        if self.gate().is_free() { None } else { self.gate().remaining(self.timer.now()) }
    }

    /// Waits until calls may go, or until `token` says stop.
    ///
    /// # Errors
    ///
    /// [`Cancelled`](crate::Cancelled): the token said stop. It beats the release.
    ///
    /// # Cancel safety
    ///
    /// Dropping it leaves nothing behind.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use resile::{Cancelled, Cooldown};
    /// use std::time::Duration;
    /// use tokio_util::sync::CancellationToken;
    ///
    /// static COOLDOWN: Cooldown = Cooldown::new();
    ///
    /// let token = CancellationToken::new();
    /// COOLDOWN.hold(Duration::from_secs(20));
    /// assert_eq!(COOLDOWN.until(&token).await, Ok(()));
    /// assert_eq!(COOLDOWN.remaining(), None);
    ///
    /// COOLDOWN.hold(Duration::from_secs(20));
    /// token.cancel();
    /// assert_eq!(COOLDOWN.until(&token).await, Err(Cancelled));
    /// # }
    /// ```
    pub fn until<K: Cancel>(&self, token: K) -> Until<'_, K, M> {
        Until::new(self.gate(), &self.timer, token)
    }
}

impl<C, M> fmt::Debug for Cooldown<C, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cooldown").field("gate", &self.gate).finish_non_exhaustive()
    }
}
