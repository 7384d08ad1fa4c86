use std::error::Error;
use std::sync::Arc;
use std::{io, iter};

use super::told::Told;

/// The longest chain that is read. A chain has an end, but its links are foreign code.
const LONGEST: usize = 64;

/// The words with which connectors say that there was no connection yet, or no end of its handshake:
/// those of `hyper-util`, of `hyper` 0.14 and of `tokio-rustls`.
const CONNECTING: [&str; 4] =
    ["client error (Connect)", "tcp connect error", "error trying to connect", "tls handshake eof"];

/// Returns true if the request surely was not sent, so any request may be sent again.
///
/// Reads `error` and the chain of its sources, also through an `io::Error` in an `io::Error`. The
/// evidence is one of these:
///
/// * an `io::Error`: the connection was refused, the machine has no port or no file left
///   (`AddrNotAvailable`, too many open files), or the name lookup failed. The standard library
///   keeps no code of a failed lookup, so its words count
/// * the words of a connector: "client error (Connect)" and "tcp connect error" of `hyper-util`,
///   "error trying to connect" of `hyper` 0.14, "tls handshake eof" of `tokio-rustls`
///
/// False means that nobody knows. An error that may follow a request, such as a reset or a timeout,
/// takes the value from evidence deeper in the chain. The function judges the error and not the
/// operation: if that makes several requests, the failed one may be the second.
///
/// True does not mean that a repetition helps: a name that does not exist was not sent to either.
///
/// # Examples
///
/// ```
/// use resile::io::never_sent;
/// use std::io::{Error, ErrorKind};
///
/// let refused = Error::other(Error::from(ErrorKind::ConnectionRefused));
/// assert!(never_sent(&refused));
/// let reset = Error::other(Error::from(ErrorKind::ConnectionReset));
/// assert!(!never_sent(&reset));
/// ```
#[must_use]
pub fn never_sent(error: &(dyn Error + 'static)) -> bool {
    let mut is_proved = false;
    for link in links(error) {
        if is_connecting(&link.to_string()) {
            return true;
        }
        match Told::of(link) {
            Some(told) if told.is_maybe_sent() => return false,
            Some(told) if told.is_before_sending() => is_proved = true,
            _ => {}
        }
    }
    is_proved
}

/// Returns a word for an error of any type, by the `io::Error` in the chain of its sources: `refused`,
/// `connection_lost`, `timeout`, `name_lookup` and others.
///
/// It is the word of the error that decides the verdict of [`Classifier`](super::Classifier). Without such
/// an error there is none. A classifier of your own returns it from
/// [`error_type`](crate::Classify::error_type).
///
/// # Examples
///
/// ```
/// use resile::io::error_type;
/// use std::io::{Error, ErrorKind};
///
/// let wrapped = Error::other(Error::from(ErrorKind::BrokenPipe));
/// assert_eq!(error_type(&wrapped), Some("connection_lost"));
/// assert_eq!(error_type(&Error::other("words")), None);
/// ```
#[must_use]
pub fn error_type(error: &(dyn Error + 'static)) -> Option<&'static str> {
    told(error).map(Told::as_str)
}

/// Returns what the chain tells: its first error that tells something. Garbled bytes often come from a
/// broken connection, so they yield to an error deeper in the chain.
pub(super) fn told(error: &(dyn Error + 'static)) -> Option<Told> {
    let mut all = links(error).filter_map(Told::of);
    let first = all.next()?;
    if first == Told::Garbled {
        all.find(|told| *told != first).or(Some(first))
    } else {
        Some(first)
    }
}

/// Returns the errors of the chain, the outermost one first.
fn links<'e>(error: &'e (dyn Error + 'static)) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    iter::successors(Some(bare(error)), |error| below(*error).map(bare)).take(LONGEST)
}

/// Returns the next error of the chain. The `source` of an `io::Error` is that of the error in it, so
/// it would leave out that one.
fn below<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e (dyn Error + 'static)> {
    match error.downcast_ref::<io::Error>() {
        Some(error) => error.get_ref().map(|inner| inner as &(dyn Error + 'static)),
        None => error.source(),
    }
}

/// Returns the error in an `Arc` or a `Box`. The source of these is that of the error in them, so it
/// would leave out that one. The client `redis` has such a link.
fn bare<'e>(error: &'e (dyn Error + 'static)) -> &'e (dyn Error + 'static) {
    if let Some(shared) = error.downcast_ref::<Arc<dyn Error + Send + Sync>>() {
        return &**shared;
    }
    if let Some(shared) = error.downcast_ref::<Arc<io::Error>>() {
        return &**shared;
    }
    match error.downcast_ref::<Box<io::Error>>() {
        Some(boxed) => &**boxed,
        None => error,
    }
}

/// Returns whether the words are those of a connector, alone or before the words of the source.
fn is_connecting(text: &str) -> bool {
    CONNECTING.iter().any(|words| {
        text.strip_prefix(words).is_some_and(|rest| rest.is_empty() || rest.starts_with(": "))
    })
}
