/// A clock that runs at a share of the real one. A bucket on it refills at this share of its rate.
///
/// What a bucket has taken is a time of its own clock, so a new share changes no reservation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    /// A moment of the real clock in nanoseconds, and the same moment of this one.
    real: u64,
    own: u64,
    /// The speed, in parts of [`ONE`].
    share: u64,
}

/// The speed of the real clock.
const ONE: u64 = 1 << 32;
/// The highest speed.
pub(super) const MOST: f64 = 16.0;
/// The lowest speed.
pub(super) const LEAST: f64 = 1.0 / 1_024.0;

impl Clock {
    pub(super) const fn new() -> Self {
        Self { real: 0, own: 0, share: ONE }
    }

    /// Returns a clock that is the real one until its speed changes.
    pub(super) const fn starting_at(now: u64) -> Self {
        Self { real: now, own: now, share: ONE }
    }

    /// Returns the time of this clock at `now`. Rounded down, so that no unit refills too early.
    pub(super) fn at(&self, now: u64) -> u64 {
        let run = |time: u64| narrow((u128::from(time) * u128::from(self.share)) >> 32);
        match now.checked_sub(self.real) {
            Some(later) => self.own.saturating_add(run(later)),
            None => self.own.saturating_sub(run(self.real - now)),
        }
    }

    /// Returns the real time at which this clock shows `own`. Rounded up.
    pub(super) fn when(&self, own: u64) -> u64 {
        let take = |time: u64| narrow((u128::from(time) << 32).div_ceil(u128::from(self.share)));
        match own.checked_sub(self.own) {
            Some(later) => self.real.saturating_add(take(later)),
            None => self.real.saturating_sub(take(self.own - own)),
        }
    }

    /// Lets the clock run at another share of the real one from `now` on.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "is in bounds")]
    #[expect(clippy::cast_precision_loss, reason = "is exact")]
    #[expect(clippy::manual_clamp, reason = "the lowest share for NaN")]
    pub(super) fn set(&mut self, share: f64, now: u64) {
        let share = (share.max(LEAST).min(MOST) * ONE as f64) as u64; // NaN is the least
        if share != self.share {
            *self = Self { real: now, own: self.at(now), share };
        }
    }
}

fn narrow(time: u128) -> u64 {
    u64::try_from(time).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn share() -> impl Strategy<Value = f64> {
        prop_oneof![LEAST..=1.0, Just(1.0), Just(f64::NAN), any::<f64>()]
    }

    proptest! {
        /// Below the speed of the real clock it never runs faster, and both directions agree.
        #[test]
        fn it_never_runs_ahead_and_never_jumps(
            steps in prop::collection::vec((0..1_u64 << 60, LEAST..=1.0), 1..20),
        ) {
            let (mut clock, mut now) = (Clock::new(), 0_u64);
            for (pause, share) in steps {
                let (before, own) = (now, clock.at(now));
                now = now.saturating_add(pause);
                let later = clock.at(now);
                prop_assert!(later - own <= now - before);
                clock.set(share, now);
                prop_assert_eq!(clock.at(now), later);
                let at = clock.when(later + 12_345);
                prop_assert!(clock.at(at) >= later + 12_345);
                prop_assert!(clock.at(at - 1) <= later + 12_345);
            }
        }

        /// No number makes it panic or stand still.
        #[test]
        fn any_number_is_taken(share in share(), a in any::<u64>(), b in any::<u64>()) {
            let mut clock = Clock::new();
            clock.set(share, a);
            prop_assert!(clock.at(u64::MAX) >= clock.at(a));
            prop_assert!(clock.when(b) >= clock.when(0));
        }
    }
}
