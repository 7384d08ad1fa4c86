//! What a retry may do, as plain data, and the decision that follows from it.

mod as_policy;
mod attempt;
mod common;
mod decide;

pub use as_policy::AsPolicy;
pub use attempt::Attempt;
pub(crate) use common::{Rules, common_settings, rules};
pub use decide::{Decision, StopReason};

use std::time::Duration;

use crate::backoff::Backoff;
use crate::classify::Always;
use crate::rng;
use crate::verdict::Verdict;

/// Says how often a call is retried, for how long, after what delays, and on which errors.
///
/// Plain data: `Copy` with its classifier, built in `const`, comparable, (de)serialisable with the feature `serde`.
/// What calls share (a budget, a breaker, a cooldown, an observer, a timer) is in an [`Upstream`](crate::Upstream) instead.
/// A call takes its policy by value, by reference or in an `Arc`.
///
/// # Defaults
///
/// | setting | [`new`](Self::new) | [`patient`](Self::patient) | why |
/// |---|---|---|---|
/// | attempts | 3 | 10 | two retries mend most passing faults, and are what the AWS, OpenAI and Anthropic clients make; a batch job rather waits |
/// | base | 500 ms | 1 s | a peer that just failed needs a moment; a person does not notice half a second |
/// | factor | 2 | 2 | doubling finds any overload's scale in a few steps |
/// | cap | 30 s | 60 s | past that, only load is saved, and little |
/// | jitter | full | full | the fewest calls for nearly the least time |
/// | hint cap | 2 min | 5 min | a caller who is still there waits a per-minute quota out, not an hourly one; OpenAI's client draws the line at 2 min, Gemini's command line at 5 min |
/// | total timeout | none | 30 min | only the caller knows how long an answer is worth waiting for: set one, as without it an attempt that hangs hangs for ever |
/// | attempt timeout | none | none | only the caller knows what is slow |
/// | classifier | every error is retried | | right only where every error passes: give one where some cannot |
///
/// [`Budget`](crate::Budget) has its defaults on its own page.
///
/// # Examples
///
/// ```
/// use resile::{Backoff, RetryPolicy};
/// use std::{io, time::Duration};
///
/// static POLICY: RetryPolicy = RetryPolicy::new()
///     .with_attempts(5)
///     .with_total_timeout(Duration::from_secs(60))
///     .with_backoff(Backoff::exponential(Duration::from_millis(50)));
///
/// let policy = POLICY.with_classifier(|e: &io::Error| e.kind() != io::ErrorKind::NotFound);
/// assert_eq!(policy.attempts(), 5);
/// ```
///
/// # Configuration
///
/// With the feature `serde` a policy is read from, and written to, any format that describes itself (JSON, TOML, YAML):
///
/// ```
/// use resile::RetryPolicy;
/// use std::time::Duration;
///
/// let policy: RetryPolicy = serde_json::from_str(
///     r#"{
///         "attempts": 5,
///         "total_timeout": "2m",
///         "attempt_timeout": "20s",
///         "hint_cap": "1m 30s",
///         "backoff": { "curve": "exponential", "base": "250ms", "factor": 1.5, "cap": "10s", "jitter": "equal" }
///     }"#,
/// )?;
/// assert_eq!(policy.total_timeout(), Some(Duration::from_secs(120)));
///
/// // An error names the setting.
/// let error = serde_json::from_str::<RetryPolicy>(r#"{ "attempts": 0 }"#).unwrap_err();
/// assert!(error.to_string().starts_with("invalid value: integer `0`, expected `attempts`"));
/// # Ok::<(), serde_json::Error>(())
/// ```
///
/// Every setting may be left out, and is then as in [`new`](Self::new); one that is not known is an error.
///
/// * Durations are text in hours and smaller units: `"1.5s"`, `"500ms"`, `"2m 30s"`.
/// * `total_timeout`, `attempt_timeout`, `hint_cap` and `cap` may be `"none"`, or null where the format has one: no limit.
/// * `learned_attempt_timeout` is true or false.
/// * `curve` is `"none"`, `"fixed"`, `"linear"`, `"exponential"` or `"fibonacci"`. `steps` and `custom` live in code:
///   to read or to write one is an error.
/// * Without a `jitter` a curve that grows has full jitter, and `"fixed"` has none.
/// * `jitter` is `"none"`, `"full"`, `"equal"`, `"decorrelated"` or `{ "proportional": 0.5 }`.
///
/// The classifier is code too: it is not written, and a policy that was read gets its own by
/// [`with_classifier`](Self::with_classifier).
#[derive(Clone, Copy, Debug, PartialEq)]
#[must_use = "a policy does nothing until a call is made under it"]
pub struct RetryPolicy<C = Always> {
    attempts: u32,
    total_timeout: Option<Duration>,
    attempt_timeout: Option<Duration>,
    /// Whether the attempt timeout is the one that the upstream has learned.
    learned: bool,
    backoff: Backoff,
    hint_cap: Duration,
    classifier: C,
}

