use std::time::Duration;

use super::Lease;

/// The time since the last use of a limit. Pure: time is an argument.
///
/// A process without calls for this limit rests: it gives its units back and exchanges nothing. The
/// first call that needs units ends the rest, and waits for one exchange.
#[derive(Clone, Copy, Debug)]
pub(super) struct Idle {
    /// The sum of spent units at the last look.
    spent: i64,
    /// The time of the last look at which the limit was in use, or of the first look.
    used_at: Option<Duration>,
    rests: bool,
}

/// The time without use after which a process rests.
pub(crate) const REST_AFTER: Duration = Duration::from_secs(10);

impl Idle {
    pub(super) const NEW: Self = Self { spent: 0, used_at: None, rests: false };

    /// Looks at the sum of spent units. `is_wanted` is true if a call waits or was refused.
    pub(super) fn observe(&mut self, spent: i64, is_wanted: bool, now: Duration) {
        if is_wanted || spent != self.spent || self.used_at.is_none() {
            self.used_at = Some(now);
        }
        self.spent = spent;
    }

    /// Returns true while the process holds no units for calls to come.
    pub(super) const fn rests(&self) -> bool {
        self.rests
    }
}

/// The rest of a process without calls.
impl Lease {
    /// Returns whether the limit was not used for [`REST_AFTER`].
    pub(crate) fn is_idle(&self, now: Duration) -> bool {
        self.idle.used_at.is_some_and(|at| now.saturating_sub(at) >= REST_AFTER)
    }

    /// Begins or ends the rest.
    pub(crate) const fn rest(&mut self, rests: bool) {
        self.idle.rests = rests;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_use_a_wait_or_a_refusal_begins_the_time_anew() {
        let mut idle = Idle::NEW;
        idle.observe(5, false, at(1));
        assert_eq!(idle.used_at, Some(at(1)));
        idle.observe(5, false, at(9));
        assert_eq!(idle.used_at, Some(at(1)));
        idle.observe(4, false, at(10)); // units came back
        assert_eq!(idle.used_at, Some(at(10)));
        idle.observe(4, true, at(11));
        assert_eq!(idle.used_at, Some(at(11)));
    }
}
