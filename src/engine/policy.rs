use std::ops::RangeInclusive;
use std::time::Duration;

#[cfg(feature = "stream")]
use super::shown::Shown;
use crate::error::inherited::Inherited;
use crate::error::waits::EarlierWaits;
use crate::policy::{AsPolicy, Attempt, Decision, Rules};
use crate::time::nanos;
use crate::upstream::Name;
use crate::verdict::Verdict;

/// No limit, in nanoseconds.
pub(crate) const NO_LIMIT: u64 = u64::MAX;

/// The limits of a call as its policy sets them, in two words. The attempt timeout stands beside it.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    /// The total timeout in nanoseconds, or `NO_LIMIT`.
    pub(crate) total: u64,
    /// The number of attempts allowed.
    pub(crate) allowed: u32,
    /// True if the policy uses the timeout learned by the upstream.
    pub(crate) is_learned: bool,
    /// True if the total timeout is what the caller had left.
    pub(crate) is_shortened: bool,
}

/// The policy of one call. Times are in nanoseconds.
pub(crate) trait CallPolicy {
    type Rules: Rules;

    fn rules(&self) -> &Self::Rules;

    /// Returns the elapsed time to leave out of the total timeout.
    #[inline]
    fn excluded(&self) -> u64 {
        0
    }

    /// Returns the number of attempts that do not count.
    #[inline]
    fn spent(&self) -> u32 {
        0
    }

    /// Returns the time at which the stream of the attempt began to flow, on the timer. The time
    /// after it is not a latency of the upstream.
    #[inline]
    fn flows_since(&self) -> Option<u64> {
        None
    }

    /// Returns whether the consumer of a stream has a part of the answer.
    #[inline]
    fn is_partial(&self) -> bool {
        false
    }

    /// Returns the words for the end of a fallback that the calls in its last alternative have brought about.
    /// `is_by_default` is true if its classifier is the default one.
    #[inline]
    fn ended_by(&self, _is_by_default: bool) -> Option<&'static str> {
        None
    }

    /// Returns what the calls within the alternatives of a fallback leave.
    #[inline]
    fn inherited(&self) -> Inherited {
        Inherited::default()
    }

    /// Returns whether content of the attempt's stream has come, whatever the consumer has of it.
    #[inline]
    fn has_begun(&self) -> bool {
        false
    }

    /// Returns the verdict that counts, if the classifier has this one.
    #[inline]
    fn judged(&self, verdict: Verdict) -> Verdict {
        verdict
    }

    /// Drops the error of the attempt before by `drop`, because another one has failed.
    #[inline]
    fn drop_last(&mut self, drop: impl FnOnce()) {
        drop();
    }

    /// Returns the waits of the alternatives before the last error, at the end of a call that took
    /// `elapsed`.
    #[inline]
    fn earlier_waits(&self, _elapsed: Duration, _is_earlier: bool) -> EarlierWaits {
        EarlierWaits::default()
    }

    /// Returns the name of the call in the alternative that the deadline of a fallback has cut.
    #[inline]
    fn cut_call(&self) -> Option<&Name> {
        None
    }

    /// Returns the number of attempts allowed, including the attempts that do not count.
    #[inline]
    fn allowed(&self) -> u32 {
        self.rules().allowed().saturating_add(self.spent())
    }

    /// Returns the total timeout, or `NO_LIMIT`.
    #[inline]
    fn total_timeout(&self) -> u64 {
        match self.rules().timeouts().0 {
            None => NO_LIMIT,
            limit => limit_of(limit).saturating_add(self.excluded()).min(NO_LIMIT - 1),
        }
    }

    /// Returns the attempt timeout, or `NO_LIMIT`.
    #[inline]
    fn attempt_timeout(&self) -> u64 {
        limit_of(self.rules().timeouts().1)
    }

    /// Returns whether the limit on the call is what its caller had left.
    #[inline]
    fn is_shortened(&self) -> bool {
        self.rules().is_shortened()
    }

    /// Returns the time within which an attempt should have an answer. An attempt that the deadline of the
    /// call cut counts if it had at least half of it.
    fn fair_time(&self) -> u64 {
        let own = self.attempt_timeout();
        if self.rules().is_shortened() {
            own
        } else {
            self.total_timeout().saturating_sub(self.excluded()).min(own)
        }
    }

    /// Returns whether there is a limit on the call or on an attempt.
    #[inline]
    fn has_timeouts(&self) -> bool {
        let (total, own) = self.rules().timeouts();
        total.is_some() || own.is_some()
    }

    /// Returns the limits of the call.
    #[inline]
    fn limits(&self) -> Limits {
        Limits {
            total: self.total_timeout(),
            allowed: self.allowed(),
            is_learned: self.rules().is_learned(),
            is_shortened: self.is_shortened(),
        }
    }

    /// Returns the limit that ends the call, as the caller has set it.
    fn limit(&self) -> Option<Duration> {
        self.rules().timeouts().0
    }

    /// Decides the next step after a failed attempt as if the call had no deadline.
    #[inline]
    fn decide(
        &self,
        failed: Attempt,
        verdict: Option<Verdict>,
        draw: impl FnMut(RangeInclusive<u64>) -> u64,
    ) -> Decision {
        self.rules().decide_renewed(failed, verdict, self.spent(), draw)
    }
}

