use std::time::Duration;

use super::RetryPolicy;
use crate::backoff::Backoff;

impl<C> RetryPolicy<C> {
    /// Sets the maximum number of attempts of a call including the first. 0 means 1.
    pub const fn with_attempts(mut self, attempts: u32) -> Self {
        self.attempts = if attempts == 0 { 1 } else { attempts };
        self
    }

    /// Sets the maximum number of attempts for a call whose last verdict
    /// [is unsure](crate::Verdict::is_unsure), if that is fewer than
    /// [`attempts`](Self::with_attempts). The first attempt counts. 0 means 1. A higher number than
    /// `attempts` has no effect. The default is no limit of its own, as are 65,535 and more.
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
    ///
    /// If the first delay is not below the [total timeout](Self::with_total_timeout), no retry
    /// begins: the call ends after its first failure, because no time would be left for another
    /// attempt.
    pub const fn with_backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = backoff;
        self
    }

    /// Sets the delays after a failure by which the upstream
    /// [asked for fewer requests](crate::Health::Throttling). Without this setting these delays are
    /// those of [`with_backoff`](Self::with_backoff).
    ///
    /// A reset connection is often gone within milliseconds. A used-up rate limit needs about a
    /// second. Both backoffs count the retries of the call together: after two resets a throttling
    /// has the delay of a third retry.
    ///
    /// # Examples
    ///
    /// ```
    /// use resile::{Attempt, Backoff, Decision, RetryPolicy, Verdict};
    /// use std::time::Duration;
    ///
    /// let policy = RetryPolicy::new()
    ///     .with_backoff(Backoff::exponential(Duration::from_millis(50)))
    ///     .with_throttled_backoff(Backoff::exponential(Duration::from_secs(1)));
    /// let longest = |verdict| policy.decide(Attempt::new(1), Some(verdict), |range| *range.end());
    /// let retry = |millis| Decision::Retry(Duration::from_millis(millis));
    /// assert_eq!(longest(Verdict::transient()), retry(50));
    /// assert_eq!(longest(Verdict::throttled()), retry(1_000));
    /// ```
    pub const fn with_throttled_backoff(mut self, backoff: Backoff) -> Self {
        self.throttled_backoff = Some(backoff);
        self
    }

    /// Makes a call wait before it ends because the [budget](crate::Budget) is spent.
    ///
    /// The call waits as long as it would before the retry: the backoff's delay, or the hint if that
    /// is longer. It then asks the budget once more. If the budget still cannot pay, the call ends as
    /// [`StopReason::Budget`](crate::StopReason::Budget). A cancelled token ends the wait. A call
    /// without a delay ends at once, and so does a call without enough time left for the delay.
    ///
    /// Use it for calls in an endless loop, such as a long poll or a worker of a queue. The loop
    /// would otherwise call without a pause while the upstream is down, because a spent budget ends
    /// each call at once.
    pub const fn with_pause_when_spent(mut self) -> Self {
        self.pauses = true;
        self
    }

    /// Sets the longest wait that the upstream may ask for.
    ///
    /// If the upstream asks for more, the call ends at once with
    /// [`StopReason::HintTooLong`](crate::StopReason::HintTooLong).
    /// [`GaveUp::retry_after`](crate::GaveUp::retry_after) then returns the wait. With a cap of zero
    /// every hint above zero ends the call.
    pub const fn with_hint_cap(mut self, cap: Duration) -> Self {
        self.hint_cap = cap;
        self
    }

    /// Sets the longest time by which a hint may lengthen the backoff's delay.
    ///
    /// A hint below the delay counts as the delay. A hint above the delay plus the margin is cut to
    /// that sum. The hint gets no jitter of its own, because the backoff's delay has one. Without a
    /// margin a hint is the shortest delay. The [hint cap](Self::with_hint_cap) applies first, so a
    /// margin above the cap cuts no hint.
    pub const fn with_hint_margin(mut self, margin: Duration) -> Self {
        self.hint_margin = Some(margin);
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
            pauses,
            backoff,
            throttled_backoff,
            hint_cap,
            hint_margin,
            classifier: _,
        } = self;
        RetryPolicy {
            attempts,
            unsure_attempts,
            total_timeout,
            attempt_timeout,
            learned,
            pauses,
            backoff,
            throttled_backoff,
            hint_cap,
            hint_margin,
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

    /// Returns the delays after a throttling if they have a backoff of their own.
    #[must_use]
    pub const fn throttled_backoff(&self) -> Option<Backoff> {
        self.throttled_backoff
    }

    /// Returns whether a call waits before it ends because the budget is spent.
    #[must_use]
    pub const fn pauses_when_spent(&self) -> bool {
        self.pauses
    }

    /// Returns the longest time by which a hint may lengthen the backoff's delay. `None` means no
    /// limit.
    #[must_use]
    pub const fn hint_margin(&self) -> Option<Duration> {
        self.hint_margin
    }

    /// Returns the longest wait that an upstream may ask for.
    #[must_use]
    pub const fn hint_cap(&self) -> Duration {
        self.hint_cap
    }
}
