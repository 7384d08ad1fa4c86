//! Tells the waits of a retry, and how much of one was left when it was cut short.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::event::{Event, Who, millis};

pub(crate) struct Waits<'a> {
    who: Who,
    emit: &'a (dyn Fn(Event) + Send + Sync),
    until: Mutex<Option<Instant>>,
    /// The last failure.
    last: Mutex<Told>,
}

/// What an error says of itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told {
    pub(crate) kind: String,
    pub(crate) rule: String,
    pub(crate) message: String,
    /// How long the peer itself asked to wait; a policy may make more of it.
    pub(crate) asked: Option<Duration>,
}

impl<'a> Waits<'a> {
    pub(crate) fn new(who: Who, emit: &'a (dyn Fn(Event) + Send + Sync)) -> Self {
        Self { who, emit, until: Mutex::new(None), last: Mutex::default() }
    }

    /// An attempt begins, so whatever was waited for is over.
    pub(crate) fn over(&self) {
        self.set(None);
    }

    /// Passes on what a retry tells. `describe` asks an error what it is.
    pub(crate) fn tell<E>(&self, event: &resile::Event<'_, E>, describe: impl Fn(&E) -> Told) {
        match event {
            resile::Event::Failed { attempt, allowed, error, .. } => {
                let told = describe(error);
                self.last.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&told);
                let (attempt, of, Told { kind, rule, message, .. }) = (attempt.number(), *allowed, told);
                (self.emit)(Event::Failed { who: self.who, attempt, of, kind, rule, message });
            }
            resile::Event::Waiting { attempt, allowed, delay, .. } => {
                self.set(Instant::now().checked_add(*delay));
                let Told { kind, asked, .. } = self.last.lock().unwrap_or_else(PoisonError::into_inner).clone();
                (self.emit)(Event::Waiting {
                    who: self.who,
                    attempt: attempt.number() + 1,
                    of: *allowed,
                    wait_ms: millis(*delay),
                    asked_ms: asked.map(millis),
                    kind,
                });
            }
            resile::Event::GaveUp { stop, attempts, .. } => {
                self.cut();
                (self.emit)(Event::GaveUp { who: self.who, attempts: *attempts, why: stop.to_string() });
            }
            _ => {}
        }
    }

    /// If something is waited for, that ends now.
    fn cut(&self) {
        if let Some(end) = self.set(None) {
            let left = end.duration_since(Instant::now());
            (self.emit)(Event::WaitCut { who: self.who, left_ms: millis(left) });
        }
    }

    fn set(&self, until: Option<Instant>) -> Option<Instant> {
        std::mem::replace(&mut *self.until.lock().unwrap_or_else(PoisonError::into_inner), until)
    }
}

/// Whoever drops a retry in the middle of a wait cuts it too.
impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.cut();
    }
}
