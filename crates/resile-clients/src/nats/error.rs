use std::borrow::Cow;
use std::error::Error;
use std::iter;

use async_nats::jetstream::context::{
    ConsumerInfoError, ConsumerInfoErrorKind, CreateStreamError, CreateStreamErrorKind,
    GetStreamError, GetStreamErrorKind, PublishError, PublishErrorKind, RequestError,
    RequestErrorKind,
};
use async_nats::jetstream::stream::{ConsumerError, ConsumerErrorKind};
use async_nats::{ConnectErrorKind, jetstream};
use resile::Verdict;

use super::{api_rule, connect_rule, kind_rule};
use crate::Idempotency;
use crate::classifier::classifies;
use crate::rule::State::{Failing, Healthy};
use crate::rule::{Rule, if_idempotent, never};

/// Returns the verdict on an error of the client `async-nats`.
///
/// It knows the errors of `connect`, `publish`, `request` and `flush`, and in JetStream those of
/// a publish, of a request to the API, of streams and of consumers. All other types have no verdict,
/// also a `Box` with an error in it: pass `&*error`. An error that only says "other" has the verdict of
/// its source.
///
/// `TimedOut` of a publish to JetStream never says that the message was not stored. The client sends
/// it after a reconnect, and the server stores it then. A message with the header `Nats-Msg-Id` is
/// stored once inside of the duplicate window of its stream, so it is idempotent.
///
/// A plain `publish` only puts the message into a buffer, so its success says nothing.
///
/// # Examples
///
/// ```
/// use async_nats::{RequestError, RequestErrorKind};
/// use resile_clients::{Idempotency::NotIdempotent, nats};
///
/// let nobody = RequestError::new(RequestErrorKind::NoResponders);
/// assert!(nats::error(&nobody, NotIdempotent).unwrap().is_again());
/// let late = RequestError::new(RequestErrorKind::TimedOut);
/// assert!(!nats::error(&late, NotIdempotent).unwrap().is_again());
/// ```
#[must_use]
pub fn error(error: &(dyn Error + 'static), idempotency: Idempotency) -> Option<Verdict> {
    rule(error, MOST_SOURCES).map(|rule| rule.verdict(idempotency))
}

/// The client wraps an error three times at most.
const MOST_SOURCES: usize = 8;

fn rule(error: &(dyn Error + 'static), sources: usize) -> Option<Rule> {
    let said = said(error)?;
    Some(match said {
        Said::Kind(name) => kind_rule(name)?,
        Said::Connect(name) => connect_rule(name)?,
        Said::Api(error) => return api(&error),
        Said::Caller => never(Healthy),
        Said::Other => match error.source() {
            // An answer with a code that is not in the table has no verdict.
            Some(source) if source.is::<jetstream::Error>() => return rule(source, 0),
            Some(source) if sources > 0 => rule(source, sources - 1).unwrap_or(DOUBT),
            _ => DOUBT,
        },
    })
}

classifies!(
    async_nats::ConnectError, async_nats::PublishError, async_nats::RequestError,
    async_nats::client::FlushError, PublishError, RequestError, CreateStreamError, GetStreamError,
    ConsumerError, ConsumerInfoError => error, word
);

/// Returns the kind, or the number of an answer of JetStream.
fn word(error: &(dyn Error + 'static)) -> Option<Cow<'static, str>> {
    let known = iter::successors(Some(error), |error| (*error).source()).take(MOST_SOURCES);
    known.map_while(said).find_map(|said| match said {
        Said::Kind(name) | Said::Connect(name) => Some(Cow::Borrowed(name)),
        Said::Api(error) => Some(error.error_code().0.to_string().into()),
        Said::Caller | Said::Other => None,
    })
}

/// Nobody knows whether the request arrived.
const DOUBT: Rule = if_idempotent(Failing);

fn api(error: &jetstream::Error) -> Option<Rule> {
    api_rule(u16::try_from(error.error_code().0).ok()?)
}

/// The statement of an error of the client.
enum Said {
    /// A kind of a request or of a publish, by its name in the table.
    Kind(&'static str),
    /// A kind of `connect`, by its name in the table.
    Connect(&'static str),
    /// An answer of JetStream.
    Api(jetstream::Error),
    /// The caller made a mistake.
    Caller,
    /// The source may say more.
    Other,
}

/// Returns what the client's own type says. `None` for another type.
fn said(error: &(dyn Error + 'static)) -> Option<Said> {
    if let Some(error) = error.downcast_ref::<PublishError>() {
        return Some(publish(error.kind()));
    }
    if let Some(error) = error.downcast_ref::<async_nats::RequestError>() {
        use async_nats::RequestErrorKind as Kind;
        return Some(match error.kind() {
            Kind::TimedOut => Said::Kind("TimedOut"),
            Kind::NoResponders => Said::Kind("NoResponders"),
            Kind::InvalidSubject => Said::Kind("InvalidSubject"),
            Kind::MaxPayloadExceeded => Said::Kind("MaxPayloadExceeded"),
            Kind::Other => Said::Other,
        });
    }
    if let Some(error) = error.downcast_ref::<async_nats::PublishError>() {
        use async_nats::client::PublishErrorKind as Kind;
        return Some(Said::Kind(match error.kind() {
            Kind::MaxPayloadExceeded => "MaxPayloadExceeded",
            Kind::InvalidSubject => "InvalidSubject",
            Kind::Send => "Send",
        }));
    }
    if let Some(error) = error.downcast_ref::<async_nats::ConnectError>() {
        return Some(connected(error.kind()));
    }
    if error.is::<async_nats::client::FlushError>() {
        return Some(Said::Other);
    }
    management(error)
}

fn publish(kind: PublishErrorKind) -> Said {
    Said::Kind(match kind {
        PublishErrorKind::StreamNotFound => "StreamNotFound",
        PublishErrorKind::WrongLastMessageId => "WrongLastMessageId",
        PublishErrorKind::WrongLastSequence => "WrongLastSequence",
        PublishErrorKind::TimedOut => "TimedOut",
        PublishErrorKind::BrokenPipe => "BrokenPipe",
        PublishErrorKind::MaxAckPending => "MaxAckPending",
        PublishErrorKind::MaxPayloadExceeded => "MaxPayloadExceeded",
        PublishErrorKind::Other => return Said::Other,
    })
}

fn connected(kind: ConnectErrorKind) -> Said {
    Said::Connect(match kind {
        ConnectErrorKind::ServerParse => "ServerParse",
        ConnectErrorKind::Dns => "Dns",
        ConnectErrorKind::Authentication => "Authentication",
        ConnectErrorKind::AuthorizationViolation => "AuthorizationViolation",
        ConnectErrorKind::TimedOut => "TimedOut",
        ConnectErrorKind::Tls => "Tls",
        ConnectErrorKind::Io => "Io",
        ConnectErrorKind::MaxReconnects => "MaxReconnects",
    })
}

/// The errors of requests that manage JetStream.
fn management(error: &(dyn Error + 'static)) -> Option<Said> {
    if let Some(error) = error.downcast_ref::<jetstream::Error>() {
        return Some(Said::Api(error.clone()));
    }
    if let Some(error) = error.downcast_ref::<RequestError>() {
        return Some(match error.kind() {
            RequestErrorKind::NoResponders => Said::Kind("NoResponders"),
            RequestErrorKind::TimedOut => Said::Kind("TimedOut"),
            RequestErrorKind::InvalidSubject => Said::Kind("InvalidSubject"),
            RequestErrorKind::Other => Said::Other,
        });
    }
    if let Some(error) = error.downcast_ref::<CreateStreamError>() {
        use CreateStreamErrorKind as Kind;
        return Some(match error.kind() {
            Kind::JetStream(error) => Said::Api(error),
            Kind::JetStreamUnavailable => Said::Kind("NoResponders"),
            Kind::TimedOut => Said::Kind("TimedOut"),
            Kind::Response | Kind::ResponseParse => Said::Other,
            Kind::EmptyStreamName
            | Kind::InvalidStreamName
            | Kind::DomainAndExternalSet
            | Kind::NotFound => Said::Caller,
        });
    }
    if let Some(error) = error.downcast_ref::<GetStreamError>() {
        use GetStreamErrorKind as Kind;
        return Some(match error.kind() {
            Kind::JetStream(error) => Said::Api(error),
            Kind::Request => Said::Other,
            Kind::EmptyName | Kind::InvalidStreamName => Said::Caller,
        });
    }
    if let Some(error) = error.downcast_ref::<ConsumerError>() {
        use ConsumerErrorKind as Kind;
        return Some(match error.kind() {
            Kind::JetStream(error) => Said::Api(error),
            Kind::TimedOut => Said::Kind("TimedOut"),
            Kind::Request | Kind::Other => Said::Other,
            Kind::InvalidConsumerType | Kind::InvalidName => Said::Caller,
        });
    }
    let error = error.downcast_ref::<ConsumerInfoError>()?;
    Some(consumer_info(error.kind()))
}

fn consumer_info(kind: ConsumerInfoErrorKind) -> Said {
    use ConsumerInfoErrorKind as Kind;
    match kind {
        Kind::JetStream(error) => Said::Api(error),
        Kind::TimedOut => Said::Kind("TimedOut"),
        Kind::NoResponders => Said::Kind("NoResponders"),
        Kind::Request | Kind::Offline => Said::Other,
        Kind::InvalidName | Kind::NotFound | Kind::StreamNotFound => Said::Caller,
    }
}
