use std::borrow::Cow;

use lapin::{Confirmation, Error, ErrorKind};
use resile::Verdict;
use resile::io::error_type;

use super::{confirmation, reply};
use crate::Idempotency;
use crate::classifier::classifies;
use crate::rule::State::{Failing, Unknown};
use crate::rule::{always, if_idempotent, never};

/// Returns the verdict on an error of the client `lapin`.
///
/// A reply of the broker is classified by [`reply`], and an `io::Error` by `resile::io`. A channel that
/// is closed already refuses a publish or a declaration without sending it. All other errors leave open
/// whether the message arrived, also that of a closed connection: the client has the same error for
/// messages that wait for their confirmation.
///
/// `Error::can_be_recovered` is true for a wrong password and for a queue that does not exist. It says
/// that a new connection would work, and not that a repetition helps.
///
/// A call may also wait for ever: in an alarm of the broker, and while its connection ends. So give each
/// attempt a timeout. A publish that timed out may be stored later.
///
/// "Again" is on a new channel, and mostly on a new connection. The attempt is the unit: if it makes
/// several publishes, the refused one may be the second.
///
/// # Examples
///
/// ```
/// use lapin::{ChannelState, Error, ErrorKind};
/// use resile_clients::{Idempotency::NotIdempotent, amqp};
///
/// fn classify(error: &Error) -> Option<resile_clients::resile::Verdict> {
///     amqp::error(error, NotIdempotent)
/// }
/// let refused = ErrorKind::InvalidChannelState(ChannelState::Closed, "basic.publish");
/// assert!(classify(&refused.into()).unwrap().is_again());
/// assert!(!classify(&ErrorKind::MissingHeartbeatError.into()).unwrap().is_again());
/// ```
#[must_use]
pub fn error(error: &Error, idempotency: Idempotency) -> Option<Verdict> {
    let rule = match error.kind() {
        ErrorKind::ProtocolError(error) => return reply(error.get_id(), idempotency),
        ErrorKind::IOError(error) => {
            let classifier = idempotency.io();
            return Some(classifier.verdict(&**error).unwrap_or(classifier.unanswered()));
        }
        ErrorKind::InvalidChannelState(_, call) if is_only_called(call) => always(Failing),
        ErrorKind::InvalidChannelState(..)
        | ErrorKind::InvalidChannel(_)
        | ErrorKind::InvalidConnectionState(_)
        | ErrorKind::MissingHeartbeatError => if_idempotent(Failing),
        ErrorKind::ChannelsLimitReached => always(Unknown),
        ErrorKind::InvalidProtocolVersion(_)
        | ErrorKind::RuntimeShutdownError(_)
        | ErrorKind::ParsingError(_)
        | ErrorKind::SerialisationError(_)
        | ErrorKind::AuthProviderError(_)
        | ErrorKind::FutureCompleted
        | ErrorKind::NoDefaultRuntime => never(Unknown),
        _ => return None,
    };
    Some(rule.verdict(idempotency))
}

classifies!(Error => error, word);

/// Returns the number of the reply, the word for an `io::Error`, or the kind.
fn word(error: &Error) -> Option<Cow<'_, str>> {
    Some(Cow::Borrowed(match error.kind() {
        ErrorKind::ProtocolError(error) => return Some(error.get_id().to_string().into()),
        ErrorKind::IOError(error) => error_type(&**error)?,
        ErrorKind::InvalidChannelState(..) => "InvalidChannelState",
        ErrorKind::InvalidChannel(_) => "InvalidChannel",
        ErrorKind::InvalidConnectionState(_) => "InvalidConnectionState",
        ErrorKind::MissingHeartbeatError => "MissingHeartbeatError",
        ErrorKind::ChannelsLimitReached => "ChannelsLimitReached",
        ErrorKind::AuthProviderError(_) => "AuthProviderError",
        _ => return None,
    }))
}

/// Returns the verdict on a confirmation. `None` for a message that the broker took, and for one
/// without publisher confirms, since nobody knows.
///
/// A message that has no route is an acknowledgement with the message in it. That is a failure. A
/// negative acknowledgement says that one queue refused the message. Other queues may have it.
///
/// # Examples
///
/// ```
/// use lapin::Confirmation;
/// use resile_clients::{Idempotency::Idempotent, amqp};
///
/// assert_eq!(amqp::confirmed(&Confirmation::Ack(None), Idempotent), None);
/// assert!(amqp::confirmed(&Confirmation::Nack(None), Idempotent).unwrap().is_again());
/// ```
#[must_use]
pub fn confirmed(answer: &Confirmation, idempotency: Idempotency) -> Option<Verdict> {
    match answer {
        Confirmation::Nack(_) => confirmation("basic.nack", idempotency),
        Confirmation::Ack(Some(_)) => confirmation("basic.return", idempotency),
        Confirmation::Ack(None) | Confirmation::NotRequested => None,
    }
}

/// Returns whether the client gives this method as the reason only if it refused to send it. The broker
/// sends some methods too, and the others are reasons for messages on their way.
fn is_only_called(call: &str) -> bool {
    let is_call = match call.split_once('.') {
        Some(("queue" | "exchange" | "tx", method)) => !method.ends_with("-ok"),
        Some(("basic", method)) => matches!(method, "publish" | "get" | "consume" | "qos"),
        Some(("confirm", method)) => method == "select",
        _ => false,
    };
    is_call && !call.contains(' ')
}
