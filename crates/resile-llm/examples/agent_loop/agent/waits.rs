//! Reports the attempts and waits of a call, and the time left of a wait that was cut short.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use resile::Attempt;
use resile::breaker::Transition;
use resile::classify::Cut;
use resile::observe::{self, AttemptFailure, EventKind, Observe};
use tokio::time::Instant;

use super::event::{Event, Who, millis};

/// The observer of one call: `.on(upstream.observed_by(&waits))`.
pub(crate) struct WaitReporter<'a> {
    who: Who,
    emit: &'a (dyn Fn(Event) + Send + Sync),
    /// The current wait.
    wait: Mutex<Option<Wait>>,
}

/// A wait or a hold before an attempt.
#[derive(Clone, Copy)]
struct Wait {
    /// The end of the wait. `None` is later than the latest instant of the clock.
    until: Option<Instant>,
    /// The attempt after the wait.
    attempt: u32,
    held: bool,
}

impl<'a> WaitReporter<'a> {
    pub(crate) fn new(who: Who, emit: &'a (dyn Fn(Event) + Send + Sync)) -> Self {
        Self { who, emit, wait: Mutex::new(None) }
    }

    fn failed(&self, attempt: Attempt, of: u32, failure: &AttemptFailure<'_>) {
        let (kind, rule) = match (failure.cut, self.who) {
            (Some(Cut::AttemptTimeout(_)), _) => ("timeout", "attempt timeout"),
            (Some(Cut::Stream), _) => ("network", "cut off"),
            (Some(_), _) => ("timeout", "total timeout"),
            (None, Who::Tool) if failure.verdict.is_some_and(|verdict| verdict.is_again()) => {
                ("transient", "the tool")
            }
            (None, Who::Tool) => ("permanent", "the tool"),
            // A model reports its own errors, since only the model knows their kind.
            (None, Who::Model) => return,
        };
        (self.emit)(Event::Failed {
            who: self.who,
            attempt: attempt.number(),
            of,
            kind: kind.to_owned(),
            rule: rule.to_owned(),
            message: failure.to_string(),
            asked_ms: None,
        });
    }

    fn begin(&self, attempt: u32, delay: Duration, held: bool) {
        self.set(Some(Wait { until: Instant::now().checked_add(delay), attempt, held }));
    }

    /// Ends the current wait, if there is one, and reports the time left.
    fn cut(&self) {
        if let Some(Wait { until, attempt, held }) = self.set(None) {
            let left = until.map_or(Duration::MAX, |until| until.duration_since(Instant::now()));
            (self.emit)(Event::WaitCut { who: self.who, attempt, held, left_ms: millis(left) });
        }
    }

    fn set(&self, wait: Option<Wait>) -> Option<Wait> {
        std::mem::replace(&mut *self.wait.lock().unwrap_or_else(PoisonError::into_inner), wait)
    }
}

impl Observe for WaitReporter<'_> {
    fn observe(&self, event: &observe::Event<'_>) {
        let (who, of) = (self.who, event.call.map_or(0, |call| call.allowed));
        match event.kind {
            EventKind::Started { attempt, .. } => {
                self.set(None);
                if who == Who::Model {
                    (self.emit)(Event::Attempt { attempt: attempt.number(), of });
                }
            }
            EventKind::Failed { attempt, failure, .. } => self.failed(attempt, of, &failure),
            EventKind::Waiting { attempt, failure, delay, .. } => {
                let attempt = attempt.number() + 1;
                self.begin(attempt, delay, false);
                let hint_ms = failure.verdict.and_then(|verdict| verdict.hint()).map(millis);
                let (wait_ms, health) = (millis(delay), failure.health().to_string());
                (self.emit)(Event::Waiting { who, attempt, of, wait_ms, hint_ms, health });
            }
            EventKind::Held { attempt, delay: Some(delay), .. } => {
                self.begin(attempt, delay, true);
                (self.emit)(Event::Held { wait_ms: millis(delay) });
            }
            EventKind::GaveUp { reason, attempts, .. } => {
                self.cut();
                (self.emit)(Event::GaveUp { who, attempts, why: reason.to_string() });
            }
            EventKind::Breaker { transition, .. } => {
                let state = match transition {
                    Transition::Opened { .. } => "open",
                    Transition::HalfOpened => "half-open",
                    Transition::Closed { .. } => "closed",
                    _ => "isolated",
                };
                (self.emit)(Event::Breaker { state: state.to_owned() });
            }
            _ => {}
        }
    }
}

/// Ends the current wait, since a dropped call no longer waits.
impl Drop for WaitReporter<'_> {
    fn drop(&mut self) {
        self.cut();
    }
}
