//! NATS and JetStream, with the names of `async-nats`.
//!
//! A publish with `Nats-Msg-Id` is idempotent inside of the stream's duplicate window.

#[cfg(feature = "async-nats-0_51")]
mod error;

use resile::Verdict;

use crate::Idempotency;
use crate::rule::State::{Failing, Healthy, OwnLimit, Unknown};
use crate::rule::{Rule, always, if_idempotent, never};

#[cfg(feature = "async-nats-0_51")]
pub use error::error;

/// Returns the verdict on an `err_code` of the JetStream API.
///
/// # Examples
///
/// ```
/// use resile_clients::{Idempotency::Idempotent, nats};
///
/// assert!(nats::api(10009, Idempotent).unwrap().is_again()); // no leader
/// ```
#[must_use]
pub fn api(code: u16, idempotency: Idempotency) -> Option<Verdict> {
    api_rule(code).map(|rule| rule.verdict(idempotency))
}

/// Returns the verdict on the kind of an error of a request or a publish, such as `NoResponders`.
///
/// # Examples
///
/// ```
/// use resile_clients::{Idempotency::NotIdempotent, nats};
///
/// let nobody = nats::kind("NoResponders", NotIdempotent).unwrap();
/// assert!(nobody.is_again());
/// let late = nats::kind("TimedOut", NotIdempotent).unwrap();
/// assert!(!late.is_again()); // the stream may still store it
/// ```
#[must_use]
pub fn kind(kind: &str, idempotency: Idempotency) -> Option<Verdict> {
    kind_rule(kind).map(|rule| rule.verdict(idempotency))
}

/// Returns the verdict on the kind of an error of `connect`. Nothing was sent yet.
///
/// # Examples
///
/// ```
/// use resile_clients::{Idempotency::NotIdempotent, nats};
///
/// assert!(nats::connect("TimedOut", NotIdempotent).unwrap().is_again());
/// ```
#[must_use]
pub fn connect(kind: &str, idempotency: Idempotency) -> Option<Verdict> {
    connect_rule(kind).map(|rule| rule.verdict(idempotency))
}

fn connect_rule(kind: &str) -> Option<Rule> {
    match kind {
        "TimedOut" | "Io" | "Dns" => Some(always(Failing)),
        "MaxReconnects" => Some(never(Failing)),
        "Tls" | "Authentication" | "AuthorizationViolation" | "ServerParse" => Some(never(Unknown)),
        _ => None,
    }
}

const fn api_rule(code: u16) -> Option<Rule> {
    Some(match code {
        10004 | 10008 | 10009 | 10041 | 10118 | 10119 => if_idempotent(Failing),
        10077 => if_idempotent(OwnLimit),
        10002 | 10023 | 10026 | 10027 | 10028 | 10047 => never(OwnLimit),
        10014 | 10037 | 10043 | 10059 => never(Healthy),
        _ => return None,
    })
}

fn kind_rule(kind: &str) -> Option<Rule> {
    Some(match kind {
        "NoResponders" => always(Failing),
        // async-nats makes the first one from "no responders": an election, or a young stream.
        "StreamNotFound" | "TimedOut" | "BrokenPipe" => if_idempotent(Failing),
        "MaxAckPending" => always(OwnLimit),
        "WrongLastSequence" | "WrongLastMessageId" | "MaxPayloadExceeded" | "InvalidSubject"
        | "Send" => never(Healthy),
        _ => return None,
    })
}
