//! The words of an event in one line.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use super::allotted::InFlight;
use super::event::{CallKind, Event, EventKind};
use super::failure::AttemptFailure;
use super::held_by::HeldBy;
use super::one_line::OneLine;
use super::placed::Placed;
use crate::policy::{
    AFTER_DOUBT, AFTER_PART, DROPPED, IN_DOUBT, LACKS_LEASE, NO_OPINION, NOT_WANTED, StopReason,
};
use crate::quota::{Evidence, Finding};
use crate::time::Rounded;
use crate::verdict::Verdict;

impl fmt::Display for Event<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = self.upstream {
            write!(f, "{}: ", OneLine(name))?;
        }
        let of = Allowed(self.call.map_or(0, |call| call.allowed));
        let is_fallback = self.call.is_some_and(|call| call.kind == CallKind::Fallback);
        let attempt = if is_fallback { "alternative" } else { "attempt" };
        match self.kind {
            EventKind::Nested { outer } => {
                write!(f, "this call runs within an attempt of the call at {outer}: ")?;
                f.write_str("their attempts multiply")
            }
            EventKind::Started { attempt: started, .. } => {
                write!(f, "{attempt} {}{of} starts", started.number())
            }
            EventKind::Held { attempt: number, by, delay } => {
                write!(f, "{attempt} {number}{of} waits ")?;
                // A cooldown releases its calls one by one after the hold.
                let least = if by == HeldBy::Cooldown { "at least " } else { "" };
                delay.map_or(Ok(()), |delay| write!(f, "{least}{} ", Rounded(delay)))?;
                write!(f, "for the {}", by.as_str())?;
                self.write_request(f)
            }
            EventKind::Settled { attempt: number, before, charged } => {
                write!(f, "{attempt} {number}{of} used {charged} tokens, ")?;
                write!(f, "{before} were reserved")
            }
            EventKind::Failed { attempt: failed, failure, .. } => {
                write!(f, "{attempt} {}{of} failed", failed.number())?;
                failure.fmt_asked(f, is_fallback, None)?;
                write!(f, ": {failure}")
            }
            EventKind::Waiting { attempt: failed, failure, delay, held, is_partial, .. } => {
                let least = held.unwrap_or(delay);
                write!(f, "{attempt} {}{of} failed", failed.number())?;
                f.write_str(if is_partial { " after a part of the answer, " } else { ", " })?;
                let held = failure.held(self.gauges.cooldown);
                let is_short = least < Duration::from_millis(1);
                match held {
                    _ if is_fallback => f.write_str("trying the next")?,
                    _ if least.is_zero() => f.write_str("retrying at once")?,
                    None if is_short => f.write_str("retrying within 1ms")?,
                    None => write!(f, "retrying in {}", Rounded(least))?,
                    // The cooldown releases its calls one by one, and the quota has a queue.
                    Some(_) => write!(f, "retrying in at least {}", Rounded(least))?,
                }
                f.write_str(if is_fallback { "" } else { self.gauges.retry_in_words() })?;
                if !is_fallback && !Rounded(least).reads_like(delay) {
                    f.write_str(failure.held_in_words(self.gauges.cooldown))?;
                }
                let is_exact = !is_fallback && (held.is_some() || !is_short);
                failure.fmt_delayed(f, is_fallback, is_exact.then_some(least))?;
                write!(f, ": {failure}")
            }
            EventKind::Denied { attempts, by } => {
                write!(f, "hedge not started after attempt {attempts}{of}: ")?;
                f.write_str(match by {
                    Some(HeldBy::Budget) if self.gauges.lacks_lease() => LACKS_LEASE,
                    Some(HeldBy::Breaker) => self.gauges.open_in_words().unwrap_or(denial(by)),
                    _ => denial(by),
                })
            }
            EventKind::Lost { attempt: lost } => {
                write!(f, "attempt {lost}{of} dropped: another attempt ended the call")
            }
            EventKind::Dropped { attempts, elapsed, in_doubt } => {
                write!(f, "dropped in flight in {attempt} {attempts} after {}", Rounded(elapsed))?;
                f.write_str(self.place.map_or("", Placed::dropped))?;
                f.write_str(if in_doubt { ", " } else { "" })?;
                f.write_str(if in_doubt { IN_DOUBT } else { "" })?;
                self.write_request(f)
            }
            EventKind::Succeeded { attempt: number, .. } => {
                write!(f, "{attempt} {number}{of} succeeded")?;
                self.write_request(f)
            }
            EventKind::GaveUp { .. } => self.write_gave_up(f),
            EventKind::Limiting { failure, .. } => {
                self.write_limiting(f)?;
                write_behind(f, failure)
            }
            EventKind::StillLimiting { failure, .. } => {
                self.write_still(f)?;
                write_behind(f, failure)
            }
            EventKind::Relieved { .. } => self.write_relieved(f),
            EventKind::Surge { .. } | EventKind::SurgeOver { .. } => self.write_surge(f),
            EventKind::Lowered { before, after } => {
                write!(f, "bulkhead limit lowered from {before} to {after}: ")?;
                f.write_str("the upstream refused an attempt")
            }
            EventKind::Learned(finding) => write_finding(f, &finding),
            EventKind::Breaker { transition, failure } => {
                transition.fmt(f)?;
                write_behind(f, failure)
            }
            #[cfg(feature = "fleet")]
            EventKind::Fleet(status) => write!(f, "fleet state: {status}"),
        }
    }
}

