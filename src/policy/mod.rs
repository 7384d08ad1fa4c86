//! What a retry may do, as plain data, and the decision that follows from it.

mod attempt;
mod decide;
#[cfg(feature = "serde")]
mod serde;

pub use attempt::Attempt;
pub use decide::{Decision, Stop};

use std::time::Duration;

use crate::backoff::Backoff;
use crate::classify::Always;

/// How a call is retried: how often, how long in all, after what delays, and on which errors.
///
/// Plain data: `Copy` with its classifier, built in `const`, comparable, (de)serialisable with the feature `serde`.
/// What is live and shared (a budget, a breaker, a cooldown, an observer, a timer) is attached to the run instead.
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
/// | deadline | none | 30 min | only the caller knows how long an answer is worth waiting for: set one, as without it an attempt that hangs hangs for ever |
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
///     .with_deadline(Duration::from_secs(60))
///     .with_backoff(Backoff::exponential(Duration::from_millis(50)));
///
/// let judging = POLICY.with_classify(|e: &io::Error| e.kind() != io::ErrorKind::NotFound);
/// assert_eq!(judging.attempts(), 5);
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
///         "deadline": "2m",
///         "hint_cap": "1m 30s",
///         "backoff": { "curve": "exponential", "base": "250ms", "factor": 1.5, "cap": "10s", "jitter": "equal" }
///     }"#,
/// )?;
/// assert_eq!(policy.deadline(), Some(Duration::from_secs(120)));
///
/// // What a person got wrong is told by name.
/// let error = serde_json::from_str::<RetryPolicy>(r#"{ "attempts": 0 }"#).unwrap_err();
/// assert!(error.to_string().starts_with("invalid value: integer `0`, expected `attempts`"));
/// # Ok::<(), serde_json::Error>(())
/// ```
///
/// Every setting may be left out, and is then as in [`new`](Self::new); one that is not known is an error.
///
/// * Durations are text in hours and smaller units: `"1.5s"`, `"500ms"`, `"2m 30s"`.
/// * `deadline`, `hint_cap` and `cap` may be `"none"`, or null where the format has one: no limit.
/// * `curve` is `"none"`, `"fixed"`, `"linear"`, `"exponential"` or `"fibonacci"`. `steps` and `custom` live in code:
///   to read or to write one is an error.
/// * Without a `jitter` a curve that grows has full jitter, and `"fixed"` has none.
/// * `jitter` is `"none"`, `"full"`, `"equal"`, `"decorrelated"` or `{ "proportional": 0.5 }`.
///
/// The classifier is code too: it is not written, and a policy that was read gets its own by
/// [`with_classify`](Self::with_classify).
#[derive(Clone, Copy, Debug, PartialEq)]
#[must_use = "a policy does nothing until a call is made under it"]
pub struct RetryPolicy<C = Always> {
    attempts: u32,
    deadline: Option<Duration>,
    backoff: Backoff,
    hint_cap: Duration,
    classify: C,
}

impl RetryPolicy {
    /// Three attempts with short delays: for a caller who waits for the answer.
    pub const fn new() -> Self {
        Self {
            attempts: 3,
            deadline: None,
            backoff: Backoff::exponential(Duration::from_millis(500)),
            hint_cap: Duration::from_secs(2 * 60),
            classify: Always,
        }
    }

    /// Ten attempts within half an hour: for work that nobody watches.
    pub const fn patient() -> Self {
        Self {
            attempts: 10,
            deadline: Some(Duration::from_secs(30 * 60)),
            backoff: Backoff::exponential(Duration::from_secs(1)).with_cap(Duration::from_secs(60)),
            hint_cap: Duration::from_secs(5 * 60),
            classify: Always,
        }
    }

    /// One attempt, no retries; the deadline, if one is set, still holds.
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
    /// How many attempts a call may make, the first included. 0 means 1.
    pub const fn with_attempts(mut self, attempts: u32) -> Self {
        self.attempts = if attempts == 0 { 1 } else { attempts };
        self
    }

    /// How long the whole call may take: every attempt and every delay. It cuts an attempt in flight. Counted from the
    /// first poll.
    ///
    /// Zero gives the first attempt one poll.
    pub const fn with_deadline(mut self, limit: Duration) -> Self {
        self.deadline = Some(limit);
        self
    }

    /// The call may take as long as its attempts and delays do.
    pub const fn without_deadline(mut self) -> Self {
        self.deadline = None;
        self
    }

    /// The delays between attempts.
    pub const fn with_backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = backoff;
        self
    }

    /// The longest wait that a peer may ask for. One that asks for more ends the call at once, with
    /// [`Stop::HintTooLong`] and [`GaveUp::retry_after`](crate::GaveUp::retry_after).
    pub const fn with_hint_cap(mut self, cap: Duration) -> Self {
        self.hint_cap = cap;
        self
    }

    /// The same policy with that judge of errors.
    pub const fn with_classify<D>(&self, classify: D) -> RetryPolicy<D> {
        let Self { attempts, deadline, backoff, hint_cap, .. } = *self;
        RetryPolicy { attempts, deadline, backoff, hint_cap, classify }
    }

    /// How many attempts a call may make; at least 1.
    #[must_use]
    pub const fn attempts(&self) -> u32 {
        self.attempts
    }

    /// How long the whole call may take.
    #[must_use]
    pub const fn deadline(&self) -> Option<Duration> {
        self.deadline
    }

    /// The delays between attempts.
    #[must_use]
    pub const fn backoff(&self) -> Backoff {
        self.backoff
    }

    /// The longest wait that a peer may ask for.
    #[must_use]
    pub const fn hint_cap(&self) -> Duration {
        self.hint_cap
    }

    /// What judges the errors.
    #[must_use]
    pub const fn classify(&self) -> &C {
        &self.classify
    }
}
