use std::time::Duration;

use super::clock::LEAST;
use super::rate::Rate;

/// The law by which refusals and reports change the share of a limit that is used. Pure: time is an
/// argument, in nanoseconds.
///
/// `DESIGN.md` gives the reasons and the bounds. In short, with `T` the period of the limit, but at
/// least 10 s and at most a minute:
///
/// * The first refusal takes the burst away. A provider that counts in windows keeps what was used
///   at once for a whole window, and so for this time further refusals say nothing about the rate.
///   A limit without a burst, or calls that have waited for a window, have no burst to take.
/// * Each later refusal takes its cost per `T` from the limit, and a hold takes its part of `T` unless
///   calls have waited for `T` since the last refusal. Within `T` the limit falls by at most half.
/// * While calls wait, the share grows. Far below the last refused share, it takes a step each `T`:
///   half of the distance. Near it, it grows by the cost of one call in 3,000 calls. After 2,500
///   calls without a refusal it probes: each `T` adds a probe, the first one is half of a call,
///   and each further one is twice as large. A refusal takes the last probe back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Law {
    /// The share of the configured limit that is used.
    share: f64,
    /// The share that the provider reports, and 1 without a report.
    top: f64,
    /// The most that the processes together allow, and 1 for a process alone.
    most: f64,
    /// The sum of the changes by refusals and by growth, since other processes were told.
    moved: f64,
    /// The share that was refused last.
    refused: f64,
    /// The cost of one call per `T`, as a share of the limit.
    step: f64,
    /// The time for which calls have waited since the last refusal.
    clean: f64,
    /// The clean time of the next step.
    next_step: f64,
    /// The last probe since the last refusal.
    probe: f64,
    /// The start of the current `T`, and the lowest share in it.
    epoch: u64,
    floor: f64,
    /// The last time at which a call waited, and the time since which calls wait.
    waited_at: u64,
    waiting_since: u64,
    /// The end of the latest hold.
    held_until: u64,
    /// The times of the last refusal, and of the last one that took a burst away.
    refused_at: Option<u64>,
    cut_at: Option<u64>,
}

/// The numbers of a limit that the law needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    /// The period, within 10 s and a minute.
    turn: f64,
    /// The time for which a provider remembers a burst.
    window: u64,
    /// The burst that is left after a refusal, as a share: a tenth of a second.
    least_burst: f64,
}

const SECOND: f64 = 1e9;
/// The largest step: a limit of fewer calls in a `T` is learned more slowly, but not in jumps.
const LARGEST_STEP: f64 = 1.0 / 32.0;
/// The largest growth in one step.
const LARGEST_RISE: f64 = 0.05;
/// The calls for each of which one refusal is the price of growth.
const CALLS: f64 = 3_000.0;
/// The calls without a refusal after which the first probe comes.
const CLEAN_CALLS: f64 = 2_500.0;
/// The longest times of these calls.
const PATIENCE: f64 = 1_200.0 * SECOND;

impl Terms {
    pub(super) fn of(rate: &Rate) -> Self {
        let period = rate.period().as_secs_f64() * SECOND;
        let turn = period.clamp(10.0 * SECOND, 60.0 * SECOND);
        let burst = float(rate.time_of(u64::from(rate.burst()))).max(1.0);
        let least = float(rate.time_of(1)).max(SECOND / 10.0);
        let window = u64::try_from(rate.period().min(Duration::from_secs(60)).as_nanos());
        Self { turn, window: window.unwrap_or(0), least_burst: (least / burst).min(1.0) }
    }

    /// Returns the period of the law, in nanoseconds.
    pub(super) const fn turn(&self) -> f64 {
        self.turn
    }
}

impl Law {
    pub(super) const fn new() -> Self {
        Self {
            share: 1.0,
            top: 1.0,
            most: f64::INFINITY,
            moved: 0.0,
            refused: 1.0,
            step: LARGEST_STEP,
            clean: 0.0,
            next_step: 0.0,
            probe: 0.0,
            epoch: 0,
            floor: 0.0,
            waited_at: 0,
            waiting_since: 0,
            held_until: 0,
            refused_at: None,
            cut_at: None,
        }
    }

