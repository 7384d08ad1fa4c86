use std::time::Duration;

use serde::de::Error;
use serde::{Serialize, Serializer};

use super::backoff::BackoffSettings;
use super::duration::{text, text_or_none};
use super::settings::{Found, Reader, settings};
use super::visit::{DurationVisitor, FlagVisitor, IntegerVisitor};
use crate::backoff::Backoff;
use crate::classify::Always;
use crate::policy::RetryPolicy;

settings! {
    /// Reads a policy. A missing setting keeps its value from [`RetryPolicy::new`]. See
    /// [Configuration](#configuration).
    RetryPolicy<Always>, "a retry policy", RetryPolicy::new(), {
        "attempts": IntegerVisitor::attempts => |policy, attempts| policy.with_attempts(attempts),
        "total_timeout": DurationVisitor::timeout => |policy, limit| match limit {
            Some(limit) => policy.with_total_timeout(limit),
            None => policy.without_total_timeout(),
        },
        "attempt_timeout": DurationVisitor::timeout => |policy, limit| match limit {
            Some(limit) => policy.with_attempt_timeout(limit),
            None => policy, // the timeout may still be learned
        },
        "learned_attempt_timeout": FlagVisitor => |policy, learned| if learned {
            policy.with_learned_attempt_timeout()
        } else {
            policy
        },
        "hint_cap": DurationVisitor::optional
            => |policy, cap| policy.with_hint_cap(cap.unwrap_or(Duration::MAX)),
        "backoff": Reader::<BackoffSettings>::at => |policy, backoff| policy.with_backoff(backoff),
        "throttled_backoff": Reader::<BackoffSettings>::at
            => |policy, backoff| policy.with_throttled_backoff(backoff),
        "healthy_backoff": Reader::<BackoffSettings>::at
            => |policy, backoff| policy.with_healthy_backoff(backoff),
    }, |policy, found| {
        check_timeouts(found, policy.total_timeout(), policy.attempt_timeout())?;
        check_delay(found, &policy, "backoff", Some(policy.backoff()))?;
        check_delay(found, &policy, "throttled_backoff", policy.throttled_backoff())?;
        check_delay(found, &policy, "healthy_backoff", policy.healthy_backoff())?;
        Ok(policy)
    }
}

/// Checks that an attempt may last no longer than its call.
pub(super) fn check_timeouts<E: Error>(
    found: &Found<'_>,
    total: Option<Duration>,
    attempt: Option<Duration>,
) -> Result<(), E> {
    match (total, attempt) {
        (Some(total), Some(attempt)) if attempt > total => Err(found.contradiction(
            ("attempt_timeout", &text(attempt)),
            ("total_timeout", &text(total)),
            "`attempt_timeout` to be at most `total_timeout`, at which the call ends",
        )),
        _ => Ok(()),
    }
}

/// Checks that the first delay of a backoff can end before the call.
fn check_delay<E: Error>(
    found: &Found<'_>,
    policy: &RetryPolicy,
    name: &'static str,
    backoff: Option<Backoff>,
) -> Result<(), E> {
    let (Some(total), Some(backoff), 2..) = (policy.total_timeout(), backoff, policy.attempts())
    else {
        return Ok(());
    };
    let shortest = backoff.delay(1, Duration::ZERO, |range| *range.start());
    // A base with the value of the default may be the default, which contradicts nothing.
    let is_default = backoff.unjittered(1) == RetryPolicy::new().backoff().unjittered(1);
    if shortest < total || shortest.is_zero() || is_default || !found.has(&[name]) {
        return Ok(());
    }
    Err(found.contradiction(
        (name, &format!("{} or longer", text(shortest))),
        ("total_timeout", &text(total)),
        "the first delay to be below `total_timeout`, or no retry begins",
    ))
}

/// Writes the settings but not the classifier because the classifier is code. Set the classifier
/// again after reading, by [`with_classifier`](RetryPolicy::with_classifier).
impl<C> Serialize for RetryPolicy<C> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        PolicyText {
            attempts: self.attempts(),
            total_timeout: self.total_timeout().map(text),
            attempt_timeout: self.attempt_timeout().map(text),
            learned_attempt_timeout: self.learns_attempt_timeout(),
            hint_cap: text_or_none(self.hint_cap()),
            backoff: self.backoff(),
            throttled_backoff: self.throttled_backoff(),
            healthy_backoff: self.healthy_backoff(),
        }
        .serialize(serializer)
    }
}

#[derive(Serialize)]
#[serde(rename = "RetryPolicy")]
struct PolicyText {
    attempts: u32,
    total_timeout: Option<String>,
    attempt_timeout: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    learned_attempt_timeout: bool,
    hint_cap: String,
    backoff: Backoff,
    #[serde(skip_serializing_if = "Option::is_none")]
    throttled_backoff: Option<Backoff>,
    #[serde(skip_serializing_if = "Option::is_none")]
    healthy_backoff: Option<Backoff>,
}
