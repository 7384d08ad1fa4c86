use std::time::Duration;

use super::last_attempt::LastAttempt;
use super::waits::{EarlierWaits, Told};
use crate::observe::{CallKind, NoRoom, TooLong};
use crate::policy::{Effect, StopReason};
use crate::quota::{Lack, TooLarge};
use crate::upstream::Name;
use crate::verdict::Verdict;

/// Everything but the last error.
#[derive(Clone, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each one is a fact of its own")]
pub(crate) struct Facts {
    pub(crate) reason: StopReason,
    pub(crate) kind: CallKind,
    /// True if the reason is that of the last inner call, whatever the kind of the outer one is.
    pub(crate) is_flat: bool,
    /// The attempts of a fallback are its alternatives.
    pub(crate) attempts: u32,
    pub(crate) elapsed: Duration,
    pub(crate) retry_after: Option<Duration>,
    /// The wait that the upstream asked for with the last error.
    pub(crate) hint: Option<Duration>,
    pub(crate) too_large: Option<TooLarge>,
    pub(crate) no_room: Option<NoRoom>,
    pub(crate) too_long: Option<TooLong>,
    /// What the next attempt would cost, if the quota made that wait too long.
    pub(crate) lack: Option<Lack>,
    /// The words for the reason, if this process knows more of it.
    pub(crate) words: Option<&'static str>,
    /// The verdict for an outer call. The classifier's own verdict may differ.
    pub(crate) verdict: Option<Verdict>,
    /// Tells `retry_after` to a fallback.
    pub(crate) told: Told,
    /// The waits of the alternatives of a fallback.
    pub(crate) earlier_waits: EarlierWaits,
    /// True if `retry_after` is the classifier's own floor.
    pub(crate) is_floor: bool,
    /// True if `retry_after` is the wait of another alternative than the one whose words the error has.
    pub(crate) is_of_another: bool,
    pub(crate) last: LastAttempt,
    pub(crate) in_doubt: bool,
    /// True if a call within an alternative of a fallback left the doubt.
    pub(crate) inherits_doubt: bool,
    /// True if the deadline cut an attempt, and the classifier has no opinion on that, so the request is in doubt.
    pub(crate) has_no_opinion: bool,
    pub(crate) effect: Effect,
    /// The consumer of a stream has content that nothing completes.
    pub(crate) is_partial: bool,
    pub(crate) upstream: Option<Name>,
    /// The upstream of the alternative that failed last, in the flat error of a fallback, or that its deadline cut.
    pub(crate) alternative: Option<Name>,
    /// The upstream of the alternative before, whose error is the last one, if the deadline cut that one.
    pub(crate) earlier: Option<Name>,
}

impl Facts {
    /// Returns whether the deadline ended a fallback. It says nothing about the waits of the alternatives before.
    pub(crate) fn is_late(&self) -> bool {
        self.kind == CallKind::Fallback
            && self.reason == StopReason::Deadline
            && self.retry_after.is_none()
    }

    /// Sets the wait before the next call, which begins with the first alternative again.
    pub(super) fn again_after(mut self, wait: Option<Duration>) -> Self {
        let wait = wait.filter(|_| wait != self.retry_after);
        let Some(wait) = wait else { return self };
        let shorten = |verdict: Verdict| {
            let is_longer = verdict.is_again() && verdict.wait().is_none_or(|own| own > wait);
            if is_longer { verdict.after(wait) } else { verdict }
        };
        self.verdict = self.verdict.map(shorten);
        self.retry_after = Some(wait).filter(|wait| !wait.is_zero());
        self.is_floor = false;
        self.is_of_another = true;
        self.told = Told::new(self.retry_after);
        self
    }
}