    pub(super) const fn share(&self) -> f64 {
        self.share
    }

    /// Returns the share that the provider reports, and 1 without a report.
    pub(super) const fn top(&self) -> f64 {
        self.top
    }

    /// Returns the largest share that may be used.
    fn allowed(&self) -> f64 {
        self.top.min(self.most)
    }

    /// Returns the share of the burst that may be used at `now`.
    pub(super) fn burst(&self, terms: &Terms, now: u64) -> f64 {
        let Some(refused_at) = self.refused_at else { return self.share.min(1.0) };
        let turns = float(now.saturating_sub(refused_at)) / terms.turn;
        let regrown = terms.least_burst * (turns - 1.0).clamp(0.0, 60.0).exp2();
        regrown.min(self.share).min(1.0)
    }

    /// Returns whether the configured limit is used as if nothing had been learned.
    pub(super) fn is_at_rest(&self, terms: &Terms, now: u64) -> bool {
        self.share >= 1.0 && self.top <= 1.0 && self.most >= 1.0 && self.burst(terms, now) >= 1.0
    }

    /// Learns from a refusal at `now` of a call whose cost refills in `cost` nanoseconds. All calls
    /// are held until `resume`. Returns the time until which no unit refills.
    pub(super) fn refuse(&mut self, terms: &Terms, cost: u64, resume: u64, now: u64) -> u64 {
        let resume = resume.max(now);
        let (has_grown, is_rare) = (self.clean >= terms.turn / 4.0, self.clean >= terms.turn);
        (self.clean, self.next_step) = (0.0, terms.turn);
        let held = float(resume.saturating_sub(now.max(self.held_until)));
        self.held_until = self.held_until.max(resume);
        // A refusal now and then, before most of the burst is back, is not a sign of a burst.
        let is_back = self.refused_at.is_none() || self.burst(terms, now) > 0.5 * self.share;
        if is_back && self.may_burst(terms, now) {
            self.cut_at = Some(now);
        }
        let is_first = self.cut_at.is_some_and(|at| now < at.saturating_add(terms.window.max(1)));
        self.refused_at = Some(now);
        if is_first {
            return resume.max(now.saturating_add(terms.window / 16));
        }
        if float(now.saturating_sub(self.epoch)) >= terms.turn {
            (self.epoch, self.floor) = (now, self.share / 2.0);
        }
        // What held before the probe, or for a whole turn, is near the limit, whatever the hold is.
        let probe = std::mem::take(&mut self.probe);
        if has_grown || probe > 0.0 {
            self.refused = self.share - probe;
        }
        self.step = (float(cost) / terms.turn).clamp(1e-6, LARGEST_STEP);
        let held = if probe > 0.0 || is_rare { 0.0 } else { held };
        let cut = probe + self.step + self.share * (held / terms.turn).min(1.0);
        self.move_to((self.share - cut).max(self.floor).max(LEAST).min(self.share));
        resume
    }

    /// Returns whether a burst may have caused a refusal at `now`. The burst that a refusal leaves must be
    /// less than half of the one in use. Calls that have waited for a window have used none.
    fn may_burst(&self, terms: &Terms, now: u64) -> bool {
        let waits = now.saturating_sub(self.waited_at) < terms.window;
        let has_waited = self.waited_at.saturating_sub(self.waiting_since) >= terms.window;
        terms.least_burst < 0.5 * self.share && !(waits && has_waited)
    }

