use std::time::Duration;

use super::RetryPolicy;
use crate::backoff::Backoff;

// The defaults are in `RetryPolicy::new`, in `policy.rs`.
impl<C> RetryPolicy<C> {
    /// Sets the maximum number of attempts of a call including the first. 0 means 1.
    ///
    /// A setter in `const` cannot fail, so 0 counts as 1: the request is sent once and never again. In a file
    /// 0 is an error that names `attempts`: see [Configuration](RetryPolicy#configuration). For a number of
    /// retries pass `retries.saturating_add(1)`.
    pub const fn with_attempts(mut self, attempts: u32) -> Self {
        self.attempts = if attempts == 0 { 1 } else { attempts };
        self
    }

    /// Uses the timeout learned by the upstream as the attempt timeout.
    ///
    /// The upper limit is this policy's [attempt timeout](Self::with_attempt_timeout), if set. The
    /// setting has no effect on an upstream without an [adaptive
    /// timeout](crate::Upstream::with_adaptive_timeout).
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
    /// A reset connection is often gone within milliseconds, but a used-up rate limit needs about a
    /// second. Both backoffs count the retries of the call together: after two resets a throttling
    /// has the delay of a third retry.
    ///
    /// # Examples
    ///
    /// ```
    /// use resile::policy::Decision;
    /// use resile::{Attempt, Backoff, RetryPolicy, Verdict};
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

    /// Sets the delays after a failure of a [healthy](crate::Health::Healthy) upstream, such as a deadlock
    /// or a lock that is taken or a version that changed. Without this setting these delays are those of
    /// [`with_backoff`](Self::with_backoff).
    ///
    /// A collision passes within milliseconds, but a server that restarts needs seconds and may end each
    /// connection at once meanwhile. With one short backoff all attempts would end before it is back. Both
    /// backoffs count the retries of the call together, as after a [throttling](Self::with_throttled_backoff).
    /// The preset [`contention`](RetryPolicy::contention) has both.
    ///
    /// # Examples
    ///
    /// ```
    /// use resile::policy::Decision;
    /// use resile::{Attempt, Backoff, Health, RetryPolicy, Verdict};
    /// use std::time::Duration;
    ///
    /// let policy = RetryPolicy::new()
    ///     .with_healthy_backoff(Backoff::exponential(Duration::from_millis(5)));
    /// let longest = |verdict| policy.decide(Attempt::new(1), Some(verdict), |range| *range.end());
    /// let retry = |millis| Decision::Retry(Duration::from_millis(millis));
    /// assert_eq!(longest(Verdict::transient()), retry(500));
    /// let collision = Verdict::transient().with_health(Health::Healthy);
    /// assert_eq!(longest(collision), retry(5));
    /// ```
    pub const fn with_healthy_backoff(mut self, backoff: Backoff) -> Self {
        self.healthy_backoff = Some(backoff);
        self
    }

    /// Shortens the total timeout of one call to the time that its caller has `left`.
    ///
    /// It is for a call within a request that has a deadline of its own, such as that of a handler. A
    /// longer `left` changes nothing. With zero the call makes no attempt: it ends as
    /// [`Deadline`](crate::StopReason::Deadline) [without effect](crate::GaveUp::is_without_effect), so an order is not
    /// in doubt. A [total timeout](Self::with_total_timeout) of zero is a setting and allows one poll.
    ///
    /// A caller in a hurry says nothing about the upstream. So an attempt that this deadline cuts counts
    /// at the breaker only if it ran for at least half of the time that the policy itself allows an
    /// attempt. With [`with_total_timeout`](Self::with_total_timeout) half of the total timeout is enough
    /// if that is the shorter of the two.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use resile::RetryPolicy;
    ///
    /// const POLICY: RetryPolicy = RetryPolicy::new().with_total_timeout(Duration::from_secs(5));
    ///
    /// let left = Duration::from_millis(800); // until the deadline of the request
    /// assert_eq!(POLICY.shortened_to(left).total_timeout(), Some(left));
    /// ```
    pub const fn shortened_to(mut self, left: Duration) -> Self {
        let total = match self.total_timeout {
            Some(total) if total.as_nanos() <= left.as_nanos() => return self,
            total => total,
        };
        // An attempt timeout above the total timeout has no effect.
        self.attempt_timeout = match (self.attempt_timeout, total) {
            (Some(attempt), Some(total)) if attempt.as_nanos() > total.as_nanos() => Some(total),
            (None, total) => total,
            (attempt, _) => attempt,
        };
        self.total_timeout = Some(left);
        self.shortened = true;
        self
    }

    /// Sets the longest wait that the upstream may ask for.
    ///
    /// If the upstream asks for more, the call ends at once with
    /// [`StopReason::HintTooLong`](crate::StopReason::HintTooLong), and
    /// [`GaveUp::retry_after`](crate::GaveUp::retry_after) returns the wait. With a cap of zero
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
            total_timeout,
            attempt_timeout,
            learned,
            shortened,
            backoff,
            throttled_backoff,
            healthy_backoff,
            hint_cap,
            hint_margin,
            classifier: _,
        } = self;
        RetryPolicy {
            attempts,
            total_timeout,
            attempt_timeout,
            learned,
            shortened,
            backoff,
            throttled_backoff,
            healthy_backoff,
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

    /// Returns the delays after a failure of a healthy upstream if they have a backoff of their own.
    #[must_use]
    pub const fn healthy_backoff(&self) -> Option<Backoff> {
        self.healthy_backoff
    }

    /// Returns the longest wait that an upstream may ask for.
    #[must_use]
    pub const fn hint_cap(&self) -> Duration {
        self.hint_cap
    }
}
