use super::attempt::Attempt;
use super::common::{common_settings, rules};
use super::decision::Decision;
use crate::backoff::Backoff;
use crate::classify::Always;
use crate::verdict::Verdict;
use std::ops::RangeInclusive;
use std::time::Duration;

/// The rules of a retry: attempts, timeouts, backoff and classifier.
///
/// A policy is a plain value that can be compared and built in `const`, and it is `Copy` if its
/// classifier is. With the feature `serde` it can be read and written. A call takes its policy by
/// value, by reference or in an `Arc`. Parts shared by calls, such as a budget or a breaker, are in
/// an [`Upstream`](crate::Upstream) instead, because a policy has no state.
///
/// # Defaults
///
/// | setting | [`new`](Self::new) | [`patient`](Self::patient) | why |
/// |---|---|---|---|
/// | attempts | 3 | 10 | two retries recover from most passing faults, and the clients of large services make as many. A batch job prefers to wait |
/// | base | 500 ms | 1 s | an upstream that just failed needs a moment, and a person hardly notices half a second |
/// | factor | 2 | 2 | doubling reaches the time scale of any overload in a few steps |
/// | cap | 30 s | 60 s | longer delays save little more load |
/// | jitter | full | full | needs the fewest calls in nearly the shortest time |
/// | hint cap | 2 min | 5 min | a caller can wait for a per-minute quota, not for an hourly one. Clients of large services stop at 2 min or at 5 min |
/// | total timeout | none | 30 min | only the caller knows how long an answer is worth waiting for. Set one: without it, an attempt that hangs blocks the call for ever |
/// | attempt timeout | none | none | only the caller knows which attempt is slow |
/// | throttled backoff | none | none | one backoff is easier to reason about. [`aws`](Self::aws) has two |
/// | healthy backoff | none | none | the same. [`contention`](Self::contention) has two |
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
///   limit. A timeout of 0 is an error, because an attempt would be cut after its first poll.
/// * `learned_attempt_timeout` is true or false.
/// * `throttled_backoff` and `healthy_backoff` are backoffs like `backoff`.
/// * `curve` is `"none"`, `"fixed"`, `"linear"`, `"exponential"` or `"fibonacci"`. The curves
///   `steps` and `custom` exist only in code, so reading or writing one of these two is an error.
/// * `jitter` is `"none"`, `"full"`, `"equal"`, `"decorrelated"` or `{ "proportional": 0.5 }`. The
///   default is none for `"fixed"` and full for a curve that grows.
///
/// Two settings that contradict each other are an error that names both:
///
/// * an `attempt_timeout` above the `total_timeout`,
/// * a `base` above the `cap` of the same backoff,
/// * a backoff whose shortest first delay is not below the `total_timeout`, so that no retry begins.
///
/// A default contradicts nothing. With one attempt the last of these pairs is allowed, because the
/// policy makes no retry anyway. A policy that contradicts itself in code is written as it is.
///
/// The classifier is code and is not written. After reading a policy, set its classifier by
/// [`with_classifier`](Self::with_classifier).
#[derive(Clone, Copy, Debug, PartialEq)]
#[must_use = "a policy does nothing until a call is made under it"]
pub struct RetryPolicy<C = Always> {
    pub(super) attempts: u32,
    pub(super) total_timeout: Option<Duration>,
    pub(super) attempt_timeout: Option<Duration>,
    /// True if the attempt timeout is learned from the upstream.
    pub(super) learned: bool,
    /// True if the total timeout is what a caller had left.
    pub(super) shortened: bool,
    pub(super) backoff: Backoff,
    /// The backoff after a throttling, if it has one of its own.
    pub(super) throttled_backoff: Option<Backoff>,
    /// The backoff after a failure of a healthy upstream, if it has one of its own.
    pub(super) healthy_backoff: Option<Backoff>,
    pub(super) hint_cap: Duration,
    /// The longest time by which a hint may lengthen the delay of the backoff, if it has such a limit.
    pub(super) hint_margin: Option<Duration>,
    pub(super) classifier: C,
}

impl RetryPolicy {
    /// Creates a policy of three attempts with short delays for callers that wait for the answer.
    pub const fn new() -> Self {
        Self {
            attempts: 3,
            total_timeout: None,
            attempt_timeout: None,
            learned: false,
            shortened: false,
            backoff: Backoff::exponential(Duration::from_millis(500)),
            throttled_backoff: None,
            healthy_backoff: None,
            hint_cap: Duration::from_secs(2 * 60),
            hint_margin: None,
            classifier: Always,
        }
    }
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self::new()
    }
}

common_settings!(RetryPolicy, "attempt", shortened);
rules!(RetryPolicy, |policy| policy.learned, policy.attempts, {
    fn hint_cap(&self) -> Option<Duration> {
        Some(self.hint_cap)
    }

    #[inline]
    fn is_shortened(&self) -> bool {
        self.shortened
    }

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
});
