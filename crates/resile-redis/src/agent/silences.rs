use std::time::Duration;

/// The times in which the store gave no answer, not even an error. Pure: times are arguments.
///
/// A silence lasts from the last answer before exchanges failed to the next answer. A store that comes and goes has
/// several of them before the process shares again.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Silences {
    /// The time of the last answer, or the start of the process before the first one.
    answered_at: Duration,
    /// True if exchanges have failed since then.
    is_silent: bool,
    past: Past,
}

/// The reason of an outage, as its latest warning tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    Silence,
    Refusal,
}

/// The silences that have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Past {
    pub(super) count: u32,
    /// The sum of all.
    pub(super) silent: Duration,
    began_at: Duration,
    ended_at: Duration,
}

impl Past {
    /// Returns the time from the begin of the first silence to the end of the last one.
    pub(super) const fn span(&self) -> Duration {
        self.ended_at.saturating_sub(self.began_at)
    }

    /// Returns whether the store also answered with errors for a while: exchanges `failed` for longer than the
    /// silences lasted.
    fn has_refused(&self, failed: Duration) -> bool {
        failed > self.span().saturating_add(Duration::from_secs(1)) // the next exchange comes within it
    }

    /// Returns the length of an outage in which exchanges `failed` for this time.
    pub(super) fn elapsed(&self, failed: Duration) -> Duration {
        if self.count == 0 || self.has_refused(failed) { failed } else { self.span() }
    }

    /// Returns the words for these silences: "9.9s without an answer of the store, in 3 silences within 18.3s". If the
    /// store refused exchanges instead, or for a part of the outage, they begin with the time for which exchanges
    /// `failed`.
    pub(super) fn in_words(&self, failed: Duration) -> String {
        let Self { count, silent, .. } = self;
        match count {
            0 => format!("{failed:.1?} in which exchanges with the store failed"),
            _ if self.has_refused(failed) => format!(
                "{failed:.1?} in which exchanges with the store failed, {silent:.1?} of them without an answer"
            ),
            1 => format!("{silent:.1?} without an answer of the store"),
            _ => {
                let all = self.span();
                format!(
                    "{silent:.1?} without an answer of the store, in {count} silences within {all:.1?}"
                )
            }
        }
    }
}

impl Silences {
    /// Notes an answer.
    pub(super) fn answered(&mut self, now: Duration) {
        let since = std::mem::replace(&mut self.answered_at, now);
        if std::mem::take(&mut self.is_silent) {
            let began_at = if self.past.count == 0 { since } else { self.past.began_at };
            self.past = Past {
                count: self.past.count.saturating_add(1),
                silent: self.past.silent.saturating_add(now.saturating_sub(since)),
                began_at,
                ended_at: now,
            };
        }
    }

    /// Notes exchanges of which none had an answer.
    pub(super) const fn failed(&mut self) {
        self.is_silent = true;
    }

    /// Returns the length of the silence that goes on at `now`.
    pub(super) fn lasts(&self, now: Duration) -> Option<Duration> {
        self.is_silent.then(|| now.saturating_sub(self.answered_at))
    }

    /// Returns when the last silence ended, if the store has answered since then.
    pub(super) fn ended_at(&self) -> Option<Duration> {
        (self.past.count > 0 && !self.is_silent).then_some(self.past.ended_at)
    }

    /// Returns the silences that have ended since the last call.
    pub(super) fn take(&mut self) -> Past {
        std::mem::take(&mut self.past)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn at(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn a_store_that_comes_and_goes_has_several_silences() {
        let mut silences = Silences::default();
        silences.answered(at(1_000));
        for (failed, answered) in [(1_100, 4_000), (4_500, 4_600), (9_000, 12_000)] {
            assert!(failed < answered);
            silences.answered(at(failed - 100));
            assert_eq!(silences.lasts(at(failed)), None);
            silences.failed();
            silences.failed();
            assert_eq!(silences.lasts(at(failed)), Some(at(100)));
            silences.answered(at(answered));
        }
        let past = silences.take();
        assert_eq!((past.count, past.silent, past.span()), (3, at(6_300), at(11_000)));
        let words = "6.3s without an answer of the store, in 3 silences within 11.0s";
        assert_eq!(
            (past.in_words(at(12_000)), past.elapsed(at(12_000))),
            (words.into(), at(11_000))
        );
        let words =
            "12.1s in which exchanges with the store failed, 6.3s of them without an answer";
        assert_eq!(
            (past.in_words(at(12_100)), past.elapsed(at(12_100))),
            (words.into(), at(12_100))
        );
        assert_eq!(silences.take(), Past::default(), "each one is told once");
        silences.failed();
        assert_eq!(silences.ended_at(), None);
        silences.answered(at(13_500));
        assert_eq!(silences.ended_at(), Some(at(13_500)));
        assert_eq!(silences.take().in_words(at(0)), "1.5s without an answer of the store");
        let words = "2.0s in which exchanges with the store failed";
        assert_eq!(silences.take().in_words(at(2_000)), words);
    }

    proptest! {
        /// For any exchanges the sum is that of the times between an answer and the next one, if an exchange
        /// between them had no answer.
        #[test]
        fn the_silences_are_the_times_between_answers(
            exchanges in prop::collection::vec((0_u64..2_000, any::<bool>()), 0..60),
        ) {
            let mut silences = Silences::default();
            let (mut now, mut answers) = (0, vec![(0, false)]);
            for (pause, is_answered) in exchanges {
                now += pause;
                if is_answered {
                    silences.answered(at(now));
                    answers.push((now, false));
                } else {
                    silences.failed();
                    answers.last_mut().unwrap().1 = true;
                }
            }
            let gaps = answers.windows(2).filter(|pair| pair[0].1);
            let gaps: Vec<_> = gaps.map(|pair| (pair[0].0, pair[1].0)).collect();
            let past = silences.take();
            prop_assert_eq!(past.count as usize, gaps.len());
            prop_assert_eq!(past.silent, at(gaps.iter().map(|(from, to)| to - from).sum()));
            let span = gaps.first().zip(gaps.last()).map_or(0, |(first, last)| last.1 - first.0);
            prop_assert_eq!(past.span(), at(span));
        }
    }
}
