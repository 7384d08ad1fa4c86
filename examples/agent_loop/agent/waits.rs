//! Tells the waits of a retry, and how much of one was left when it was cut short.

use std::sync::{Mutex, PoisonError};

use tokio::time::Instant;

use super::event::{Event, Who, millis};

pub(crate) struct Waits<'a> {
    who: Who,
    emit: &'a (dyn Fn(Event) + Send + Sync),
    until: Mutex<Option<Instant>>,
    /// What the last failure was.
    kind: Mutex<String>,
}

impl<'a> Waits<'a> {
    pub(crate) fn new(who: Who, emit: &'a (dyn Fn(Event) + Send + Sync)) -> Self {
        Self { who, emit, until: Mutex::new(None), kind: Mutex::new(String::new()) }
    }

    /// An attempt begins, so whatever was waited for is over.
    pub(crate) fn over(&self) {
        self.set(None);
    }

    /// Passes on what a retry tells. `describe` gives an error's kind, rule and words.
    pub(crate) fn tell<E>(&self, event: &resile::Event<'_, E>, describe: impl Fn(&E) -> [String; 3]) {
        match event {
            resile::Event::Failed { attempt, allowed, error, .. } => {
                let [kind, rule, message] = describe(error);
                kind.clone_into(&mut self.kind.lock().unwrap_or_else(PoisonError::into_inner));
                let (attempt, of) = (attempt.number(), *allowed);
                (self.emit)(Event::Failed { who: self.who, attempt, of, kind, rule, message });
            }
            resile::Event::Waiting { attempt, allowed, delay, hint, .. } => {
                self.set(Instant::now().checked_add(*delay));
                let kind = self.kind.lock().unwrap_or_else(PoisonError::into_inner).clone();
                (self.emit)(Event::Waiting {
                    who: self.who,
                    attempt: attempt.number() + 1,
                    of: *allowed,
                    wait_ms: millis(*delay),
                    asked_ms: hint.map(millis),
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