    /// Learns that a call waits at `now`, and whether calls have waited since the last time.
    pub(super) fn wait(&mut self, terms: &Terms, has_waited: bool, now: u64) {
        let since = self.waited_at.max(self.held_until);
        self.waited_at = self.waited_at.max(now);
        if !has_waited {
            self.waiting_since = now;
        }
        let allowed = self.allowed();
        if !has_waited || self.share >= allowed {
            return;
        }
        let waited = float(now.saturating_sub(since));
        self.clean += waited;
        let gap = self.refused.min(allowed) - self.share;
        let mut next = self.share;
        if gap > 3.0 * self.step {
            if self.clean >= self.next_step {
                self.next_step = self.clean + terms.turn;
                next += (gap / 2.0).min(LARGEST_RISE * allowed.min(1.0));
            }
        } else {
            let time_of = |calls: f64| (calls * self.step * terms.turn / self.share).min(PATIENCE);
            next += self.step * waited / time_of(CALLS);
            if self.clean >= time_of(CLEAN_CALLS).max(self.next_step) {
                self.next_step = self.clean + terms.turn;
                self.probe = (2.0 * self.probe).max(self.step / 2.0).min(allowed - self.share);
                next += self.probe;
            }
            self.refused = self.refused.max(next.min(allowed));
        }
        self.move_to(next.min(allowed));
    }

    fn move_to(&mut self, share: f64) {
        self.moved += share - self.share;
        self.share = share;
    }

    /// Learns the share that the provider reports.
    pub(super) fn report(&mut self, top: f64) {
        let before = std::mem::replace(&mut self.top, top);
        if self.share > top {
            (self.share, self.refused) = (top, top);
        } else if top > before && self.share >= 0.9 * before {
            // What was refused before belongs to the old limit.
            self.share = (self.share / before * top).clamp(LEAST, top);
            self.refused = top;
        }
    }
}

/// The law of a process that shares the limit with others.
#[cfg(feature = "fleet")]
impl Law {
    /// Takes the sum of the changes by refusals and by growth since the last call.
    pub(super) fn take_moved(&mut self) -> f64 {
        std::mem::take(&mut self.moved)
    }

    /// Takes the share that all processes use, and the most that they allow.
    pub(super) fn join(&mut self, terms: &Terms, share: f64, most: f64) {
        self.most = most.max(LEAST);
        let share = share.max(LEAST).min(self.allowed());
        if share < self.share {
            // Calls of others were refused.
            (self.clean, self.next_step, self.probe) = (0.0, terms.turn, 0.0);
        }
        self.share = share;
        self.refused = self.refused.max(share);
    }
}

