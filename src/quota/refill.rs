use std::time::Duration;

use super::limits::Limit;

/// The window of a limit that names none, as several answers show it. Pure.
///
/// A limit that refills at an even rate is whole again once its used part is back. So each answer
/// tells the window: the time until the reset over the used share.
///
/// A fixed window tells nothing like it, but one answer of it may look the same. Within one window its
/// used share rises while the time until the reset falls, so two answers of it with different resets
/// never agree. Therefore a window is known once [`ANSWERS`] answers with different resets agree on
/// it, none between them disagrees, and no answer before had a longer reset.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refill {
    /// The window on which the latest answers agree, in seconds. All are small: an upstream has many.
    window: Option<u32>,
    /// The answers that agree, and the reset of the last one that counts, in seconds.
    answers: u8,
    counted: f32,
    /// The longest reset while something was left, in seconds.
    longest: f32,
}

/// The windows that providers have, in seconds: others are a coincidence.
const WINDOWS: [u32; 4] = [1, 60, 3_600, 86_400];
/// The answers that must agree.
const ANSWERS: u8 = 4;
/// The share by which a window may differ from a known one beside what rounding explains.
const NEAR: f64 = 0.01;
/// The width of a range from which an answer is too rough to count.
const ROUGH: f64 = 1.1;
/// The share of a reset below which another one is different. Two answers of one fixed window whose resets
/// differ by more do not agree, since the edges of each range are nearer than that.
const DIFFERENT: f32 = 0.75;

impl Refill {
    pub(super) const fn new() -> Self {
        Self { window: None, answers: 0, counted: 0.0, longest: 0.0 }
    }

    /// Returns the window if it is known.
    pub(super) fn window(&self) -> Option<Duration> {
        let known = self.window.filter(|_| self.answers >= ANSWERS);
        known.map(|seconds| Duration::from_secs(seconds.into()))
    }

    /// Notes an answer.
    pub(super) fn note(&mut self, limit: &Limit) {
        let Some(Implied { least, most, reset, is_left }) = Implied::of(limit) else { return };
        let reset = short(reset);
        if is_left {
            self.longest = self.longest.max(reset);
        }
        let longest = self.longest;
        let fits = |window: &u32| {
            let window = f64::from(*window);
            (least * (1.0 - NEAR)..=most * (1.0 + NEAR)).contains(&window)
                && f64::from(longest) <= window * (1.0 + NEAR)
        };
        if !self.window.is_none_or(|window| fits(&window)) {
            *self = Self { longest, ..Self::new() };
        }
        if most > least * ROUGH {
            return;
        }
        if self.window.is_none() {
            self.window = WINDOWS.into_iter().find(fits);
            (self.answers, self.counted) = (u8::from(self.window.is_some()), reset);
        } else if reset.min(self.counted) <= reset.max(self.counted) * DIFFERENT {
            (self.answers, self.counted) = (self.answers.saturating_add(1), reset);
        }
    }
}

impl Default for Refill {
    fn default() -> Self {
        Self::new()
    }
}

/// The window that one answer implies if its limit refills at an even rate: a range, because providers
/// round. Seconds.
struct Implied {
    least: f64,
    most: f64,
    reset: f64,
    /// Something is left: beyond that a reset may be longer than the window.
    is_left: bool,
}

