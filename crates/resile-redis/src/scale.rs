use resile::Budget;
use resile::quota::Rate;

/// The numbers by which the server counts one limit. Pure, so every member of a fleet with the same
/// limit has the same numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Scale {
    /// The units that may be used at once.
    pub(crate) burst: i64,
    /// The largest level, in units. It is at least the refill of 0.15 s and a few units, because a
    /// member asks for its units about every tenth of a second. For a low limit it is 0.2 s.
    pub(crate) most: i64,
    /// The largest level, in parts. At most 2^52.
    pub(crate) capacity: i64,
    /// The burst in parts: the server keeps no more while no member lacks units.
    pub(crate) calm: i64,
    /// The parts that refill in a microsecond.
    pub(crate) rate: i64,
    /// The parts in a unit.
    pub(crate) parts: i64,
    /// The units that refill in a second.
    pub(crate) per_second: f64,
}

/// The largest capacity in parts: the numbers of a script are exact up to 2^53.
const MOST_PARTS: u128 = 1 << 52;

/// One token of a budget, in the units of a lease.
pub(crate) const TOKEN: i64 = 1_000_000;

impl Scale {
    /// Returns the scale of a rate. The server never refills faster than the rate says.
    pub(crate) fn of_rate(rate: &Rate) -> Self {
        let count = u128::from(rate.count());
        let period = rate.period().as_micros().max(1);
        let least = refill_of(rate, 200_000).min(refill_of(rate, 150_000) + 4);
        let most = least.max(u128::from(rate.burst())).max(1);
        // As many parts as fit make the rounding of `refill` small.
        let parts = (MOST_PARTS / most).max(1);
        let refill = (count * parts / period).min(MOST_PARTS);
        Self {
            burst: i64::from(rate.burst()),
            most: whole(most),
            capacity: whole(most * parts),
            calm: whole(u128::from(rate.burst()) * parts),
            rate: whole(refill),
            parts: whole(parts),
            per_second: f64::from(rate.count()) / rate.period().as_secs_f64().max(1e-9),
        }
    }

    /// Returns the scale of a share of the limit. The burst stays: the level of the account then
    /// keeps its parts. At least one part refills in a microsecond.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "is at most 2^52"
    )]
    pub(crate) fn at_share(self, share: f64) -> Self {
        let rate = ((self.rate as f64 * share) as i64).clamp(self.rate.min(1), self.rate);
        Self { rate, per_second: self.per_second * share, ..self }
    }

    /// Returns the scale of a budget. Nothing refills by time.
    pub(crate) fn of_budget(budget: &Budget) -> Self {
        let most = i64::from(budget.capacity()) * TOKEN;
        Self { burst: most, most, capacity: most, calm: most, rate: 0, parts: 1, per_second: 0.0 }
    }

    /// Returns the units that the dearest retry costs. A budget pays at most with its capacity.
    pub(crate) fn cost_of(budget: &Budget) -> i64 {
        let (failed, throttled) = budget.costs();
        i64::from(failed.max(throttled).min(budget.capacity())) * TOKEN
    }
}

/// Returns the burst that counts in place of that of a rate which is below 0.25 s of the limit.
pub(crate) fn counted_burst(rate: &Rate) -> Option<u128> {
    let quarter = refill_of(rate, 250_000);
    Some(quarter).filter(|quarter| *quarter > u128::from(rate.burst()))
}

/// Returns the units that refill in so many microseconds, rounded up.
fn refill_of(rate: &Rate, micros: u128) -> u128 {
    (u128::from(rate.count()) * micros).div_ceil(rate.period().as_micros().max(1))
}

fn whole(number: u128) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_burst_below_a_quarter_of_a_second_counts_as_that() {
        let counted = |count, burst| counted_burst(&Rate::per_second(count).with_burst(burst));
        assert_eq!([counted(38, 2), counted(60, 14)], [Some(10), Some(15)]);
        assert_eq!([counted(60, 15), counted(2, 1), counted(38, 38)], [None; 3]);
        assert_eq!(counted_burst(&Rate::per_minute(20).with_burst(1)), None);
    }

    proptest! {
        /// The refill of a day is at most that of the rate, and less by at most one part of it.
        #[test]
        fn the_refill_is_exact_and_never_too_fast(
            count in 1_u32..,
            millis in 1_u64..100_000_000,
            burst in 1_u32..1 << 28,
        ) {
            let rate = Rate::new(u64::from(count), Duration::from_millis(millis)).with_burst(u64::from(burst));
            let scale = Scale::of_rate(&rate);
            prop_assert!(scale.capacity <= 1 << 52);
            prop_assert!(scale.most >= i64::from(rate.burst()));
            let [refill, parts] = [scale.rate, scale.parts].map(i128::from);
            let period = i128::from(millis) * 1_000;
            let (got, right) = (refill * period, i128::from(count) * parts);
            prop_assert!(got <= right && right - got < period);
        }
    }
}