#[expect(clippy::cast_precision_loss, reason = "a law needs no nanosecond")]
const fn float(time: u64) -> f64 {
    time as f64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Refuse { cost: u64, hold: u64 },
        Wait(bool),
        Report(f64),
    }

    fn step() -> impl Strategy<Value = Step> {
        let time = || prop_oneof![0..10_000_000_000_u64, any::<u64>()];
        prop_oneof![
            (time(), time()).prop_map(|(cost, hold)| Step::Refuse { cost, hold }),
            any::<bool>().prop_map(Step::Wait),
            (LEAST..=16.0).prop_map(Step::Report),
        ]
    }

    fn rate() -> impl Strategy<Value = Rate> {
        (1_u32.., 1_u64.., 0_u32..).prop_map(|(count, nanos, burst)| {
            Rate::new(u64::from(count), Duration::from_nanos(nanos)).with_burst(u64::from(burst))
        })
    }

    proptest! {
        /// The share stays within its bounds, and no time and no cost makes it anything else.
        #[test]
        fn the_share_is_never_above_what_is_allowed(
            rate in rate(),
            steps in prop::collection::vec((any::<u32>(), step()), 1..60),
        ) {
            let (terms, mut law, mut now, mut top) = (Terms::of(&rate), Law::new(), 0_u64, 1.0);
            for (pause, step) in steps {
                now = now.saturating_add(u64::from(pause) * 100);
                let before = law.share();
                match step {
                    Step::Refuse { cost, hold } => {
                        let resume = now.saturating_add(hold);
                        prop_assert!(law.refuse(&terms, cost, resume, now) >= resume);
                        prop_assert!(law.share() <= before);
                    }
                    Step::Wait(has_waited) => law.wait(&terms, has_waited, now),
                    Step::Report(share) => {
                        top = share;
                        law.report(top);
                    }
                }
                prop_assert!((LEAST..=top).contains(&law.share()), "{}", law.share());
                prop_assert!((0.0..=1.0).contains(&law.burst(&terms, now)));
            }
        }

        /// Refusals of one turn take at most half.
        #[test]
        fn a_turn_takes_at_most_half(costs in prop::collection::vec(1_u64.., 1..500)) {
            let (terms, mut law) = (Terms::of(&Rate::per_minute(600)), Law::new());
            let _ = law.refuse(&terms, 1, 0, 0);
            let start = 70 * 1_000_000_000;
            for (at, cost) in (start..).zip(costs) {
                let _ = law.refuse(&terms, cost, at, at);
            }
            prop_assert!(law.share() >= 0.5);
        }
    }

    /// Without a burst each refusal counts, at once.
    #[test]
    fn a_limit_without_a_burst_is_learned_from_the_first_refusal_on() {
        let (terms, mut law) = (Terms::of(&Rate::per_second(100).with_burst(10)), Law::new());
        for now in 0..100 {
            assert_eq!(law.refuse(&terms, 10_000_000, now, now), now);
        }
        assert!((law.share() - 0.9).abs() < 1e-6, "{}", law.share());
    }

    /// A refusal every two seconds with a wait of a second: the burst is small, so what a refusal leaves of
    /// it is most of it. Only the first refusal is for the burst.
    #[test]
    fn a_small_burst_explains_one_refusal() {
        for burst in 1..=38 {
            let (terms, mut law) = (Terms::of(&Rate::per_second(38).with_burst(burst)), Law::new());
            for second in (0..20).step_by(2) {
                let now = second * 1_000_000_000;
                let _ = law.refuse(&terms, 26_315_790, now + 1_000_000_000, now);
            }
            assert!(law.share() < 0.6, "{} of {burst}", law.share());
        }
    }

    /// A burst comes back with time, but calls that have waited for a window have not used it.
    #[test]
    fn calls_that_wait_use_no_burst() {
        for waits in [true, false] {
            let (terms, mut law) = (Terms::of(&Rate::per_second(10)), Law::new());
            let _ = law.refuse(&terms, 100_000_000, 0, 0);
            for half in 1..=200 {
                let now = half * 500_000_000;
                law.wait(&terms, waits && half > 1, now);
            }
            let now = 100_100_000_000;
            let _ = law.refuse(&terms, 100_000_000, now, now);
            assert_eq!(law.share() < 1.0, waits);
        }
    }

    /// A wait of seconds after many calls without a refusal says little of the limit: it is near.
    #[test]
    fn a_rare_refusal_costs_one_call_whatever_it_holds() {
        let (terms, mut law) = (Terms::of(&Rate::per_second(100).with_burst(10)), Law::new());
        let _ = law.refuse(&terms, 10_000_000, 3_000_000_000, 0);
        let first = law.share();
        assert!(first < 0.7, "{first}");
        for tenth in 30..=135 {
            law.wait(&terms, tenth > 30, tenth * 100_000_000);
        }
        let (before, now) = (law.share(), 13_500_000_000);
        let _ = law.refuse(&terms, 10_000_000, now + 3_000_000_000, now);
        assert!((before - law.share() - 0.001).abs() < 1e-9, "{before} {}", law.share());
    }

    /// A burst that a provider remembers for a window says nothing about the rate.
    #[test]
    fn the_first_refusals_take_the_burst_and_not_the_rate() {
        let (terms, mut law) = (Terms::of(&Rate::per_minute(600)), Law::new());
        for second in 0..60 {
            let now = second * 1_000_000_000;
            assert!(law.refuse(&terms, 100_000_000, now, now) > now);
        }
        assert!(law.share() >= 1.0);
        assert!(law.burst(&terms, 60_000_000_000) < 0.01);
        assert!(law.burst(&terms, 900_000_000_000) >= 1.0);
    }
}