impl Event<'_> {
    /// Returns the place that the request of the event went to. A fallback has none, because its alternatives are
    /// requests to several places.
    pub(super) fn place(&self) -> Option<Cow<'_, str>> {
        if self.call.is_some_and(|call| call.kind == CallKind::Fallback) {
            return None;
        }
        let failure = match &self.kind {
            EventKind::Waiting { failure, .. }
            | EventKind::GaveUp { failure, .. }
            | EventKind::Surge { failure, .. }
            | EventKind::Limiting { failure: Some(failure), .. }
            | EventKind::StillLimiting { failure: Some(failure), .. }
            | EventKind::Breaker { failure: Some(failure), .. } => Some(failure),
            _ => None,
        };
        match failure.and_then(|failure| failure.in_flight?.place) {
            Some(place) => Some(Cow::Borrowed(place)),
            None => self.place.and_then(Placed::place),
        }
    }

    /// Writes the place of the request if it is known.
    fn write_request(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = self.place();
        place.map_or(Ok(()), |place| write!(f, " (request: {})", OneLine(place)))
    }

    /// Writes that the call gave up, with its reason, its last failure and the wait before the next call.
    fn write_gave_up(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let EventKind::GaveUp {
            reason,
            attempts,
            failure,
            retry_after,
            too_large,
            no_room,
            too_long,
            in_doubt,
            is_partial,
            ..
        } = self.kind
        else {
            return Ok(());
        };
        let allowed = self.call.map_or(0, |call| call.allowed);
        let is_fallback = self.call.is_some_and(|call| call.kind == CallKind::Fallback);
        // "1 of 1" would say nothing of a list with one alternative.
        let is_only = is_fallback && attempts == 1 && allowed == 1;
        let allowed = if is_only { u32::MAX } else { allowed };
        let of = Allowed(allowed);
        let attempt = if is_fallback { "alternative" } else { "attempt" };
        // "1 of 4 attempts", but "1 attempt" without a limit.
        let plural = if attempts == 1 && matches!(allowed, 0 | u32::MAX) { "" } else { "s" };
        write!(f, "gave up after {attempts}{of} {attempt}{plural}")?;
        let has_spare = reason == StopReason::Attempts && attempts < allowed;
        let is_hedge = self.call.is_some_and(|call| call.kind == CallKind::Hedge);
        let is_endless = reason == StopReason::Open && retry_after.is_none();
        let open = self.gauges.open_in_words().filter(|_| is_endless);
        let leaves_doubt = |verdict: Verdict| verdict.is_in_doubt(failure.cut);
        let leaves_doubt = failure.verdict.is_some_and(leaves_doubt);
        let words = match reason {
            StopReason::Budget if self.gauges.lacks_lease() => LACKS_LEASE,
            _ => {
                let ended_by = failure.in_flight.and_then(|it| it.ended_by).or(open);
                ended_by.unwrap_or(reason.in_words(is_fallback, failure.verdict, leaves_doubt))
            }
        };
        match (too_large, no_room, too_long) {
            (Some(too_large), ..) => write!(f, ", {too_large}")?,
            (None, Some(no_room), _) => write!(f, ", {no_room}")?,
            (None, None, Some(too_long)) => {
                write!(f, ", {too_long}")?;
                let lack = failure.in_flight.and_then(|it| it.lack);
                lack.map_or(Ok(()), |lack| write!(f, " ({lack})"))?;
            }
            _ if has_spare && is_hedge => f.write_str(", no attempt was left in flight")?,
            _ if !reason.is_evident(failure.cut) => write!(f, ", {words}")?,
            _ => {}
        }
        let dropped = failure.in_flight.filter(|in_flight| in_flight.is_dropped);
        if let Some(InFlight { place: Some(place), sending, effect, .. }) = dropped {
            let effect = effect.of_attempt(*sending);
            write!(f, ", {} {DROPPED}{effect}", OneLine(place))?;
        }
        let effect = failure.in_flight.map(|it| it.effect).unwrap_or_default();
        f.write_str(effect.at_end())?;
        // An earlier alternative of a fallback may have left it.
        let is_earlier = is_fallback && !leaves_doubt && words != AFTER_DOUBT;
        if in_doubt && (reason.hides_doubt() || is_earlier) {
            write!(f, ", {IN_DOUBT}")?;
        } else if failure.in_flight.is_some_and(|it| it.has_no_opinion) {
            write!(f, ", {NO_OPINION}")?;
        }
        if is_partial && reason != StopReason::Partial && words != AFTER_PART {
            write!(f, ", {}", StopReason::Partial)?;
        }
        let is_told = too_long.is_some_and(|too_long| too_long.tells(retry_after));
        let is_final = reason == StopReason::Fatal; // no wait before "again"
        // The error of the last alternative has its own wait.
        let again = failure.in_flight.and_then(|it| it.again);
        let next_call = retry_after.filter(|_| !is_final && !is_told && again.is_none());
        if let Some((after, true)) = again {
            write!(f, ", an alternative can be tried again in {}", Rounded(after))?;
        }
        match next_call {
            Some(after) if reason.is_floor(failure.verdict, after) => {
                write!(f, ", wait at least {} before the next call", Rounded(after))?;
            }
            Some(after) => write!(f, ", try again in {}", Rounded(after))?,
            None => {}
        }
        let hint = failure.verdict.and_then(|verdict| verdict.hint());
        let names_hint = too_long.is_some_and(|too_long| too_long.tells(hint));
        let told = if names_hint { hint } else { next_call };
        // The words before have said that it wants no retry.
        match words {
            NOT_WANTED => failure.fmt_wait(f, true, told)?,
            _ => failure.fmt_asked(f, true, told)?,
        }
        // The words of the upstream are the last ones, so that nobody takes those of the call for them. A
        // call without a name has the type of its error only.
        let place = failure.in_flight.filter(|it| !it.is_dropped).and_then(|it| it.place);
        if failure.cut.is_some() || failure.error_type.is_some() {
            write!(f, ": {failure}")?;
        } else if let Some(place) = place {
            // A call that was refused at once, and has no error.
            write!(f, " (request: {})", OneLine(place))?;
        }
        match failure.in_flight.and_then(|in_flight| in_flight.earlier) {
            Some(earlier) => {
                let which = self.call.map_or(CallKind::Retry, |call| call.kind).earlier();
                write!(f, "; {which} failed: {}", OneLine(earlier))
            }
            None => Ok(()),
        }
    }
}

