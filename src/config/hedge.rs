use serde::de::Error;

use super::duration::text;
use super::policy::check_timeouts;
use super::settings::{Found, settings};
use super::visit::{DurationVisitor, FlagVisitor, IntegerVisitor};
use crate::fallback::FallbackPolicy;
use crate::hedge::HedgePolicy;

settings! {
    /// Reads `delay`, `learned_delay` (true or false), `hedges`, `total_timeout` and
    /// `attempt_timeout`. A missing setting keeps its value from [`HedgePolicy::new`]. An
    /// `attempt_timeout` above the `total_timeout` is an error, and so is a `delay` that is not
    /// below both. Both timeouts are above 0.
    HedgePolicy, "a hedge policy", HedgePolicy::new(), {
        "delay": DurationVisitor::required
            => |policy, delay| policy.with_delay(delay.unwrap_or_default()),
        "learned_delay": FlagVisitor
            => |policy, learned| if learned { policy.with_learned_delay() } else { policy },
        "hedges": IntegerVisitor::from_0 => |policy, hedges| policy.with_hedges(hedges),
        "total_timeout": DurationVisitor::timeout => |policy, limit| match limit {
            Some(limit) => policy.with_total_timeout(limit),
            None => policy.without_total_timeout(),
        },
        "attempt_timeout": DurationVisitor::timeout
            => |policy, limit| match limit {
            Some(limit) => policy.with_attempt_timeout(limit),
            None => policy,
        },
    }, |policy, found| {
        check_timeouts(found, policy.total_timeout(), policy.attempt_timeout())?;
        check_delay(found, &policy)?;
        Ok(policy)
    }

    /// Reads `total_timeout` and `attempt_timeout`. A missing setting keeps its value from
    /// [`FallbackPolicy::new`]. A timeout of 0 is an error, and so is an `attempt_timeout` above the
    /// `total_timeout`.
    FallbackPolicy, "a fallback policy", FallbackPolicy::new(), {
        "total_timeout": DurationVisitor::timeout => |policy, limit| match limit {
            Some(limit) => policy.with_total_timeout(limit),
            None => policy.without_total_timeout(),
        },
        "attempt_timeout": DurationVisitor::timeout
            => |policy, limit| match limit {
            Some(limit) => policy.with_attempt_timeout(limit),
            None => policy,
        },
    }, |policy, found| {
        check_timeouts(found, policy.total_timeout(), policy.attempt_timeout())?;
        Ok(policy)
    }
}

/// Checks that a hedge can start before the first attempt or the call is cut.
///
/// A learned delay is shorter once it is known. Without hedges the delay has no use, but it stays
/// in the file for the day when they are back.
fn check_delay<E: Error>(found: &Found<'_>, policy: &HedgePolicy) -> Result<(), E> {
    if policy.learns_delay() || policy.hedges() == 0 || !found.has(&["delay"]) {
        return Ok(());
    }
    let limits = [
        (
            "total_timeout",
            policy.total_timeout(),
            "`delay` to be below `total_timeout`, or no hedge starts",
        ),
        (
            "attempt_timeout",
            policy.attempt_timeout(),
            "`delay` to be below `attempt_timeout`, or no hedge starts",
        ),
    ];
    for (name, limit, right) in limits {
        if let Some(limit) = limit.filter(|limit| policy.delay() >= *limit) {
            let delay = text(policy.delay());
            return Err(found.contradiction(("delay", &delay), (name, &text(limit)), right));
        }
    }
    Ok(())
}