impl RetryPolicy {
    /// Creates a policy of three attempts with short delays: for a caller who waits for the answer.
    pub const fn new() -> Self {
        Self {
            attempts: 3,
            total_timeout: None,
            attempt_timeout: None,
            learned: false,
            backoff: Backoff::exponential(Duration::from_millis(500)),
            hint_cap: Duration::from_secs(2 * 60),
            classifier: Always,
        }
    }

    /// Creates a policy of ten attempts within half an hour: for work that nobody watches.
    pub const fn patient() -> Self {
        Self {
            attempts: 10,
            total_timeout: Some(Duration::from_secs(30 * 60)),
            attempt_timeout: None,
            learned: false,
            backoff: Backoff::exponential(Duration::from_secs(1)).with_cap(Duration::from_secs(60)),
            hint_cap: Duration::from_secs(5 * 60),
            classifier: Always,
        }
    }

    /// Creates a policy of one attempt, without retries. Its timeouts, if set, still hold.
    pub const fn none() -> Self {
        Self::new().with_attempts(1)
    }
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self::new()
    }
}

impl<C> RetryPolicy<C> {
    /// Sets how many attempts a call may make, the first included. 0 means 1.
    pub const fn with_attempts(mut self, attempts: u32) -> Self {
        self.attempts = if attempts == 0 { 1 } else { attempts };
        self
    }

    /// Lets each attempt take what its upstream has [learned](crate::Upstream::with_adaptive_timeout), and no longer than
    /// the [attempt timeout](Self::with_attempt_timeout) of this policy, if there is one. On an upstream that learns
    /// nothing it changes nothing.
    pub const fn with_learned_attempt_timeout(mut self) -> Self {
        self.learned = true;
        self
    }

    /// Sets the delays between attempts.
    pub const fn with_backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = backoff;
        self
    }

    /// Sets the longest wait that an upstream may ask for. One that asks for more ends the call at once, with
    /// [`StopReason::HintTooLong`] and [`GaveUp::retry_after`](crate::GaveUp::retry_after).
    pub const fn with_hint_cap(mut self, cap: Duration) -> Self {
        self.hint_cap = cap;
        self
    }

    /// Sets the classifier of errors.
    pub const fn with_classifier<D>(self, classifier: D) -> RetryPolicy<D>
    where
        C: Copy,
    {
        let Self {
            attempts,
            total_timeout,
            attempt_timeout,
            learned,
            backoff,
            hint_cap,
            classifier: _,
        } = self;
        RetryPolicy {
            attempts,
            total_timeout,
            attempt_timeout,
            learned,
            backoff,
            hint_cap,
            classifier,
        }
    }

    /// Returns how many attempts a call may make; at least 1.
    #[must_use]
    pub const fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Returns whether each attempt may take what its upstream has learned.
    #[must_use]
    pub const fn learns_attempt_timeout(&self) -> bool {
        self.learned
    }

    /// Returns the delays between attempts.
    #[must_use]
    pub const fn backoff(&self) -> Backoff {
        self.backoff
    }

    /// Returns the longest wait that an upstream may ask for.
    #[must_use]
    pub const fn hint_cap(&self) -> Duration {
        self.hint_cap
    }
}

common_settings!(RetryPolicy, "attempt", learned);
rules!(
    RetryPolicy,
    |policy| policy.learned,
    policy.attempts,
    #[inline]
    fn decide_renewed(&self, failed: Attempt, verdict: Option<Verdict>, renewed: u32) -> Decision {
        self.decide_by(failed, verdict, renewed, rng::draw)
    }
);
