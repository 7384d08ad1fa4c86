//! The words of the error of a call.

use std::fmt;
use std::time::Duration;

use super::last_attempt::{Dropped, LastAttempt};
use super::{GaveUp, within};
use crate::observe::{CallKind, OneLine, Words, write_cut, write_placed};
use crate::policy::{
    AFTER_DOUBT, AFTER_PART, DROPPED, IN_DOUBT, NO_OPINION, NOT_WANTED, StopReason,
};
use crate::time::Rounded;

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
            write!(f, " in {}", Rounded(self.elapsed()))?;
        }
        let mut last = self.facts().alternative.as_ref().map(|name| OneLine(name.as_str()));
        // Before the reason, which is that of the last one. One bracket is enough before its failure.
        let is_reason = self.names_reason() || self.cut().is_none();
        if let Some(name) = last.take_if(|_| is_reason) {
            write!(f, " (the last one: {name})")?;
        }
        self.write_reason(f)?;
        if let Some(Dropped { place, sending }) = &self.facts().last.dropped {
            write!(f, ", {} {DROPPED}", OneLine(place))?;
            f.write_str(self.facts().effect.of_attempt(*sending))?;
        }
        f.write_str(self.facts().effect.at_end())?;
        if self.is_in_doubt() && self.hides_doubt() {
            let words = if self.facts().has_no_opinion { NO_OPINION } else { IN_DOUBT };
            write!(f, ", {words}")?;
        }
        let is_told = self.reason() == StopReason::Partial || self.words() == AFTER_PART;
        if self.is_partial() && !is_told {
            write!(f, ", {}", StopReason::Partial)?;
        }
        self.write_wait(f)?;
        // The words of the reason may have said it.
        let is_not_wanted = self.verdict().is_some_and(|verdict| verdict.is_not_wanted());
        if is_not_wanted && self.words() != NOT_WANTED {
            write!(f, ", {NOT_WANTED}")?;
        }
        self.write_hint(f)?;
        if let Some(cut) = self.cut() {
            f.write_str(" (last failure")?;
            last.map_or(Ok(()), |name| write!(f, ", of {name}"))?;
            f.write_str(": ")?;
            let LastAttempt { sending, awaits_content, place, allotted, .. } = &self.facts().last;
            let effect = self.facts().effect.of_attempt(*sending);
            let allotted = allotted.map(|it| it.after_error(self.last().is_some()));
            write_cut(f, cut, *awaits_content, place.as_deref(), allotted, effect)?;
            // The last error is that of an attempt before.
            if self.last().is_some() {
                write!(f, "; {}", self.facts().last.kind.earlier())?;
                let earlier = self.facts().earlier.as_ref();
                earlier.map_or(Ok(()), |name| write!(f, " ({})", OneLine(name.as_str())))?;
                f.write_str(" failed")?;
                self.write_last(f)?;
            }
            return f.write_str(")");
        }
        self.write_last(f)
    }
}

