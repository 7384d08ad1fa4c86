use std::time::Duration;

use crate::classify::Always;
use crate::policy::{common_settings, rules};

/// Says when a call is hedged, how often, and which of its errors are final.
///
/// Plain data, like [`RetryPolicy`](crate::RetryPolicy): what calls share is in an [`Upstream`](crate::Upstream).
///
/// # Defaults
///
/// | setting | default | why |
/// |---|---|---|
/// | delay | 1 s | slow for nearly every API, so that it hedges little until you know your call's 95th percentile: set that, or let it be [learned](Self::with_learned_delay) |
/// | hedges | 1 | if one call in 20 is slow by chance, two are in 400: the second hedge has little left to gain |
/// | total timeout | none | only the caller knows how long an answer is worth waiting for |
/// | classifier | every error may pass | so no error wins while another attempt is in flight; right only where every error passes |
///
/// # Examples
///
/// ```
/// use resile::HedgePolicy;
/// use std::time::Duration;
///
/// static POLICY: HedgePolicy = HedgePolicy::new().with_delay(Duration::from_millis(80)).with_hedges(2);
/// assert_eq!((POLICY.hedges(), POLICY.total_timeout()), (2, None));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[must_use = "a policy does nothing until a call is made under it"]
pub struct HedgePolicy<C = Always> {
    delay: Duration,
    hedges: u32,
    total_timeout: Option<Duration>,
    attempt_timeout: Option<Duration>,
    /// Whether the delay is the latency that the upstream has learned.
    learned: bool,
    classifier: C,
}

/// As many attempts as gRPC allows a hedged call (gRFC A6), less the first.
pub(super) const MOST: u32 = 4;

impl HedgePolicy {
    /// Creates a policy of one hedge after a second.
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
    /// Sets how long an attempt may take before the next joins it. Zero starts all of them as soon as the first has to be
    /// waited for.
    pub const fn with_delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Hedges after the latency that the upstream has [learned](crate::Upstream::with_adaptive_timeout): the
    /// [quantile](crate::AdaptiveTimeout::latency) of what was lately usual, and at most the delay of this policy. On an
    /// upstream that learns nothing it changes nothing.
    pub const fn with_learned_delay(mut self) -> Self {
        self.learned = true;
        self
    }

    /// Returns whether the delay is what the upstream has learned.
    #[must_use]
    pub const fn learns_delay(&self) -> bool {
        self.learned
    }

    /// Sets how many attempts may join the first; more than 4 are 4. 0 never hedges.
    pub const fn with_hedges(mut self, hedges: u32) -> Self {
        self.hedges = if hedges > MOST { MOST } else { hedges };
        self
    }

    /// Sets the classifier of errors. An error after which the request must not be sent again ends the call; any other
    /// loses to an attempt in flight.
    pub const fn with_classifier<D>(self, classifier: D) -> HedgePolicy<D>
    where
        C: Copy,
    {
        let Self { delay, hedges, total_timeout, attempt_timeout, learned, classifier: _ } = self;
        HedgePolicy { delay, hedges, total_timeout, attempt_timeout, learned, classifier }
    }

    /// Returns how long an attempt may take before the next joins it.
    #[must_use]
    pub const fn delay(&self) -> Duration {
        self.delay
    }

    /// Returns how many attempts may join the first; at most 4.
    #[must_use]
    pub const fn hedges(&self) -> u32 {
        self.hedges
    }
}

common_settings!(HedgePolicy, "attempt");
rules!(HedgePolicy, |policy| policy.learned, policy.hedges + 1);
