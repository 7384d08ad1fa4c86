//! The words of an event in one line.

use std::fmt;
use std::time::Duration;

use super::allotted::InFlight;
use super::event::{CallKind, Event, EventKind};
use super::held_by::HeldBy;
use super::one_line::OneLine;
use crate::policy::{
    DROPPED, HALF_OPEN, IN_DOUBT, LACKS_LEASE, NOT_WANTED, StopReason, effect_in_words,
};
use crate::quota::{Evidence, Finding, Shadow};
use crate::time::Rounded;

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
                write!(f, "for the {}", by.as_str())
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
            EventKind::Waiting { attempt: failed, failure, delay, is_partial, .. } => {
                write!(f, "{attempt} {}{of} failed", failed.number())?;
                f.write_str(if is_partial { " after a part of the answer, " } else { ", " })?;
                let held = self.gauges.cooldown;
                let least = held.map_or(delay, |held| held.max(delay));
                let is_short = least < Duration::from_millis(1);
                match held {
                    _ if is_fallback => f.write_str("trying the next")?,
                    _ if least.is_zero() => f.write_str("retrying at once")?,
                    None if is_short => f.write_str("retrying within 1ms")?,
                    None => write!(f, "retrying in {}", Rounded(least))?,
                    // It releases its calls one by one after the hold.
                    Some(_) => write!(f, "retrying in at least {}", Rounded(least))?,
                }
                failure.fmt_asked(f, is_fallback, None)?;
                write!(f, ": {failure}")
            }
            EventKind::Denied { attempts, by } => {
                write!(f, "hedge not started after attempt {attempts}{of}: ")?;
                f.write_str(match by {
                    Some(HeldBy::Budget) if self.gauges.lacks_lease() => LACKS_LEASE,
                    Some(HeldBy::Breaker) if self.gauges.is_half_open() => HALF_OPEN,
                    _ => denial(by),
                })
            }
            EventKind::Lost { attempt: lost } => {
                write!(f, "attempt {lost}{of} dropped: another attempt ended the call")
            }
            EventKind::Succeeded { attempt: number, .. } => {
                write!(f, "{attempt} {number}{of} succeeded")
            }
            EventKind::GaveUp { .. } => self.write_gave_up(f),
            EventKind::Limiting { by, limit, hold, full } => {
                self.write_limiting(f, by, limit, hold, full)
            }
            EventKind::Relieved { by, lasted, ago, times, refused, leaves } => {
                write_relieved(f, by, (lasted, ago), (times, refused), leaves, self.shadow_of(by))?;
                if leaves { f.write_str(", and the process leaves") } else { Ok(()) }
            }
            EventKind::Lowered { before, after } => {
                write!(f, "bulkhead limit lowered from {before} to {after}: ")?;
                f.write_str("the upstream refused an attempt")
            }
            EventKind::Learned(finding) => write_finding(f, &finding),
            EventKind::Breaker { transition, failure } => {
                transition.fmt(f)?;
                failure.map_or(Ok(()), |failure| {
                    failure.fmt_asked(f, true, None)?;
                    write!(f, ": {failure}")
                })
            }
            #[cfg(feature = "fleet")]
            EventKind::Fleet(status) => write!(f, "fleet state: {status}"),
        }
    }
}