impl<E> GaveUp<E> {
    /// Writes the last error in the alternate form, if its words are known, or the place of a call without one.
    fn write_last(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.last(), self.writer()) {
            (Some(last), Some(writer)) if f.alternate() => {
                let attempt = &self.facts().last;
                // After a cut the place is before, and that of a dropped attempt too.
                let place = attempt.place.as_deref().filter(|_| attempt.cut.is_none());
                f.write_str(": ")?;
                write_placed(f, place, Words::new(|f| writer(last, f)))
            }
            // A call that was refused at once, and has no error.
            (None, _) if f.alternate() => {
                let attempt = &self.facts().last;
                let place = attempt.place.as_deref().filter(|_| attempt.cut.is_none());
                place.map_or(Ok(()), |place| write!(f, " (request: {})", OneLine(place)))
            }
            _ => Ok(()),
        }
    }

    /// Returns whether the reason says nothing of the doubt. That of a fallback does not if another call left it.
    fn hides_doubt(&self) -> bool {
        let tells =
            || self.names_reason() && matches!(self.words(), IN_DOUBT | AFTER_DOUBT | NO_OPINION);
        self.reason().hides_doubt() || self.facts().inherits_doubt && !tells()
    }

    /// Returns whether the sentence says why the call gave up.
    fn names_reason(&self) -> bool {
        let (reason, facts) = (self.reason(), self.facts());
        let has_numbers =
            facts.too_large.is_some() || facts.no_room.is_some() || facts.too_long.is_some();
        let is_passed_on = || reason == StopReason::Fatal && within::is_passed_on();
        has_numbers || !(reason.is_evident(self.cut()) || is_passed_on())
    }

    /// Writes why the call gave up, with the numbers of the reason.
    fn write_reason(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let facts = self.facts();
        match (facts.too_large, facts.no_room, facts.too_long) {
            (Some(too_large), ..) => write!(f, ", {too_large}"),
            (None, Some(no_room), _) => write!(f, ", {no_room}"),
            (None, None, Some(too_long)) => {
                write!(f, ", {too_long}")?;
                facts.lack.map_or(Ok(()), |lack| write!(f, " ({lack})"))
            }
            _ if !self.names_reason() => Ok(()),
            _ => write!(f, ", {}", self.words()),
        }
    }

    /// Returns the words for the reason.
    fn words(&self) -> &'static str {
        let facts = self.facts();
        let is_fallback = facts.kind == CallKind::Fallback && !facts.is_flat;
        let words = || self.reason().in_words(is_fallback, self.verdict(), self.is_in_doubt());
        facts.words.unwrap_or_else(words)
    }

    /// Writes the wait that the upstream asked for with the last error, unless another part of the
    /// sentence has named it. The words of the error may have no wait.
    fn write_hint(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let facts = self.facts();
        let is_new = |hint: &Duration| {
            let is_told = facts.too_long.is_some_and(|too_long| too_long.tells(Some(*hint)));
            !is_told && self.next_call() != Some(*hint) && !hint.is_zero()
        };
        match facts.hint.filter(is_new) {
            Some(hint) => write!(f, ", the upstream asked for a wait of {}", Rounded(hint)),
            None => Ok(()),
        }
    }

    /// Returns the wait before the next call, unless the reason has named it.
    fn next_call(&self) -> Option<Duration> {
        let facts = self.facts();
        let is_told = facts.too_long.is_some_and(|too_long| too_long.tells(facts.retry_after));
        // A wait before "again" would contradict a request that must not be sent again. But another
        // alternative may accept it.
        let is_final = self.reason() == StopReason::Fatal && !facts.is_of_another;
        self.retry_after().filter(|_| !is_told && !is_final)
    }

    /// Writes the wait before the next call, unless the reason has named it.
    fn write_wait(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let facts = self.facts();
        match self.next_call() {
            Some(after) if facts.is_of_another => {
                write!(f, ", an alternative can be tried again in {}", Rounded(after))
            }
            Some(after) if facts.is_floor => {
                write!(f, ", wait at least {} before the next call", Rounded(after))
            }
            Some(after) => write!(f, ", try again in {}", Rounded(after)),
            None => Ok(()),
        }
    }
}

/// Prints the reason, the attempts and the time, and of the rest what is set.
impl<E: fmt::Debug> fmt::Debug for GaveUp<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// A field that is left out while it has no value.
        type Field<'a> = (&'static str, Option<&'a dyn fmt::Debug>);

        fn set<T: fmt::Debug>(value: Option<&T>) -> Option<&dyn fmt::Debug> {
            value.map(|value| value as &dyn fmt::Debug)
        }
        fn is(flag: &bool) -> Option<&dyn fmt::Debug> {
            flag.then_some(flag as &dyn fmt::Debug)
        }
        let (facts, last, upstream) = (self.facts(), self.last(), self.upstream());
        let fields: [Field<'_>; 10] = [
            ("retry_after", set(facts.retry_after.as_ref())),
            ("too_large", set(facts.too_large.as_ref())),
            ("verdict", set(facts.verdict.as_ref())),
            ("cut", set(facts.last.cut.as_ref())),
            ("place", set(facts.last.place.as_ref())),
            ("dropped", set(facts.last.dropped.as_ref().map(|dropped| &dropped.place))),
            ("in_doubt", is(&facts.in_doubt)),
            ("partial", is(&facts.is_partial)),
            ("upstream", set(upstream.as_ref())),
            ("last", set(last)),
        ];
        let mut all = f.debug_struct("GaveUp");
        all.field("reason", &facts.reason);
        all.field("attempts", &facts.attempts);
        all.field("elapsed", &facts.elapsed);
        for (name, value) in fields {
            if let Some(value) = value {
                all.field(name, value);
            }
        }
        all.finish()
    }
}
