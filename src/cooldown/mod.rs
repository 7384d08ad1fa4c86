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
//! # Examples
//!
//! ```
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! use resile::{Cooldown, Never, RetryPolicy, Upstream, Verdict, retry};
//! use std::time::Duration;
//!
//! #[derive(Debug, thiserror::Error)]
//! #[error("too many requests")]
//! struct TooMany { wait: Duration }
//! fn classify(e: &TooMany) -> Verdict { Verdict::throttled().after(e.wait) }
//!
//! static SEARCH: Upstream = Upstream::new("search").with_cooldown(Cooldown::new());
//!
//! async fn ask(refused: bool) -> Result<&'static str, TooMany> {
//!     if refused { Err(TooMany { wait: Duration::from_secs(20) }) } else { Ok("yes") }
//! }
//!
//! let policy = RetryPolicy::new().with_total_timeout(Duration::from_secs(60)).with_classifier(classify);
//! let first = retry(|attempt| ask(attempt.is_first()), policy, Never).on(&SEARCH);
//! let second = retry(|_| ask(false), policy, Never).on(&SEARCH);
//!
//! let began = tokio::time::Instant::now();
//! let answers = tokio::join!(first, second);
//! assert!(matches!(answers, (Ok("yes"), Ok("yes"))));
//! assert!(began.elapsed() >= Duration::from_secs(20)); // the second was never refused, and waited all the same
//! # }
//! ```

mod gate;

use std::fmt;
use std::time::Duration;

use crate::rng;
use gate::{Gate, Settings};

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
/// It learns from each attempt on its [`Upstream`](crate::Upstream) whose verdict says
/// [`Throttling`](crate::Health::Throttling), and from [`Upstream::hold`](crate::Upstream::hold). Other errors say
/// nothing about the calls beside them, a wait that they ask for included.
///
/// # Defaults
///
/// | setting | default | why |
/// |---|---|---|
/// | jitter | a quarter of the hold | the calls that came during the wait leave at no more than four times the pace at which they came, for an eighth more waiting on average |
/// | least spread | 250 ms | the quarter of one second, the shortest wait that a `Retry-After` header can state: however short the wait, a crowd needs room |
/// | cap | 2 min | that of [`RetryPolicy`](crate::RetryPolicy): nobody waits longer on another's word than on their own. A quota that is gone for the day must not hold the process for the day: after the cap each call hears it for itself |
/// | default hold | 1 s | where the peer refused and gave no time: long enough for a limit counted per second, and short as it is a guess; further refusals extend it |
///
/// # Cost
///
/// While nothing is held or released a call costs one load: no clock, no lock, no allocation, no random number.
///
/// # Fairness
///
/// No order: waiters are released at random, and a call that comes amid the release has the same chance as one that has
/// waited long.
#[must_use = "a cooldown does nothing unless calls share it"]
pub struct Cooldown {
    gate: Gate,
}

impl Cooldown {
    /// Creates a cooldown that holds nothing yet.
    pub const fn new() -> Self {
        let settings = Settings {
            jitter: 0.25,
            least_spread: Duration::from_millis(250),
            cap: Duration::from_secs(2 * 60),
            default_hold: Duration::from_secs(1),
        };
        Self { gate: Gate::new(settings) }
    }
}

/// Settings: before it is shared.
impl Cooldown {
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
}

/// What its upstream does with it. Times are readings of the upstream's timer.
impl Cooldown {
    /// Returns whether nothing is held, as far as can be said without a clock.
    #[inline]
    pub(crate) fn is_free(&self) -> bool {
        self.gate.is_free()
    }

    /// Holds for `after` from `now`; without a time, for the default.
    pub(crate) fn hold(&self, now: u64, after: Option<Duration>) {
        self.gate.hold(now, after);
    }

    /// Returns how long calls are still held, without the release.
    pub(crate) fn remaining(&self, now: u64) -> Option<Duration> {
        self.gate.remaining(now)
    }

    /// Returns how long a call that comes at `now` waits. It must ask again afterwards. `None`: it may go.
    #[cold]
    #[inline(never)] // out of the way of calls that nothing holds
    pub(crate) fn wait(&self, now: u64) -> Option<Duration> {
        self.gate.wait(now, rng::draw)
    }
}

impl Default for Cooldown {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Cooldown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cooldown").field("gate", &self.gate).finish_non_exhaustive()
    }
}
