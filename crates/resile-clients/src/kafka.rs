//! Kafka: the codes of the protocol, and the negative ones of librdkafka.
//!
//! A producer of librdkafka retries for five minutes by itself. Do not wrap `produce`: set
//! `message.timeout.ms` and `enable.idempotence`. These verdicts are for commits, metadata and
//! administration.

use resile::Verdict;

use crate::Idempotency;
use crate::rule::State::{Failing, Healthy, OwnLimit};
use crate::rule::{Rule, always, if_idempotent, never};

/// Returns the verdict on the code of an error.
///
/// # Examples
///
/// ```
/// use resile_clients::{Idempotency::NotIdempotent, kafka};
///
/// let no_leader = kafka::code(5, NotIdempotent).unwrap();
/// assert!(no_leader.is_again());
/// let timed_out = kafka::code(7, NotIdempotent).unwrap();
/// assert!(!timed_out.is_again()); // the record may be in the log
/// ```
#[must_use]
pub fn code(code: i32, idempotency: Idempotency) -> Option<Verdict> {
    rule(code).map(|rule| rule.verdict(idempotency))
}

const fn rule(code: i32) -> Option<Rule> {
    Some(match code {
        // Not kept: no leader, no coordinator, no disk, too few replicas, corrupt on its way.
        5 | 6 | 8 | 9 | 14..=16 | -180 | 56 | 19 | 2 | -166 => always(Failing),
        // Maybe kept.
        20 | 7 | -185 | -195 | -181 => if_idempotent(Failing),
        -192 => never(Failing),
        -184 | 89 => always(OwnLimit),
        3 => if_idempotent(Healthy),
        // The producer is fenced.
        45..=47 | 59 => never(Failing),
        // The consumer must join again: 22, 25, 27 and 82. The others are faults of the request.
        4 | 10 | 17 | 21 | 22 | 24..=29 | 32 | 37..=40 | 42 | 82 => never(Healthy),
        _ => return None,
    })
}