/// Writes the failure behind an event of a part.
fn write_behind(f: &mut fmt::Formatter<'_>, failure: Option<AttemptFailure<'_>>) -> fmt::Result {
    failure.map_or(Ok(()), |failure| {
        failure.fmt_asked(f, true, None)?;
        write!(f, ": {failure}")
    })
}

/// Prints the number of attempts that the policy allows, as in " of 3". A policy without a limit allows
/// the largest number, which would tell the reader nothing.
struct Allowed(u32);

impl fmt::Display for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == u32::MAX { Ok(()) } else { write!(f, " of {}", self.0) }
    }
}

/// Returns why a hedge was not started.
const fn denial(by: Option<HeldBy>) -> &'static str {
    match by {
        Some(HeldBy::Budget) => "the retry budget is spent",
        Some(HeldBy::Bulkhead) => "the bulkhead is full",
        Some(HeldBy::Quota) => "the quota is used up",
        Some(HeldBy::Cooldown) => "a cooldown holds calls",
        Some(HeldBy::Throttle) => "the throttle refuses",
        Some(HeldBy::Breaker) => "the circuit breaker is open",
        None => "the call is about to end",
    }
}

/// Writes that a limit of the provider is not the configured one, and what to do.
fn write_finding(f: &mut fmt::Formatter<'_>, finding: &Finding) -> fmt::Result {
    let Finding { dimension, configured, found, by, is_used, .. } = finding;
    let (noun, period) = (dimension.noun(), configured.period());
    let (ours, theirs) = (configured.count(), found.count());
    match by {
        Evidence::Reported if !finding.has_window => {
            let told = finding.reported.unwrap_or(*found).count();
            write!(f, "quota may be too high: the upstream reports a limit of {told} {noun} ")?;
            write!(
                f,
                "without its window, so the quota of {ours} per {period:?} does not use it: "
            )?;
            f.write_str("compare the setting")
        }
        Evidence::Reported => {
            write!(f, "quota too {}: ", if finding.is_lower() { "high" } else { "low" })?;
            let reported = finding.reported.unwrap_or(*found);
            let (told, window) = (reported.count(), reported.period());
            write!(f, "the upstream reports {told} {noun} per {window:?}, the quota has {ours}")?;
            if window != period {
                write!(f, " per {period:?}")?;
            }
            f.write_str(match (finding.is_lower(), is_used) {
                (true, true) => ", and uses the reported limit: correct the setting",
                (true, false) => {
                    " and does not learn, so calls above it may be refused: lower the setting or let the quota learn"
                }
                (false, true) => ", and uses the reported limit",
                (false, false) => ", so the rest is not used: raise the setting if you need more",
            })
        }
        Evidence::Refused => {
            write!(
                f,
                "quota too high: the upstream refuses calls below {ours} {noun} per {period:?}"
            )?;
            write!(f, ", now {theirs} are used: correct the setting or its burst, ")?;
            f.write_str("or find who else uses the limit")
        }
        Evidence::Accepted => {
            write!(f, "quota in use again: the upstream accepts {theirs} of {ours} {noun} per ")?;
            write!(f, "{period:?}")
        }
    }
}
