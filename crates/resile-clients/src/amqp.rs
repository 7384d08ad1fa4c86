//! AMQP 0-9-1: RabbitMQ.
//!
//! An error of a channel closes the channel, and an error of a connection the connection. "Again" is
//! always on a new one. Without publisher confirms nobody knows whether a message arrived.

#[cfg(feature = "lapin-4")]
mod error;

use resile::Verdict;

use crate::Idempotency;
use crate::rule::State::{Failing, Healthy, Overload};
use crate::rule::{Rule, if_idempotent, never};

#[cfg(feature = "lapin-4")]
pub use error::{confirmed, error};

/// Returns the verdict on a reply code.
///
/// # Examples
///
/// ```
/// use resile_clients::{Idempotency::NotIdempotent, amqp};
///
/// let forced = amqp::reply(320, NotIdempotent).unwrap();
/// assert!(!forced.is_again()); // the message may have arrived
/// ```
#[must_use]
pub fn reply(code: u16, idempotency: Idempotency) -> Option<Verdict> {
    rule(code).map(|rule| rule.verdict(idempotency))
}

/// Returns the verdict on the method that answered a published message: `basic.nack` or
/// `basic.return`.
///
/// # Examples
///
/// ```
/// use resile_clients::{Idempotency::NotIdempotent, amqp};
///
/// let full = amqp::confirmation("basic.nack", NotIdempotent).unwrap();
/// assert!(!full.is_again()); // one queue did not take it, but others may have it
/// ```
#[must_use]
pub fn confirmation(method: &str, idempotency: Idempotency) -> Option<Verdict> {
    match method {
        "basic.nack" => Some(if_idempotent(Overload)),
        "basic.return" => Some(never(Healthy)),
        _ => None,
    }
    .map(|rule| rule.verdict(idempotency))
}

const fn rule(code: u16) -> Option<Rule> {
    Some(match code {
        320 | 541 => if_idempotent(Failing),
        405 => if_idempotent(Healthy),
        506 => if_idempotent(Overload),
        501..=505 => never(Failing),
        311..=313 | 402..=404 | 406 | 530 | 540 => never(Healthy),
        _ => return None,
    })
}
