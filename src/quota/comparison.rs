use std::time::Duration;

use super::limits::Limit;
use super::rate::Rate;
use super::refill::Refill;

/// The comparison of a configured limit with the one that the provider reports. Pure: time is an
/// argument, in nanoseconds.
///
/// The two are compared as rates. A report without a window counts the window that several answers
/// agree on. Until then it counts the configured period, unless the time until its reset says
/// otherwise: it is never longer than the window, and while the limit is in use it comes near to it.
/// Such a report only lowers: a limit whose window is longer than the period, in the last moments of
/// that window, would else be many times the configured one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Comparison {
    refill: Refill,
    /// The longest time until a reset in a report without a window.
    reset: Option<Duration>,
    /// The lowest reported share, and the last time at which it was reported.
    lowest: Option<(f64, u64)>,
    /// The lowest share that operators were told, and whether its period was known.
    told: Option<(f64, bool)>,
    /// True if operators were told of a higher share.
    has_told_more: bool,
}

/// The way in which the window of a report is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Basis {
    /// The provider names it, or several answers agree on it.
    Known,
    /// The time until the reset is near to the configured period.
    Reset,
    Unknown,
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
        Self { refill: Refill::new(), reset: None, lowest: None, told: None, has_told_more: false }
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
        let Some((window, basis)) = self.window_of(limit, rate.period()) else {
            return self.withdraw(limit, now);
        };
        let reported = Rate::new(count, window);
        let window = window.as_secs_f64();
        let share = float(count) / window * period / f64::from(rate.count()).max(1.0);
        let lacks = f64::from(rate.count()) * (1.0 - share);
        let is_equal = share < 1.0 && (share > EQUAL || lacks < 1.0);
        let is_raised = share > 1.0 && basis != Basis::Known;
        let share = if is_equal || is_raised { 1.0 } else { share };
        let (share, reported) = match self.lowest {
            Some((lowest, at)) if share > lowest && is_recent(at, memory, now) => (lowest, None),
            _ => {
                self.lowest = Some((share, now));
                (share, Some(reported))
            }
        };
        let is_sure = basis != Basis::Unknown;
        Some(Report { share, reported, is_sure, is_news: self.is_news(share, is_sure) })
    }

    /// Takes a higher limit back, since the window on which it rested is known no longer.
    fn withdraw(&mut self, limit: &Limit, now: u64) -> Option<Report> {
        let is_above = self.lowest.is_some_and(|(share, _)| share > 1.0);
        (limit.window.is_none() && is_above).then(|| {
            self.lowest = Some((1.0, now));
            Report { share: 1.0, reported: None, is_sure: true, is_news: false }
        })
    }

    /// Returns the window, and how it is known. `None` if it may be any.
    fn window_of(&mut self, limit: &Limit, whole: Duration) -> Option<(Duration, Basis)> {
        let period = whole.as_secs_f64();
        if limit.window.is_none() {
            self.refill.note(limit);
        }
        if let Some(window) = limit.window.or_else(|| self.refill.window()) {
            // A longer window lets a burst pass that the rate does not tell.
            let is_told = !window.is_zero() && window.as_secs_f64() <= 1.5 * period;
            return is_told.then_some((window, Basis::Known));
        }
        let reset = limit.reset.map_or(0.0, |reset| reset.as_secs_f64());
        if reset > 1.5 * period {
            return None;
        }
        self.reset = self.reset.max(limit.reset);
        match self.reset {
            None => Some((whole, Basis::Unknown)),
            Some(reset) => (reset.as_secs_f64() >= period / 4.0).then_some((whole, Basis::Reset)),
        }
    }

    fn is_news(&mut self, share: f64, is_sure: bool) -> bool {
        if share < 1.0 {
            // A known period is news after a line that had none.
            let is_news = self
                .told
                .is_none_or(|(told, was_sure)| share < told * EQUAL || is_sure && !was_sure);
            if is_news {
                self.told = Some((share, is_sure));
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
            // A reset that is near to the period may be the end of a longer window.
            (limit(14_400, None, Some(30)), Some((1.0, true))),
            (limit(1_200, None, None), Some((1.0, false))),
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

    /// A limit without a window: what is left of it, and the seconds until its reset.
    fn even(limit: u64, remaining: u64, reset: f64) -> Limit {
        let reset = Some(Duration::from_secs_f64(reset));
        Limit { remaining: Some(remaining), reset, ..Limit::of(limit, None) }
    }

    #[test]
    fn a_higher_limit_without_a_window_is_found_by_four_answers_and_withdrawn_by_one() {
        let (rate, mut comparison) = (Rate::per_minute(600), Comparison::new());
        let mut of = |remaining: u64, reset: f64, second: u64| {
            let limit = even(1_200, remaining, reset);
            let report = comparison.compare(&rate, &limit, MEMORY, second * 1_000_000_000);
            report.map(|report| (report.share, report.is_news))
        };
        assert_eq!(of(1_000, 10.001, 0), None);
        assert_eq!(of(600, 30.001, 1), Some((1.0, false)));
        assert_eq!(of(900, 15.001, 2), Some((1.0, false)));
        assert_eq!(of(200, 50.001, 70), Some((2.0, true)));
        assert_eq!(of(1_199, 0.05, 71), Some((2.0, false)));
        assert_eq!(of(600, 2.001, 72), Some((1.0, false)));
        assert_eq!(of(600, 30.001, 73), Some((1.0, false)));
        // A day: a reset says nothing of a minute.
        assert_eq!(of(600, 40_000.5, 74), None);
    }

    /// One answer of a fixed window in its last second.
    #[test]
    fn one_answer_tells_no_window() {
        let rate = Rate::per_minute(30_000);
        assert_eq!(share(rate, even(30_000, 0, 1.0)), None);
        assert_eq!(share(rate, even(30_000, 15_000, 0.5)), None);
    }

    /// A provider that tells its limit, what is left and the time until the reset, and never its window.
    #[derive(Clone, Copy, Debug)]
    struct Provider {
        limit: f64,
        window: f64,
        is_bucket: bool,
        used: f64,
        at: f64,
    }

    impl Provider {
        fn answer(&mut self, at: f64, cost: f64) -> Limit {
            let before = std::mem::replace(&mut self.at, at);
            let end = ((at / self.window).floor() + 1.0) * self.window;
            if self.is_bucket {
                self.used -= (at - before) * self.limit / self.window;
            } else if before < end - self.window {
                self.used = 0.0;
            }
            self.used = (self.used.max(0.0) + cost).min(self.limit);
            let back = self.used / self.limit * self.window;
            let reset = if self.is_bucket { back } else { end - at };
            let millis = (reset * 1e3).round() / 1e3;
            even(whole(self.limit), whole(self.limit - self.used), millis)
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "small and above 0"
    )]
    fn whole(number: f64) -> u64 {
        number as u64
    }

    /// Callers with pauses of a part of the window and costs of a part of the limit.
    fn calls() -> impl Strategy<Value = Vec<(f64, f64)>> {
        let part = || prop_oneof![0.0..0.01_f64, 0.0..0.4_f64];
        prop::collection::vec((prop_oneof![part(), 0.0..3.0_f64], part()), 1..120)
    }

    proptest! {
        /// Whatever a provider with fixed windows answers, no share is above its true limit.
        #[test]
        fn a_fixed_window_never_raises_a_limit_above_the_true_one(
            window in prop::sample::select(vec![1.0, 2.0, 60.0, 90.0, 600.0, 3_600.0, 86_400.0_f64]),
            (limit, ours) in (1_000_u32..1_000_000, 1_000_u32..1_000_000),
            begin in 0.0..1.0_f64,
            calls in calls(),
        ) {
            let (rate, mut comparison) = (Rate::per_minute(u64::from(ours)), Comparison::new());
            let truth = f64::from(limit) / window * 60.0 / f64::from(ours);
            let mut now = begin * window;
            let limit = f64::from(limit);
            let mut provider = Provider { limit, window, is_bucket: false, used: 0.0, at: now };
            for (pause, cost) in calls {
                now += pause * window;
                let limit = provider.answer(now, cost * limit);
                let report = comparison.compare(&rate, &limit, MEMORY, whole(now * 1e9));
                let Some(report) = report else { continue };
                prop_assert!(report.share <= truth.max(1.0) * 1.02, "{report:?} {truth}");
            }
        }

        /// A bucket whose level changes is found.
        #[test]
        fn a_bucket_is_found(
            window in prop::sample::select(vec![1.0, 60.0_f64]),
            (limit, ours) in (10_000_u32..1_000_000, 10_000_u32..1_000_000),
            begin in 0.0..1.0_f64,
            levels in prop::collection::vec((0.2..0.3_f64, 0.5..0.9_f64), 8..20),
        ) {
            let (rate, mut comparison) = (Rate::per_minute(u64::from(ours)), Comparison::new());
            let truth = f64::from(limit) / window * 60.0 / f64::from(ours);
            let (mut now, mut last) = (begin * window, None);
            let limit = f64::from(limit);
            let mut provider = Provider { limit, window, is_bucket: true, used: 0.0, at: now };
            for (low, high) in levels {
                // Calls use much at once, and then little until most of it is back.
                for (pause, cost) in [(0.01, high - provider.used / limit), (high - low, 0.01)] {
                    now += pause * window;
                    let limit = provider.answer(now, cost * limit);
                    last = comparison.compare(&rate, &limit, MEMORY, whole(now * 1e9));
                }
            }
            let found = last.map_or(0.0, |report| report.share);
            let is_found = (found / truth - 1.0).abs() < 0.02;
            prop_assert!(is_found, "{found} {truth} {:?}", comparison);
        }

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
