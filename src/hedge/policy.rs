use std::time::Duration;

use crate::classify::Always;
use crate::policy::{common_settings, rules};

/// The rules of a hedged call: the delay and number of hedges, the timeouts and the classifier.
///
/// A plain value, like [`RetryPolicy`](crate::RetryPolicy). State shared by calls is in an
/// [`Upstream`](crate::Upstream).
///
/// # Defaults
///
/// | setting | default | why |
/// |---|---|---|
/// | delay | 1 s | slow for nearly every API, so few calls are hedged. Once you know the 95th percentile of your call, set that, or let the upstream [learn](Self::with_learned_delay) it |
/// | hedges | 1 | if one call in 20 is slow by chance, both attempts are slow in one of 400 calls: a second hedge can gain little |
/// | total timeout | none | only the caller knows how long an answer is worth waiting for |
/// | classifier | the request may be sent again after every error | no error then wins while another attempt is in flight. Right only if every error may pass |
///
/// # Examples
///
/// ```
/// use resile::HedgePolicy;
/// use std::time::Duration;
///
/// static POLICY: HedgePolicy =
///     HedgePolicy::new().with_delay(Duration::from_millis(80)).with_hedges(2);
/// assert_eq!((POLICY.hedges(), POLICY.total_timeout()), (2, None));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[must_use = "a policy does nothing until a call is made under it"]
pub struct HedgePolicy<C = Always> {
    delay: Duration,
    hedges: u32,
    total_timeout: Option<Duration>,
    attempt_timeout: Option<Duration>,
    /// True if the latency learned by the upstream is the delay.
    learned: bool,
    classifier: C,
}

/// The maximum number of hedges. gRPC allows a hedged call 5 attempts in total (gRFC A6).
pub(super) const MOST: u32 = 4;

impl HedgePolicy {
    /// Creates a policy of one hedge after 1 s.
    pub const fn new() -> Self {
        Self {
            delay: Duration::from_secs(1),
            hedges: 1,
            total_timeout: None,
            attempt_timeout: None,
            learned: false,
            classifier: Always,
        }
    }
}

impl Default for HedgePolicy {
    fn default() -> Self {
        Self::new()
    }
}

impl<C> HedgePolicy<C> {
    /// Sets the delay between the start of an attempt and the next hedge.
    ///
    /// With zero, all hedges start as soon as the first attempt is pending. With a delay that is not
    /// below the total timeout and the attempt timeout, no hedge starts: the call ends at the
    /// earlier one.
    pub const fn with_delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Uses the [latency](crate::AdaptiveTimeout::latency) learned by the upstream as the delay.
    ///
    /// The latency is a quantile of recent latencies, and the delay of this policy is its upper
    /// limit. On an upstream without an [adaptive timeout](crate::Upstream::with_adaptive_timeout)
    /// the setting has no effect.
    pub const fn with_learned_delay(mut self) -> Self {
        self.learned = true;
        self
    }

    /// Returns whether the delay is learned from the upstream.
    #[must_use]
    pub const fn learns_delay(&self) -> bool {
        self.learned
    }

    /// Sets the maximum number of hedges. Values above 4 mean 4. With 0 no call is hedged.
    pub const fn with_hedges(mut self, hedges: u32) -> Self {
        self.hedges = if hedges > MOST { MOST } else { hedges };
        self
    }

    /// Sets the classifier of errors.
    ///
    /// An error ends the call if the request must not be sent again. Any other error loses to the
    /// attempts in flight.
    pub const fn with_classifier<D>(self, classifier: D) -> HedgePolicy<D>
    where
        C: Copy,
    {
        let Self { delay, hedges, total_timeout, attempt_timeout, learned, classifier: _ } = self;
        HedgePolicy { delay, hedges, total_timeout, attempt_timeout, learned, classifier }
    }

    /// Returns the delay between the start of an attempt and the next hedge.
    #[must_use]
    pub const fn delay(&self) -> Duration {
        self.delay
    }

    /// Returns the maximum number of hedges, from 0 to 4.
    #[must_use]
    pub const fn hedges(&self) -> u32 {
        self.hedges
    }
}

common_settings!(HedgePolicy, "attempt");
rules!(HedgePolicy, |policy| policy.learned, policy.hedges + 1);