/// Converts a limit to nanoseconds. A given limit is never `NO_LIMIT`.
#[inline]
pub(crate) const fn limit_of(limit: Option<Duration>) -> u64 {
    match limit {
        None => NO_LIMIT,
        Some(limit) => {
            let limit = nanos(limit);
            if limit == NO_LIMIT { NO_LIMIT - 1 } else { limit }
        }
    }
}

/// A policy without changes.
pub(crate) struct Plain<P>(pub(crate) P);

impl<P: AsPolicy<Policy: Rules>> CallPolicy for Plain<P> {
    type Rules = P::Policy;

    #[inline]
    fn rules(&self) -> &P::Policy {
        self.0.as_policy()
    }
}

/// A policy whose total timeout and attempts can restart.
pub(crate) struct Renewed<P> {
    policy: P,
    excluded: u64,
    spent: u32,
}

impl<P> Renewed<P> {
    pub(crate) const fn new(policy: P) -> Self {
        Self { policy, excluded: 0, spent: 0 }
    }

    /// Restarts the total timeout: the time up to `elapsed` no longer counts.
    #[cfg(feature = "stream")]
    pub(crate) const fn exclude(&mut self, elapsed: u64) {
        self.excluded = elapsed;
    }

    /// Restarts the count of attempts: the first `attempts` no longer count.
    pub(crate) const fn renew(&mut self, attempts: u32) {
        self.spent = attempts;
    }
}

impl<P: AsPolicy<Policy: Rules>> CallPolicy for Renewed<P> {
    type Rules = P::Policy;

    fn rules(&self) -> &P::Policy {
        self.policy.as_policy()
    }

    fn excluded(&self) -> u64 {
        self.excluded
    }

    fn spent(&self) -> u32 {
        self.spent
    }
}

/// A [`Renewed`] policy of a stream, which has a limit on the whole stream and knows when the stream
/// of the attempt began to flow.
#[cfg(feature = "stream")]
pub(crate) struct Flowing<P> {
    pub(crate) renewed: Renewed<P>,
    /// The limit on the whole stream in nanoseconds, or `NO_LIMIT`. It never restarts.
    pub(crate) whole: u64,
    /// True if that is what the caller had left.
    pub(crate) is_whole_shortened: bool,
    pub(crate) shown: Shown,
    since: Option<u64>,
}

#[cfg(feature = "stream")]
impl<P> Flowing<P> {
    pub(crate) const fn new(policy: P) -> Self {
        Self {
            renewed: Renewed::new(policy),
            whole: NO_LIMIT,
            is_whole_shortened: false,
            shown: Shown::nothing(),
            since: None,
        }
    }

    /// Sets the limit on the whole stream.
    pub(crate) const fn limit_to(&mut self, limit: Duration) {
        (self.whole, self.is_whole_shortened) = (limit_of(Some(limit)), false);
    }

    /// Shortens the whole stream to the time that its caller has left.
    pub(crate) const fn shorten_to(&mut self, left: Duration) {
        let left = limit_of(Some(left));
        if left < self.whole {
            (self.whole, self.is_whole_shortened) = (left, true);
        }
    }

    /// Sets the time of the first content, on the timer. `None` is for an attempt without content,
    /// and for an upstream that does not need the time.
    pub(crate) const fn flow_since(&mut self, now: Option<u64>) {
        self.since = now;
    }
}

#[cfg(feature = "stream")]
impl<P: AsPolicy<Policy: Rules>> Flowing<P> {
    /// Returns whether the limit on the whole stream ends before that on the wait for content.
    fn whole_ends_first(&self) -> bool {
        self.whole < self.renewed.total_timeout()
    }
}

#[cfg(feature = "stream")]
impl<P: AsPolicy<Policy: Rules>> CallPolicy for Flowing<P> {
    type Rules = P::Policy;

    fn rules(&self) -> &P::Policy {
        self.renewed.rules()
    }

    fn excluded(&self) -> u64 {
        self.renewed.excluded()
    }

    fn spent(&self) -> u32 {
        self.renewed.spent()
    }

    fn flows_since(&self) -> Option<u64> {
        self.since
    }

    fn is_partial(&self) -> bool {
        self.shown.has_content
    }

    fn has_begun(&self) -> bool {
        self.shown.has_begun
    }

    fn total_timeout(&self) -> u64 {
        self.renewed.total_timeout().min(self.whole)
    }

    fn is_shortened(&self) -> bool {
        if self.whole_ends_first() { self.is_whole_shortened } else { self.renewed.is_shortened() }
    }

    fn fair_time(&self) -> u64 {
        let fair = self.renewed.fair_time();
        if self.is_whole_shortened || self.renewed.is_shortened() {
            fair
        } else {
            self.whole.saturating_sub(self.excluded()).min(fair)
        }
    }

    fn limit(&self) -> Option<Duration> {
        if self.whole_ends_first() {
            Some(Duration::from_nanos(self.whole))
        } else {
            self.renewed.limit()
        }
    }

    fn has_timeouts(&self) -> bool {
        self.whole != NO_LIMIT || self.renewed.has_timeouts()
    }
}
