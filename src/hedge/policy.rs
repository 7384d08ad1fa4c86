use std::time::Duration;

use crate::classify::Always;

/// When a call is hedged, how often, and which of its errors are final.
///
/// Plain data, like [`RetryPolicy`](crate::RetryPolicy): what is live and shared is attached to the call instead.
///
/// # Defaults
///
/// | setting | default | why |
/// |---|---|---|
/// | delay | 1 s | slow for nearly every API, so that it hedges little until you know your call's 95th percentile: set that, or attach an [`Adaptive`](crate::Adaptive) |
/// | hedges | 1 | if one call in 20 is slow by chance, two are in 400: the second hedge has little left to gain |
/// | deadline | none | only the caller knows how long an answer is worth waiting for |
/// | classifier | every error may pass | so no error wins while another attempt is in flight; right only where every error passes |
///
/// # Examples
///
/// ```
/// use resile::HedgePolicy;
/// use std::time::Duration;
///
/// static POLICY: HedgePolicy = HedgePolicy::new().with_delay(Duration::from_millis(80)).with_hedges(2);
/// assert_eq!((POLICY.hedges(), POLICY.deadline()), (2, None));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[must_use = "a policy does nothing until a call is made under it"]
pub struct HedgePolicy<C = Always> {
    delay: Duration,
    hedges: u32,
    deadline: Option<Duration>,
    classify: C,
}

/// As many attempts as gRPC allows a hedged call (gRFC A6), less the first.
const MOST: u32 = 4;

impl HedgePolicy {
    /// One hedge after a second.
    pub const fn new() -> Self {
        Self { delay: Duration::from_secs(1), hedges: 1, deadline: None, classify: Always }
    }
}

impl Default for HedgePolicy {
    fn default() -> Self {
        Self::new()
    }
}

impl<C> HedgePolicy<C> {
    /// How long an attempt may take before the next joins it. Zero starts all of them as soon as the first has to be
    /// waited for.
    pub const fn with_delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// How many attempts may join the first; more than 4 are 4. 0 never hedges.
    pub const fn with_hedges(mut self, hedges: u32) -> Self {
        self.hedges = if hedges > MOST { MOST } else { hedges };
        self
    }

    /// How long the whole call may take, counted from when it first had to be waited for. Zero gives it one poll.
    pub const fn with_deadline(mut self, limit: Duration) -> Self {
        self.deadline = Some(limit);
        self
    }

    /// The call may take as long as its attempts do.
    pub const fn without_deadline(mut self) -> Self {
        self.deadline = None;
        self
    }

    /// The same policy with that judge of errors: what it fails ends the call, what it would retry loses to any attempt
    /// in flight.
    pub const fn with_classify<D>(&self, classify: D) -> HedgePolicy<D> {
        let Self { delay, hedges, deadline, .. } = *self;
        HedgePolicy { delay, hedges, deadline, classify }
    }

    /// How long an attempt may take before the next joins it.
    #[must_use]
    pub const fn delay(&self) -> Duration {
        self.delay
    }

    /// How many attempts may join the first; at most 4.
    #[must_use]
    pub const fn hedges(&self) -> u32 {
        self.hedges
    }

    /// How long the whole call may take.
    #[must_use]
    pub const fn deadline(&self) -> Option<Duration> {
        self.deadline
    }

    /// What judges the errors.
    #[must_use]
    pub const fn classify(&self) -> &C {
        &self.classify
    }
}
