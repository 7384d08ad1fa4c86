//! The words of the error of a call.

use std::fmt;
use std::time::Duration;

use super::GaveUp;
use super::within;
use crate::observe::{CallKind, OneLine, Words};
use crate::policy::{IN_DOUBT, StopReason};

impl<E> fmt::Display for GaveUp<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = self.upstream() {
            write!(f, "{}: ", OneLine(name))?;
        }
        let attempts = self.attempts();
        let noun = if self.facts().kind == CallKind::Fallback { "alternative" } else { "attempt" };
        let plural = if attempts == 1 { "" } else { "s" };
        write!(f, "gave up after {attempts} {noun}{plural}")?;
        // A call that was refused at once took no time.
        let is_at_once = attempts == 0 && self.elapsed() < Duration::from_millis(1);
        if !self.elapsed().is_zero() && !is_at_once {
            write!(f, " in {:.1?}", self.elapsed())?;
        }
        match self.too_large() {
            Some(too_large) => write!(f, ", {too_large}")?,
            None if self.facts().no_room.is_some() => {
                self.facts().no_room.map_or(Ok(()), |no_room| write!(f, ", {no_room}"))?;
            }
            None if self.reason().is_evident(self.cut()) => {}
            None if self.reason() == StopReason::Fatal && within::is_passed_on() => {}
            None => write!(f, ", {}", self.reason().in_words(self.verdict(), self.cut()))?,
        }
        if self.is_in_doubt() && self.reason().hides_doubt() {
            write!(f, ", {IN_DOUBT}")?;
        }
        if let Some(cut) = self.cut() {
            write!(f, " (last failure: {cut})")?;
        }
        if self.is_partial() && self.reason() != StopReason::Partial {
            write!(f, ", {}", StopReason::Partial)?;
        }
        // A wait before "again" would contradict a request that must not be sent again.
        if let Some(after) = self.retry_after().filter(|_| self.reason() != StopReason::Fatal) {
            if let Some(by) = self.facts().held_by {
                write!(f, " (the {} holds the next attempt for {after:.1?})", by.as_str())?;
            } else if self.facts().is_floor {
                write!(f, " (wait at least {after:.1?} before the next call)")?;
            } else {
                write!(f, " (try again in {after:.1?})")?;
            }
        }
        match (self.last(), self.writer()) {
            (Some(last), Some(writer)) if f.alternate() && self.cut().is_none() => {
                write!(f, ": {}", OneLine(Words::new(|f| writer(last, f))))
            }
            _ => Ok(()),
        }
    }
}
