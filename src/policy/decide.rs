use std::ops::RangeInclusive;
use std::time::Duration;

use super::{Attempt, Decision, RetryPolicy, StopReason};
use crate::verdict::{Health, Verdict};

impl<C> RetryPolicy<C> {
    /// Decides the next step after `failed`, an attempt with this verdict.
    ///
    /// `None` means that the classifier has no verdict. `elapsed` and `remaining` of `failed` are
    /// the times at the failure, but its `delay` is the delay before the failed attempt. `draw`
    /// returns a uniformly distributed number of the given range, such as `|range|
    /// timer.draw_within(range)` with any [`Timer`](crate::time::Timer). The function is pure and
    /// total, so a test can try it with made-up times.
    ///
    /// The first rule that applies decides:
    /// 1. Without a verdict stop as [`StopReason::Unclassified`].
    /// 2. If the request must not be sent again, stop as [`StopReason::Fatal`].
    /// 3. After the last attempt stop as [`StopReason::Attempts`].
    /// 4. If the [wait](Verdict::wait) of the verdict is above the hint cap, stop as [`StopReason::HintTooLong`].
    /// 5. If the delay leaves no time for another attempt, stop as [`StopReason::Deadline`].
    /// 6. Otherwise retry after the delay.
    ///
    /// The delay is that of the backoff, whose [base](Verdict::with_base) the verdict may set, or
    /// the hint with its jitter if that is longer. The classifier's own [floor](Verdict::at_least)
    /// counts as a hint throughout. A throttling and a failure of a healthy upstream may
    /// have a backoff of their own, by [`with_throttled_backoff`](RetryPolicy::with_throttled_backoff) and
    /// [`with_healthy_backoff`](RetryPolicy::with_healthy_backoff). The policy [`aws`](RetryPolicy::aws) cuts the
    /// hint, which then has no jitter. The jitter of a hint is positive, and zero with
    /// `Jitter::None`. It is at most the backoff's delay without jitter, or a tenth of the hint if
    /// that is more. It is also at most half of the time left after the hint, so a hint that fits
    /// the deadline still fits with jitter. The growth of the backoff continues after a hint.
    #[inline]
    pub fn decide(
        &self,
        failed: Attempt,
        verdict: Option<Verdict>,
        draw: impl FnMut(RangeInclusive<u64>) -> u64,
    ) -> Decision {
        match self.decide_by(failed, verdict, 0, draw) {
            Decision::Retry(delay) if failed.is_over_after(delay) => {
                Decision::Stop(StopReason::Deadline)
            }
            decision => decision,
        }
    }

    /// Decides like [`decide`](Self::decide), but for the deadline: the caller compares the delay with
    /// the time left. The first `renewed` attempts do not count.
    #[inline]
    pub(super) fn decide_by(
        &self,
        failed: Attempt,
        verdict: Option<Verdict>,
        renewed: u32,
        mut draw: impl FnMut(RangeInclusive<u64>) -> u64,
    ) -> Decision {
        let Some(verdict) = verdict else {
            return Decision::Stop(StopReason::Unclassified);
        };
        if !verdict.is_again() {
            return Decision::Stop(StopReason::Fatal);
        }
        let retry = failed.number().saturating_sub(renewed).max(1);
        if retry >= self.attempts {
            return Decision::Stop(StopReason::Attempts);
        }
        let own = match verdict.health() {
            Health::Throttling => &self.throttled_backoff,
            Health::Healthy => &self.healthy_backoff,
            Health::Failing | Health::Unknown => &None,
        };
        let backoff = own.as_ref().unwrap_or(&self.backoff);
        let based =
            verdict.base().filter(|base| !base.is_zero()).map(|base| backoff.with_base(base));
        let backoff = based.as_ref().unwrap_or(backoff);
        let mut delay = backoff.delay(retry, failed.delay(), &mut draw);
        if let Some(hint) = verdict.positive_wait() {
            if hint > self.hint_cap {
                return Decision::Stop(StopReason::HintTooLong);
            }
            let hint = if let Some(margin) = self.hint_margin {
                hint.min(delay.saturating_add(margin))
            } else {
                let room = failed.remaining().unwrap_or(Duration::MAX);
                backoff.after_hint(hint, retry, room, &mut draw)
            };
            delay = delay.max(hint);
        }
        Decision::Retry(delay)
    }
}