impl Implied {
    fn of(limit: &Limit) -> Option<Self> {
        let (count, remaining, reset) = (limit.limit?, limit.remaining?, limit.reset?);
        let used = float(count.checked_sub(remaining).filter(|used| *used > 0)?);
        let (count, rounded) = (float(count), if reset.subsec_nanos() == 0 { 1.0 } else { 1e-3 });
        let reset = reset.as_secs_f64();
        let is_left = remaining > 0;
        // A provider in debt reports that nothing is left, whatever more was used.
        let least = if is_left { (reset - rounded).max(0.0) * count / (used + 1.0) } else { 0.0 };
        let most = (reset + rounded) * count / (used - 1.0).max(0.5);
        Some(Self { least, most, reset, is_left })
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a comparison needs no exact reset")]
const fn short(seconds: f64) -> f32 {
    seconds as f32
}

#[expect(clippy::cast_precision_loss, reason = "a share needs no exact limit")]
const fn float(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn answer(limit: u64, remaining: u64, millis: u64) -> Limit {
        Limit {
            remaining: Some(remaining),
            reset: Some(Duration::from_millis(millis)),
            ..Limit::of(limit, None)
        }
    }

    fn after(answers: &[(u64, u64, u64)]) -> Option<u64> {
        let mut refill = Refill::new();
        for (limit, remaining, millis) in answers {
            refill.note(&answer(*limit, *remaining, *millis));
        }
        refill.window().map(|window| window.as_secs())
    }

    #[test]
    fn four_answers_that_agree_tell_the_window() {
        let minute = [
            (10_000, 9_000, 6_001),
            (10_000, 5_000, 30_000),
            (10_000, 7_500, 15_010),
            (10_000, 1, 59_998),
        ];
        assert_eq!(after(&minute), Some(60));
        assert_eq!(after(&minute[..3]), None);
        let day = [
            (200, 150, 21_600_000),
            (200, 100, 43_200_000),
            (200, 150, 21_590_000),
            (200, 20, 77_760_000),
        ];
        assert_eq!(after(&day), Some(86_400));
    }

    #[test]
    fn answers_that_say_the_same_count_once() {
        assert_eq!(after(&[(10_000, 9_000, 6_001); 9]), None);
        let near = [6_001, 6_100, 6_200, 6_300, 6_400].map(|it| (60_000, 60_000 - it, it));
        assert_eq!(after(&near), None);
    }

    #[test]
    fn an_answer_that_disagrees_begins_anew() {
        let [a, b, c, d] = [
            (10_000, 9_000, 6_001),
            (10_000, 5_000, 30_000),
            (10_000, 7_500, 15_010),
            (10_000, 1, 59_998),
        ];
        let other = (10_000, 5_000, 50_000);
        assert_eq!(after(&[a, b, c, other, d]), None);
        assert_eq!(after(&[a, b, c, d, other]), None);
        assert_eq!(after(&[a, b, c, d, other, a, b, c, d]), Some(60));
        // No window is shorter than a reset.
        let second = [900, 600, 300, 100].map(|it| (100_000, 100_000 - it * 100, it));
        assert_eq!(after(&second), Some(1));
        let after_a_minute: Vec<_> =
            std::iter::once((100_000, 99_000, 59_001)).chain(second).collect();
        assert_eq!(after(&after_a_minute), None);
    }

    /// Providers round to milliseconds and to whole units.
    #[test]
    fn an_answer_that_is_too_rough_says_nothing() {
        let exact = [(10_000, 9_000, 6_001), (10_000, 5_000, 30_000), (10_000, 7_500, 15_010)];
        for rough in
            [(160_000, 159_976, 9), (500, 499, 60), (10_000, 0, 60_000), (10_000, 0, 90_000)]
        {
            let mut answers = exact.to_vec();
            answers.extend([rough, (10_000, 1, 59_998)]);
            assert_eq!(after(&answers), Some(60), "{rough:?}");
        }
        for nothing in [(10_000, 10_000, 6_000), (10_000, 10_001, 6_000), (0, 0, 6_000)] {
            assert_eq!(after(&[nothing; 9]), None, "{nothing:?}");
        }
    }

    proptest! {
        /// The answers of one fixed window never agree, whatever calls use and whenever they come.
        #[test]
        fn a_fixed_window_tells_no_window(
            limit in 1..1_000_000_u64,
            window in prop::sample::select(vec![1_000_u64, 60_000, 90_000, 3_600_000, 86_400_000]),
            calls in prop::collection::vec((0.0..1.0_f64, 0.0..1.0_f64), 1..60),
            is_whole in any::<bool>(),
        ) {
            let mut refill = Refill::new();
            let (mut left, mut used) = (window, 0);
            for (time, part) in calls {
                left -= scaled(left, time * 0.5);
                used += scaled(limit - used, part * 0.5);
                let reset = if is_whole { left.div_ceil(1_000) * 1_000 } else { left };
                refill.note(&answer(limit, limit - used, reset));
                prop_assert!(refill.window().is_none());
            }
        }
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of it")]
    fn scaled(number: u64, share: f64) -> u64 {
        (float(number) * share) as u64
    }
}
