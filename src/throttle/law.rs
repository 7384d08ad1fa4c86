/// The attempts of the last window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Those that the upstream did not refuse.
    pub(super) accepted: u64,
    /// Those that the upstream or the throttle refused.
    pub(super) refused: u64,
}

/// The attempts for each accepted one from which the throttle refuses.
pub(super) const RATIO: u64 = 2;

/// The chance of an attempt to be refused: `refuse` of `of`. `of` is at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Odds {
    pub(super) refuse: u64,
    pub(super) of: u64,
}

impl Counts {
    /// Returns the odds `max(0, (requests − K · accepts) / (requests + 1))`, at most 0.9. The formula is
    /// that of "Site Reliability Engineering" (Beyer et al. 2016), chapter 21, with its `K` of 2.
    pub(super) const fn odds(self) -> Odds {
        let requests = self.accepted.saturating_add(self.refused);
        let of = requests.saturating_add(1);
        let excess = requests.saturating_sub(self.accepted.saturating_mul(RATIO));
        let most = of - of.div_ceil(10);
        Odds { refuse: if excess < most { excess } else { most }, of }
    }
}

impl Odds {
    /// Returns the odds in percent, rounded up.
    #[expect(clippy::cast_possible_truncation, reason = "at most 90")]
    pub(super) const fn percent(self) -> u32 {
        (self.refuse as u128 * 100).div_ceil(self.of as u128) as u32
    }
}

#[cfg(test)]
#[expect(clippy::cast_precision_loss, reason = "a share needs few digits")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_odds_are_those_of_the_formula(accepted in 0..1_u64 << 40, refused in 0..1_u64 << 40) {
            let odds = Counts { accepted, refused }.odds();
            let (accepts, requests) = (accepted as f64, (accepted + refused) as f64);
            let formula = ((requests - 2.0 * accepts) / (requests + 1.0)).clamp(0.0, 0.9);
            let share = odds.refuse as f64 / odds.of as f64;
            prop_assert!(share <= 0.9 && share <= formula + 1e-9);
            // Rounded to whole attempts.
            prop_assert!(share > formula - 1e-9 - 1.0 / odds.of as f64);
        }

        /// While the upstream accepts half, nothing is refused. An accepted attempt never raises the
        /// odds, and a refused one never lowers them.
        #[test]
        fn the_odds_follow_the_upstream(accepted in 0..1_000_u64, refused in 0..1_000_u64) {
            let odds = |accepted, refused| Counts { accepted, refused }.odds();
            let share = |odds: Odds| odds.refuse as f64 / odds.of as f64;
            let now = odds(accepted, refused);
            prop_assert_eq!(now.refuse == 0, refused <= accepted);
            // The bound of 0.9 is rounded to whole attempts.
            prop_assert!(share(odds(accepted + 1, refused)) <= share(now) + 1.0 / now.of as f64);
            prop_assert!(share(odds(accepted, refused + 10)) >= share(now));
            prop_assert!((now.refuse > 0) == (now.percent() > 0) && now.percent() <= 90);
        }

        #[test]
        fn no_count_panics(accepted: u64, refused: u64) {
            let odds = Counts { accepted, refused }.odds();
            prop_assert!(odds.of >= 1 && odds.refuse < odds.of && odds.percent() <= 90);
        }
    }
}
