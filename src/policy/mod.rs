//! The rules of a retry as plain data and the decision after a failed attempt.

mod as_policy;
mod attempt;
mod common;
mod decide;

pub use as_policy::AsPolicy;
pub use attempt::Attempt;
pub(crate) use common::{Rules, common_settings, rules};
pub use decide::{Decision, StopReason};

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::backoff::Backoff;
use crate::classify::Always;
use crate::verdict::Verdict;

/// The rules of a retry: attempts, timeouts, backoff and classifier.
///
/// A policy is a plain value. It is `Copy` if its classifier is. It can be compared and built in
/// `const`. With the feature `serde` it can be read and written. A call takes its policy by
/// value, by reference or in an `Arc`. Parts shared by calls, such as a budget or a breaker, are
/// in an [`Upstream`](crate::Upstream) instead.
///
/// # Defaults
///
/// | setting | [`new`](Self::new) | [`patient`](Self::patient) | why |
/// |---|---|---|---|
/// | attempts | 3 | 10 | two retries recover from most passing faults, and the AWS, OpenAI and Anthropic clients make as many. A batch job prefers to wait |
/// | base | 500 ms | 1 s | an upstream that just failed needs a moment, and a person hardly notices half a second |
/// | factor | 2 | 2 | doubling reaches the time scale of any overload in a few steps |
/// | cap | 30 s | 60 s | longer delays save little more load |
/// | jitter | full | full | needs the fewest calls in nearly the shortest time |
/// | hint cap | 2 min | 5 min | a caller can wait for a per-minute quota, not for an hourly one. OpenAI's client stops at 2 min, Gemini's command line at 5 min |
/// | total timeout | none | 30 min | only the caller knows how long an answer is worth waiting for. Set one: without it, an attempt that hangs blocks the call for ever |
/// | attempt timeout | none | none | only the caller knows which attempt is slow |
/// | classifier | every error is retried | the same | right only if every error may pass. Set a classifier if some errors cannot pass |
///
/// See [`Budget`](crate::Budget) for its own defaults.
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
/// let is_other = |e: &io::Error| e.kind() != io::ErrorKind::NotFound;
/// let policy = POLICY.with_classifier(is_other);
/// assert_eq!(policy.attempts(), 5);
/// ```
///
/// # Configuration
///
/// With the feature `serde` a policy can be read from and written to any self-describing format,
/// such as JSON, TOML or YAML:
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
///         "backoff": {
///             "curve": "exponential",
///             "base": "250ms",
///             "factor": 1.5,
///             "cap": "10s",
///             "jitter": "equal"
///         }
///     }"#,
/// )?;
/// assert_eq!(policy.total_timeout(), Some(Duration::from_secs(120)));
///
/// // The error message names the setting.
/// let error = serde_json::from_str::<RetryPolicy>(r#"{ "attempts": 0 }"#);
/// let message = error.unwrap_err().to_string();
/// assert!(message.starts_with("invalid value: integer `0`, expected `attempts`"));
/// # Ok::<(), serde_json::Error>(())
/// ```
///
/// A missing setting has its value from [`new`](Self::new). An unknown setting is an error.
///
/// * Durations are text in hours and smaller units: `"1.5s"`, `"500ms"`, `"2m 30s"`.
/// * `total_timeout`, `attempt_timeout`, `hint_cap` and `cap` may be `"none"` or null. Both mean no
///   limit.
/// * `learned_attempt_timeout` is true or false.
/// * `unsure_attempts` is a number from 1. Without it unsure verdicts have no limit of their own.
/// * `curve` is `"none"`, `"fixed"`, `"linear"`, `"exponential"` or `"fibonacci"`. The curves
///   `steps` and `custom` exist only in code. Reading or writing one of these two is an error.
/// * `jitter` is `"none"`, `"full"`, `"equal"`, `"decorrelated"` or `{ "proportional": 0.5 }`. The
///   default is none for `"fixed"` and full for a curve that grows.
///
/// The classifier is not written, because it is code. After reading a policy, set its classifier by
/// [`with_classifier`](Self::with_classifier).
#[derive(Clone, Copy, Debug, PartialEq)]
#[must_use = "a policy does nothing until a call is made under it"]
pub struct RetryPolicy<C = Always> {
    attempts: u32,
    /// The attempts if the verdict is unsure. `u16::MAX` means no limit of its own.
    unsure_attempts: u16,
    total_timeout: Option<Duration>,
    attempt_timeout: Option<Duration>,
    /// True if the attempt timeout is learned from the upstream.
    learned: bool,
    backoff: Backoff,
    hint_cap: Duration,
    classifier: C,
}

