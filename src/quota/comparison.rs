use std::time::Duration;

use super::limits::Limit;
use super::rate::Rate;

/// The comparison of a configured limit with the one that the provider reports. Pure: time is an
/// argument, in nanoseconds.
///
/// The two are compared as rates. A report without a window counts the configured period, unless
/// the time until its reset says otherwise: it is never longer than the window, and while the limit
/// is in use it comes near to it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Comparison {
    /// The longest time until a reset in a report without a window.
    reset: Option<Duration>,
    /// The lowest reported share, and the last time at which it was reported.
    lowest: Option<(f64, u64)>,
    /// The lowest share that operators were told, and whether they were told of a higher one.
    told: Option<f64>,
    has_told_more: bool,
}

/// A report that differs from the configured limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Report {
    /// The reported limit as a share of the configured one.
    pub(super) share: f64,
    /// The limit of this report. `None` if a lower one counts.
    pub(super) reported: Option<Rate>,
    /// True if its period is known.
    pub(super) is_sure: bool,
    /// True if operators have not been told yet.
    pub(super) is_news: bool,
}

/// The share from which the unused part of a limit is worth a line.
const MORE: f64 = 1.8;
/// The share from which two limits are equal: providers round.
const EQUAL: f64 = 0.985;

impl Comparison {
    pub(super) const fn new() -> Self {
        Self { reset: None, lowest: None, told: None, has_told_more: false }
    }

    /// Compares a report at `now`. A higher limit replaces a lower one after `memory` nanoseconds
    /// without a report of the lower one. `None` for a report that says nothing of the rate.
    pub(super) fn compare(
        &mut self,
        rate: &Rate,
        limit: &Limit,
        memory: f64,
        now: u64,
    ) -> Option<Report> {
        let count = limit.limit.filter(|count| *count > 0)?;
        let period = rate.period().as_secs_f64();
        let (window, is_sure) = self.window_of(limit, rate.period())?;
        let reported = Rate::new(count, window);
        let window = window.as_secs_f64();
        let share = float(count) / window * period / f64::from(rate.count()).max(1.0);
        let lacks = f64::from(rate.count()) * (1.0 - share);
        let share = if share < 1.0 && (share > EQUAL || lacks < 1.0) { 1.0 } else { share };
        let (share, reported) = match self.lowest {
            Some((lowest, at)) if share > lowest && is_recent(at, memory, now) => (lowest, None),
            _ => {
                self.lowest = Some((share, now));
                (share, Some(reported))
            }
        };
        Some(Report { share, reported, is_sure, is_news: self.is_news(share, is_sure) })
    }

    /// Returns the window, and whether it is known.
    fn window_of(&mut self, limit: &Limit, whole: Duration) -> Option<(Duration, bool)> {
        let period = whole.as_secs_f64();
        if let Some(window) = limit.window {
            // A longer window lets a burst pass that the rate does not tell.
            let is_told = !window.is_zero() && window.as_secs_f64() <= 1.5 * period;
            return is_told.then_some((window, true));
        }
        let reset = limit.reset.map_or(0.0, |reset| reset.as_secs_f64());
        if reset > 1.5 * period {
            return None;
        }
        self.reset = self.reset.max(limit.reset);
        match self.reset {
            None => Some((whole, false)),
            Some(reset) => (reset.as_secs_f64() >= period / 4.0).then_some((whole, true)),
        }
    }

    fn is_news(&mut self, share: f64, is_sure: bool) -> bool {
        if share < 1.0 {
            let is_news = self.told.is_none_or(|told| share < told * EQUAL);
            if is_news {
                self.told = Some(share);
            }
            return is_news;
        }
        self.told = None; // a limit that falls again is news
        let is_more = share >= MORE && is_sure;
        is_more && !std::mem::replace(&mut self.has_told_more, true)
    }
}

fn is_recent(at: u64, memory: f64, now: u64) -> bool {
    float(now.saturating_sub(at)) < memory
}

