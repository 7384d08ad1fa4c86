//! The waits that the alternatives of a fallback asked for.
//!
//! The fallback does not know its error as a `GaveUp<E>`, because it does not know `E`. So it asks when
//! it drops the error of an earlier alternative: while a question is open on this thread, a `GaveUp` that
//! is dropped tells its wait.

use std::cell::Cell;
use std::time::Duration;

use crate::question;

thread_local! {
    static QUESTION: Cell<Question> = const { Cell::new(Question::Closed) };
}

#[derive(Clone, Copy)]
enum Question {
    Closed,
    /// The smallest wait that was told so far.
    Open(Option<Duration>),
}

/// Drops an error by `drop`. Returns the smallest wait that the calls in it recommend.
pub(crate) fn dropped(drop: impl FnOnce()) -> Option<Duration> {
    match question::ask(&QUESTION, Question::Open(None), drop).1 {
        Some(Question::Open(wait)) => wait,
        Some(Question::Closed) | None => None,
    }
}

/// The wait of a `GaveUp`, which it tells when it is dropped.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Told(Option<Duration>);

impl Told {
    pub(crate) const fn new(wait: Option<Duration>) -> Self {
        Self(wait)
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        let Some(wait) = self.0 else { return };
        let _ = QUESTION.try_with(|question| {
            if let Question::Open(least) = question.get() {
                question.set(Question::Open(Some(least.map_or(wait, |least| least.min(wait)))));
            }
        });
    }
}

/// The known waits of the alternatives of a fallback, in nanoseconds since its start.
#[derive(Clone, Copy, Default)]
pub(crate) struct Waits {
    /// The time at which the last alternative failed.
    failed_at: u64,
    /// The earliest time at which an alternative before that one may be asked again.
    again_at: Option<u64>,
}

impl Waits {
    /// Notes that an alternative failed `elapsed` nanoseconds after the start, and that another follows.
    pub(crate) const fn failed(&mut self, elapsed: u64) {
        self.failed_at = elapsed;
    }

    /// Drops the error of the last alternative by `drop`, because another has failed.
    pub(crate) fn drop_last(&mut self, drop: impl FnOnce()) {
        let Some(wait) = dropped(drop) else { return };
        let at = self.failed_at.saturating_add(crate::time::nanos(wait));
        self.again_at = Some(self.again_at.map_or(at, |again| again.min(at)));
    }

    /// Returns what is known at the end of the call. `is_earlier` is true if an alternative was cut after
    /// the one that failed last.
    pub(crate) fn end(self, elapsed: Duration, is_earlier: bool) -> EarlierWaits {
        let since = |at: u64| elapsed.saturating_sub(Duration::from_nanos(at));
        EarlierWaits {
            least: self.again_at.map(|at| Duration::from_nanos(at).saturating_sub(elapsed)),
            passed: if is_earlier { since(self.failed_at) } else { Duration::ZERO },
        }
    }
}

/// The waits of the alternatives, at the end of a fallback.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct EarlierWaits {
    /// The smallest one of the alternatives before the last error.
    least: Option<Duration>,
    /// The time since the last error.
    passed: Duration,
}

impl EarlierWaits {
    /// Returns the smallest wait, if `last` is that of the last error.
    pub(crate) fn least_with(self, last: Option<Duration>) -> Option<Duration> {
        let last = last.map(|wait| wait.saturating_sub(self.passed));
        self.least.into_iter().chain(last).min()
    }
}