impl Event<'_> {
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
        let of = Allowed(allowed);
        let is_fallback = self.call.is_some_and(|call| call.kind == CallKind::Fallback);
        let attempt = if is_fallback { "alternative" } else { "attempt" };
        // "1 of 4 attempts", but "1 attempt" without a limit.
        let plural = if attempts == 1 && matches!(allowed, 0 | u32::MAX) { "" } else { "s" };
        write!(f, "gave up after {attempts}{of} {attempt}{plural}")?;
        let has_spare = reason == StopReason::Attempts && attempts < allowed;
        let is_hedge = self.call.is_some_and(|call| call.kind == CallKind::Hedge);
        let words = match reason {
            StopReason::Budget if self.gauges.lacks_lease() => LACKS_LEASE,
            StopReason::Open if retry_after.is_none() && self.gauges.is_half_open() => HALF_OPEN,
            _ => reason.in_words(is_fallback, failure.verdict, failure.cut),
        };
        match (too_large, no_room, too_long) {
            (Some(too_large), ..) => write!(f, ", {too_large}")?,
            (None, Some(no_room), _) => write!(f, ", {no_room}")?,
            (None, None, Some(too_long)) => write!(f, ", {too_long}")?,
            _ if has_spare && is_hedge => f.write_str(", no attempt was left in flight")?,
            _ if !reason.is_evident(failure.cut) => write!(f, ", {words}")?,
            _ => {}
        }
        let dropped = failure.in_flight.filter(|in_flight| in_flight.is_dropped);
        if let Some(InFlight { place: Some(place), is_dropped_unsent, has_effect, .. }) = dropped {
            let effect = effect_in_words(*is_dropped_unsent, *has_effect);
            write!(f, ", {} {DROPPED}{effect}", OneLine(place))?;
        }
        if in_doubt && reason.hides_doubt() {
            write!(f, ", {IN_DOUBT}")?;
        }
        if is_partial && reason != StopReason::Partial {
            write!(f, ", {}", StopReason::Partial)?;
        }
        let is_told = too_long.is_some_and(|too_long| too_long.tells(retry_after));
        let is_final = reason == StopReason::Fatal; // no wait before "again"
        let next_call = retry_after.filter(|_| !is_final && !is_told);
        match next_call {
            Some(after) if reason.is_floor(failure.verdict, after) => {
                write!(f, ", wait at least {} before the next call", Rounded(after))?;
            }
            Some(after) => write!(f, ", try again in {}", Rounded(after))?,
            None => {}
        }
        let hint = failure.verdict.and_then(|verdict| verdict.hint());
        let names_hint = too_long.is_some_and(|too_long| too_long.tells(hint));
        // The words before have said it.
        if words != NOT_WANTED {
            failure.fmt_asked(f, true, if names_hint { hint } else { next_call })?;
        }
        // The words of the upstream are the last ones, so that nobody takes those of the call for them. A
        // call without a name has the type of its error only.
        if failure.cut.is_some() || failure.error_type.is_some() {
            write!(f, ": {failure}")?;
        }
        match failure.in_flight.and_then(|in_flight| in_flight.earlier) {
            Some(earlier) => write!(f, ", after an earlier error: {}", OneLine(earlier)),
            None => Ok(()),
        }
    }

    /// Returns what a quota in shadow mode would have done, for an event of the quota.
    fn shadow_of(&self, by: HeldBy) -> Option<Shadow> {
        self.gauges.quota.filter(|_| by == HeldBy::Quota)?.shadow
    }

    /// Writes that a part begins to limit calls, with its numbers and what it means for calls.
    fn write_limiting(
        &self,
        f: &mut fmt::Formatter<'_>,
        by: HeldBy,
        limit: Option<u32>,
        hold: Option<Duration>,
        full: Option<u32>,
    ) -> fmt::Result {
        if let Some(queue) = full {
            return write!(f, "{}: its queue of {queue} is full, calls are refused", by.as_str());
        }
        let gauges = &self.gauges;
        match by {
            HeldBy::Budget if limit == Some(0) => {
                f.write_str("retry budget with a capacity of 0: no retries and no hedges are made")
            }
            HeldBy::Budget if gauges.lacks_lease() => {
                let capacity = limit.unwrap_or(0);
                f.write_str("retry budget: this process holds too few tokens of the fleet's ")?;
                write!(f, "budget (capacity {capacity}), ")?;
                f.write_str("retries and hedges are not made until it gets more")
            }
            HeldBy::Budget => {
                let (left, capacity) = (gauges.tokens.unwrap_or(0), limit.unwrap_or(0));
                write!(f, "retry budget spent: {left} of {capacity} tokens left, ")?;
                f.write_str("retries and hedges are not made until tokens come back")
            }
            HeldBy::Bulkhead => {
                let (in_flight, queued) = (limit.unwrap_or(0), gauges.waiting.unwrap_or(0));
                write!(f, "bulkhead full: {in_flight} in flight, {queued} queued, ")?;
                f.write_str("further calls wait or are refused")
            }
            HeldBy::Quota => {
                if gauges.quota.is_some_and(|levels| levels.shadow.is_some()) {
                    return f.write_str("quota in shadow mode used up: further calls would wait");
                }
                f.write_str("quota used up: ")?;
                let hold = hold.filter(|hold| *hold >= Duration::from_millis(1));
                let queued = gauges.quota.map_or(0, |levels| levels.waiting);
                match hold {
                    // Its call has less time left.
                    Some(hold) if queued == 0 => {
                        let hold = Rounded(hold);
                        write!(f, "this attempt is refused, because it would wait {hold}, ")?;
                    }
                    Some(hold) => write!(f, "it holds this attempt for {}, ", Rounded(hold))?,
                    None => {}
                }
                gauges.write_shared_limit(f)?;
                write!(f, "{queued} queued, further calls wait or are refused")
            }
            HeldBy::Cooldown => {
                f.write_str("cooldown: all calls wait")?;
                hold.map_or(Ok(()), |hold| write!(f, " {}", Rounded(hold)))?;
                f.write_str(if gauges.is_joined() {
                    ", another process was asked to"
                } else if gauges.is_hold_by_hand {
                    ", the program asked for it"
                } else {
                    ", the upstream throttled an attempt"
                })
            }
            HeldBy::Throttle => {
                write!(
                    f,
                    "throttle: {} % of the attempts are refused, ",
                    gauges.throttled.unwrap_or(0)
                )?;
                f.write_str("the upstream refuses more than half")
            }
            HeldBy::Breaker => f.write_str("the circuit breaker is open"),
        }
    }
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
        Evidence::Reported => {
            write!(f, "quota too {}: ", if finding.is_lower() { "high" } else { "low" })?;
            let reported = finding.reported.unwrap_or(*found);
            let (told, window) = (reported.count(), reported.period());
            write!(f, "the upstream reports {told} {noun} per {window:?}, the quota has {ours}")?;
            if window != period {
                write!(f, " per {period:?}")?;
            }
            f.write_str(", ")?;
            f.write_str(match (finding.is_lower(), is_used) {
                (true, true) => "and uses the reported limit: correct the setting",
                (true, false) => "so calls are refused: lower the setting or let the quota learn",
                (false, true) => "and uses the reported limit",
                (false, false) => "so the rest is not used: raise the setting if you need more",
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

/// Writes that a part has room again, with the numbers of waits and of refusals, the time from the first of
/// them to the end of the last and the time since then.
///
/// The lease of a process that asks nobody says nothing of the quota, and who leaves has not seen the end.
fn write_relieved(
    f: &mut fmt::Formatter<'_>,
    by: HeldBy,
    (lasted, ago): (Duration, Duration),
    (times, refused): (u64, u64),
    leaves: bool,
    shadow: Option<Shadow>,
) -> fmt::Result {
    if let Some(shadow) = shadow {
        return write!(f, "quota in shadow mode has units again: {shadow}");
    }
    f.write_str(match by {
        HeldBy::Budget if leaves => "retry budget was spent: ",
        HeldBy::Budget => "retry budget pays again: ",
        HeldBy::Bulkhead if leaves => "bulkhead was full: ",
        HeldBy::Bulkhead => "bulkhead has room again: ",
        HeldBy::Quota => "quota was used up: ",
        HeldBy::Cooldown if leaves => "cooldown held calls: ",
        HeldBy::Cooldown => "cooldown over: ",
        HeldBy::Throttle if leaves => "throttle refused attempts: ",
        HeldBy::Throttle => "throttle admits all again: ",
        HeldBy::Breaker => "breaker admits again: ",
    })?;
    let plural = |count| if count == 1 { "" } else { "s" };
    match by {
        HeldBy::Budget if times == 1 => write!(f, "1 retry not made")?,
        HeldBy::Budget => write!(f, "{times} retries not made")?,
        HeldBy::Throttle | HeldBy::Breaker => write!(f, "{times} refusal{}", plural(times))?,
        HeldBy::Bulkhead | HeldBy::Quota | HeldBy::Cooldown => {
            let waits = times.saturating_sub(refused);
            if waits > 0 || refused == 0 {
                write!(f, "{waits} wait{}", plural(waits))?;
            }
            if refused > 0 {
                write!(f, "{}{refused} refused", if waits > 0 { ", " } else { "" })?;
            }
        }
    }
    // The line comes at least ten seconds later, unless the process leaves its fleet. Without both times
    // the reader would look for the strain in the seconds before the line.
    let is_short = |time| time < Duration::from_millis(1);
    let is_short = (is_short(lasted), is_short(ago));
    let (lasted, ago) = (Rounded(lasted), Rounded(ago));
    match is_short {
        (true, true) => f.write_str(" within 1ms"),
        (true, false) => write!(f, ", {ago} ago"),
        (false, true) => write!(f, " within {lasted}"),
        (false, false) => write!(f, " within {lasted}, until {ago} ago"),
    }
}
