//! The words for the start, the course and the end of a strain on a part of an upstream, and of a surge.

use std::fmt;
use std::time::Duration;

use super::event::{Event, EventKind};
use super::held_by::HeldBy;
use super::kinds::Kinds;
use crate::quota::Shadow;
use crate::time::Rounded;

impl Event<'_> {
    /// Writes that a part begins to limit calls, with its numbers and what it means for calls.
    pub(super) fn write_limiting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let EventKind::Limiting { by, limit, hold, full, .. } = self.kind else {
            return Ok(());
        };
        let gauges = &self.gauges;
        if let Some(queue) = full {
            write!(f, "{}: its queue of {queue} is full, ", by.as_str())?;
            if by == HeldBy::Quota {
                gauges.write_cause(f)?;
            }
            return f.write_str("calls are refused");
        }
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
            HeldBy::Bulkhead if limit == Some(0) => {
                f.write_str("bulkhead with a limit of 0: all calls are refused")
            }
            HeldBy::Bulkhead => {
                let (in_flight, queued) = (limit.unwrap_or(0), gauges.waiting.unwrap_or(0));
                write!(f, "bulkhead full: {in_flight} in flight, {queued} queued, ")?;
                f.write_str("further calls wait or are refused")
            }
            HeldBy::Quota => {
                if gauges.is_shadowed() {
                    return f.write_str("quota in shadow mode used up: further calls would wait");
                }
                f.write_str(if gauges.is_quota_emptied {
                    "quota emptied by a rate limit of the upstream: "
                } else {
                    "quota used up: "
                })?;
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
                gauges.write_cause(f)?;
                write!(f, "{queued} queued, further calls wait or are refused")
            }
            HeldBy::Cooldown => {
                f.write_str("cooldown: all calls wait")?;
                hold.map_or(Ok(()), |hold| write!(f, " {}", Rounded(hold)))?;
                f.write_str(", those with less time left end at once")?;
                f.write_str(if gauges.is_throttled_too() {
                    ", the upstream throttled an attempt, another process was asked to wait before"
                } else if gauges.is_joined() {
                    ", another process was asked to wait"
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

    /// Writes that a part goes on to limit calls, with the numbers until now.
    pub(super) fn write_still(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let EventKind::StillLimiting { by, lasted, times, refused, holds, .. } = self.kind else {
            return Ok(());
        };
        if let Some(shadow) = self.shadow_of(by) {
            return write!(f, "quota in shadow mode still used up: {shadow}");
        }
        f.write_str(match by {
            HeldBy::Budget => "retry budget still spent: ",
            HeldBy::Bulkhead => "bulkhead still full: ",
            HeldBy::Quota => "quota still used up: ",
            HeldBy::Cooldown => "cooldown still holds calls: ",
            HeldBy::Throttle => "throttle still refuses attempts: ",
            HeldBy::Breaker => "the circuit breaker is still open: ",
        })?;
        // The line of the start may have had another one.
        if by == HeldBy::Quota {
            self.gauges.write_cause(f)?;
        }
        write_counts(f, by, times, refused, holds)?;
        write!(f, " within {}", Rounded(lasted))
    }

    /// Writes that a part has room again, with the numbers of holds, of waits and of refusals, the time from the first of
    /// them to the end of the last and the time since then.
    ///
    /// The lease of a process that asks nobody says nothing of the quota, and who leaves has not seen the end.
    pub(super) fn write_relieved(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let EventKind::Relieved { by, lasted, ago, times, refused, holds, leaves } = self.kind
        else {
            return Ok(());
        };
        let end = if leaves { ", and the process leaves" } else { "" };
        if let Some(shadow) = self.shadow_of(by) {
            return write!(f, "quota in shadow mode has units again: {shadow}{end}");
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
        write_counts(f, by, times, refused, holds)?;
        // The line comes at least ten seconds later, unless the process leaves its fleet. Without both times
        // the reader would look for the strain in the seconds before the line.
        let is_short = |time| time < Duration::from_millis(1);
        let is_short = (is_short(lasted), is_short(ago));
        let (lasted, ago) = (Rounded(lasted), Rounded(ago));
        match is_short {
            (true, true) => f.write_str(" within 1ms")?,
            (true, false) => write!(f, ", {ago} ago")?,
            (false, true) => write!(f, " within {lasted}")?,
            (false, false) => write!(f, " within {lasted}, until {ago} ago")?,
        }
        f.write_str(end)
    }

    /// Writes that many attempts fail or collide, or that none has failed for a while.
    pub(super) fn write_surge(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NONE: &Kinds = &Kinds::new();
        let kinds = self.kinds.unwrap_or(NONE);
        match self.kind {
            EventKind::Surge { failures, lasted, begins, in_fallback, at_first, failure } => {
                let is_healthy = failure.is_of_healthy();
                let (of, did) = surge(is_healthy, in_fallback, at_first);
                let then = if is_healthy && !in_fallback {
                    ", their lines are at DEBUG"
                } else {
                    ", the lines of further ones are at DEBUG"
                };
                let (goes_on, then) = if begins { ("", then) } else { (" goes on", "") };
                let lasted = within(lasted);
                write!(f, "surge of {of}{goes_on}: ")?;
                write!(f, "{failures} {did} within {lasted}{kinds}{then}: {failure}")
            }
            EventKind::SurgeOver { failures, lasted, ago, is_healthy, in_fallback, at_first } => {
                let (of, did) = surge(is_healthy, in_fallback, at_first);
                let (lasted, ago) = (within(lasted), Rounded(ago));
                write!(f, "surge of {of} over: {failures} ")?;
                write!(f, "{did} within {lasted}{kinds}, until {ago} ago")
            }
            _ => Ok(()),
        }
    }

    /// Returns what a quota in shadow mode would have done, for an event of the quota.
    fn shadow_of(&self, by: HeldBy) -> Option<Shadow> {
        self.gauges.quota.filter(|_| by == HeldBy::Quota)?.shadow
    }
}

/// Returns the name of a surge, and what its attempts or calls did.
const fn surge(
    is_healthy: bool,
    in_fallback: bool,
    at_first: bool,
) -> (&'static str, &'static str) {
    const ANNOUNCED: &str = "attempts announced a retry";
    match (in_fallback, at_first, is_healthy) {
        (true, ..) => ("failures in a fallback", "calls gave up"),
        (_, true, _) => ("failures without a retry", "calls ended at their first attempt"),
        (.., true) => ("retries on a healthy upstream", ANNOUNCED),
        (.., false) => ("failures", ANNOUNCED),
    }
}

/// Returns a time within which something happened. A surge counts in milliseconds, so a shorter time is one of these.
fn within(time: Duration) -> Rounded {
    Rounded(time.max(Duration::from_millis(1)))
}

/// Writes the numbers of holds, of waits and of refusals.
fn write_counts(
    f: &mut fmt::Formatter<'_>,
    by: HeldBy,
    times: u64,
    refused: u64,
    holds: u64,
) -> fmt::Result {
    let plural = |count| if count == 1 { "" } else { "s" };
    match by {
        HeldBy::Budget if times == 1 => write!(f, "1 retry not made")?,
        HeldBy::Budget => write!(f, "{times} retries not made")?,
        HeldBy::Throttle | HeldBy::Breaker => write!(f, "{times} refusal{}", plural(times))?,
        HeldBy::Bulkhead | HeldBy::Quota | HeldBy::Cooldown => {
            if holds > 1 {
                write!(f, "{holds} holds, ")?;
            }
            let waits = times.saturating_sub(refused);
            if waits > 0 || refused == 0 {
                write!(f, "{waits} wait{}", plural(waits))?;
            }
            if refused > 0 {
                let end = if by == HeldBy::Cooldown { "ended at once" } else { "refused" };
                write!(f, "{}{refused} {end}", if waits > 0 { ", " } else { "" })?;
            }
        }
    }
    Ok(())
}