impl RetryPolicy {
    /// Creates a policy of three attempts with short delays for callers that wait for the answer.
    pub const fn new() -> Self {
        Self {
            attempts: 3,
            unsure_attempts: u16::MAX,
            total_timeout: None,
            attempt_timeout: None,
            learned: false,
            backoff: Backoff::exponential(Duration::from_millis(500)),
            hint_cap: Duration::from_secs(2 * 60),
            classifier: Always,
        }
    }

    /// Creates a policy of ten attempts within half an hour for unattended work.
    pub const fn patient() -> Self {
        Self {
            attempts: 10,
            unsure_attempts: u16::MAX,
            total_timeout: Some(Duration::from_secs(30 * 60)),
            attempt_timeout: None,
            learned: false,
            backoff: Backoff::exponential(Duration::from_secs(1)).with_cap(Duration::from_secs(60)),
            hint_cap: Duration::from_secs(5 * 60),
            classifier: Always,
        }
    }

    /// Creates a policy of one attempt without retries. Its timeouts still apply if set.
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
    /// Sets the maximum number of attempts of a call including the first. 0 means 1.
    pub const fn with_attempts(mut self, attempts: u32) -> Self {
        self.attempts = if attempts == 0 { 1 } else { attempts };
        self
    }

    /// Sets the maximum number of attempts for a call whose last verdict
    /// [is unsure](crate::Verdict::is_unsure), if that is fewer than
    /// [`attempts`](Self::with_attempts). The first attempt counts. 0 means 1. The default is no
    /// limit of its own, as are 65,535 and more.
    ///
    /// # Examples
    ///
    /// ```
    /// use resile::{Attempt, Decision, RetryPolicy, StopReason, Verdict};
    ///
    /// let policy = RetryPolicy::new().with_attempts(5).with_unsure_attempts(2);
    /// let second = Attempt::new(2);
    /// let decide = |verdict| policy.decide(second, Some(verdict), |range| *range.end());
    /// let verdict = Verdict::transient();
    /// assert!(matches!(decide(verdict), Decision::Retry(_)));
    /// assert_eq!(decide(verdict.unsure()), Decision::Stop(StopReason::Attempts));
    /// ```
    pub const fn with_unsure_attempts(mut self, attempts: u32) -> Self {
        self.unsure_attempts = if attempts == 0 {
            1
        } else if attempts < 0xffff {
            (attempts & 0xffff) as u16
        } else {
            u16::MAX
        };
        self
    }

    /// Uses the timeout learned by the upstream as the attempt timeout.
    ///
    /// The upper limit is this policy's [attempt timeout](Self::with_attempt_timeout), if set. The
    /// setting has no effect on an upstream without an
    /// [adaptive timeout](crate::Upstream::with_adaptive_timeout).
    pub const fn with_learned_attempt_timeout(mut self) -> Self {
        self.learned = true;
        self
    }

    /// Sets the delays between attempts.
    pub const fn with_backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = backoff;
        self
    }

    /// Sets the longest wait that the upstream may ask for.
    ///
    /// If the upstream asks for more, the call ends at once with [`StopReason::HintTooLong`].
    /// [`GaveUp::retry_after`](crate::GaveUp::retry_after) then returns the wait. With a cap of zero
    /// every hint above zero ends the call.
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
            unsure_attempts,
            total_timeout,
            attempt_timeout,
            learned,
            backoff,
            hint_cap,
            classifier: _,
        } = self;
        RetryPolicy {
            attempts,
            unsure_attempts,
            total_timeout,
            attempt_timeout,
            learned,
            backoff,
            hint_cap,
            classifier,
        }
    }

    /// Returns the maximum number of attempts of a call. It is at least 1.
    #[must_use]
    pub const fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Returns the maximum number of attempts with an unsure verdict, if there is one. It is at least
    /// 1.
    #[must_use]
    pub const fn unsure_attempts(&self) -> Option<u32> {
        match self.unsure_attempts {
            u16::MAX => None,
            attempts => Some(attempts as u32),
        }
    }

    /// Returns whether the attempt timeout is learned from the upstream.
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
    fn decide_renewed(
        &self,
        failed: Attempt,
        verdict: Option<Verdict>,
        renewed: u32,
        draw: impl FnMut(RangeInclusive<u64>) -> u64,
    ) -> Decision {
        self.decide_by(failed, verdict, renewed, draw)
    }
);