#[expect(clippy::cast_precision_loss, reason = "a share needs no exact limit")]
const fn float(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MEMORY: f64 = 60e9;

    fn limit(count: u64, window: Option<u64>, reset: Option<u64>) -> Limit {
        let seconds = |time: Option<u64>| time.map(Duration::from_secs);
        Limit { reset: seconds(reset), ..Limit::of(count, seconds(window)) }
    }

    fn share(rate: Rate, limit: Limit) -> Option<(f64, bool)> {
        let report = Comparison::new().compare(&rate, &limit, MEMORY, 0)?;
        Some(((report.share * 100.0).round() / 100.0, report.is_sure))
    }

    #[test]
    fn limits_are_compared_as_rates() {
        let minute = Rate::per_minute(600);
        for (limit, expected) in [
            (limit(300, Some(60), None), Some((0.5, true))),
            (limit(5, Some(1), None), Some((0.5, true))),
            (limit(20, Some(1), None), Some((2.0, true))),
            (limit(600, Some(60), None), Some((1.0, true))),
            // Providers round.
            (limit(599, Some(60), None), Some((1.0, true))),
            (limit(595, Some(60), None), Some((1.0, true))),
            // A longer window says nothing about the rate of a minute.
            (limit(10, Some(3_600), None), None),
            (limit(14_400, None, Some(80_000)), None),
            // Without a window the time until the reset decides.
            (limit(300, None, None), Some((0.5, false))),
            (limit(300, None, Some(60)), Some((0.5, true))),
            (limit(300, None, Some(15)), Some((0.5, true))),
            (limit(10, None, Some(1)), None),
            (limit(0, Some(60), None), None),
            (limit(300, Some(0), None), None),
        ] {
            assert_eq!(share(minute, limit), expected, "{limit:?}");
        }
        assert_eq!(share(Rate::per_second(10), limit(300, Some(60), None)), None);
        assert_eq!(share(Rate::per_hour(3_600), limit(30, Some(60), None)), Some((0.5, true)));
        assert_eq!(share(Rate::per_second(0), limit(30, Some(1), None)), Some((30.0, true)));
    }

    #[test]
    fn each_difference_is_told_once_and_the_lower_limit_counts() {
        let (rate, mut comparison) = (Rate::per_minute(600), Comparison::new());
        let mut tell = |count: u64, second: u64| {
            let limit = limit(count, Some(60), None);
            let report = comparison.compare(&rate, &limit, MEMORY, second * 1_000_000_000);
            report.map(|report| (report.share, report.is_news)).unwrap()
        };
        assert_eq!(tell(600, 0), (1.0, false));
        assert_eq!(tell(300, 1), (0.5, true));
        // Two models with two limits: the lower one stays, and nothing is told again.
        for second in 2..100 {
            let count = if second % 2 == 0 { 600 } else { 300 };
            assert_eq!(tell(count, second), (0.5, false));
        }
        assert_eq!(tell(150, 100), (0.25, true));
        assert_eq!(tell(600, 159), (0.25, false));
        assert_eq!(tell(600, 160), (1.0, false));
        assert_eq!(tell(1_200, 161), (1.0, false));
        assert_eq!(tell(1_200, 220), (2.0, true));
        assert_eq!(tell(1_200, 221), (2.0, false));
        assert_eq!(tell(300, 222), (0.5, true));
    }

    proptest! {
        #[test]
        fn any_report_is_taken(
            (count, nanos) in (any::<u32>(), any::<u64>()),
            reports in prop::collection::vec((any::<u64>(), any::<u64>(), any::<u64>(), 0..4_u8), 1..9),
        ) {
            let (rate, mut comparison) = (Rate::new(u64::from(count), Duration::from_nanos(nanos)), Comparison::new());
            for (now, (limit, window, reset, which)) in (0..).zip(reports) {
                let of = |bit, seconds| (which & bit > 0).then(|| Duration::from_secs(seconds));
                let limit = Limit { reset: of(1, reset), ..Limit::of(limit, of(2, window)) };
                if let Some(report) = comparison.compare(&rate, &limit, MEMORY, now) {
                    prop_assert!(report.share > 0.0, "{}", report.share);
                }
            }
        }
    }
}
