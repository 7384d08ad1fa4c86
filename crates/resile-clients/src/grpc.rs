//! gRPC: status codes, the pushback of a server and `google.rpc.RetryInfo`.

#[cfg(feature = "tonic-0_14")]
mod end;
#[cfg(feature = "tonic-0_14")]
mod failure;
#[cfg(feature = "tonic-0_14")]
mod only_call;
#[cfg(feature = "tonic-0_14")]
mod request;
mod retry_info;
#[cfg(feature = "tonic-0_14")]
mod status;

use std::time::Duration;

use resile::Verdict;

use crate::Idempotency;
use crate::rule::State::{Failing, Healthy, Overload, OwnLimit, Unknown};
use crate::rule::{Rule, always, if_idempotent, never};

#[cfg(feature = "tonic-0_14")]
pub use end::to_status;
#[cfg(feature = "tonic-0_14")]
pub use failure::Failure;
#[cfg(feature = "tonic-0_14")]
pub use only_call::to_status_of_only_call;
#[cfg(feature = "tonic-0_14")]
pub use request::{prepare, request};
pub use retry_info::retry_info;
#[cfg(feature = "tonic-0_14")]
pub use status::status;

/// The metadata `grpc-retry-pushback-ms` of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Pushback {
    /// The answer has none.
    #[default]
    None,
    /// The server asks for a retry after this wait.
    After(Duration),
    /// The server asks for no retry: the value is negative or not a number. A call ends as
    /// [`Fatal`](resile::StopReason::Fatal) then, also if the request is idempotent, and its words
    /// [say it](Verdict::not_wanted).
    Stop,
}

impl Pushback {
    /// The name of the metadata.
    pub const NAME: &'static str = "grpc-retry-pushback-ms";

    /// Reads the value of the metadata: milliseconds as a signed number of 32 bits. `None` is an
    /// answer without it.
    #[must_use]
    pub fn read(value: Option<&str>) -> Self {
        let Some(value) = value else { return Self::None };
        let wait = value.parse::<i32>().ok().and_then(|wait| u64::try_from(wait).ok());
        match wait {
            Some(wait) if !value.starts_with('+') => Self::After(Duration::from_millis(wait)),
            _ => Self::Stop,
        }
    }
}

/// Returns the verdict on a status code, with the pushback of the server.
///
/// [The page of the crate](crate#the-codes-of-grpc) has all codes in one table.
///
/// `DEADLINE_EXCEEDED` is final if the attempt had all the time of the call. If its attempt timeout was shorter, the
/// server has ended it by the time that the attempt told, and a call judges the code as a cut by that timeout: it sends
/// an idempotent request again.
///
/// `CANCELLED` is always final: a server that ends a request by its own timeout would end
/// the next one too, and one that a person has cancelled must not come again. It does not say how far
/// the request came, so any that is not idempotent is in [doubt](resile::GaveUp::is_in_doubt). The breaker
/// does not count it, because the server need not be the one that has cancelled.
///
/// After a pushback an idempotent request is sent again whatever the code says. Another request is
/// not, unless its code proves that it was not executed.
///
/// The request was [without effect](Verdict::without_effect) if the server refused it by `INVALID_ARGUMENT`,
/// `NOT_FOUND`, `ALREADY_EXISTS`, `PERMISSION_DENIED`, `FAILED_PRECONDITION`, `UNIMPLEMENTED` or
/// `UNAUTHENTICATED`. With a pushback no code says so. A handler that does a part and then answers with such a
/// code needs a classifier of your own before this function. So does a client that says `UNIMPLEMENTED` of a
/// wrong number of answers, as gRPC allows it and `tonic` does not.
///
/// A request that is not idempotent is in [doubt](resile::GaveUp::is_in_doubt) after each other code that it is not
/// sent again after.
///
/// # Examples
///
/// ```
/// use resile_clients::Idempotency::{Idempotent, NotIdempotent};
/// use resile_clients::grpc::{self, Pushback};
/// use std::time::Duration;
///
/// let pushback = Pushback::read(Some("250"));
/// let busy = grpc::code(14, pushback, Idempotent).unwrap();
/// assert!(busy.is_again());
/// assert_eq!(busy.hint(), Some(Duration::from_millis(250)));
/// let booking = grpc::code(14, Pushback::None, NotIdempotent).unwrap();
/// assert!(!booking.is_again());
/// ```
#[must_use]
pub fn code(code: i32, pushback: Pushback, idempotency: Idempotency) -> Option<Verdict> {
    let verdict = by_code(code, pushback, idempotency)?;
    Some(match (pushback, code) {
        (Pushback::None, 4) => verdict.late(),
        (Pushback::None, code) if is_refusal(code) => verdict.without_effect(),
        _ => verdict,
    })
}

/// Returns the verdict on a code, without what it says of the effect.
fn by_code(code: i32, pushback: Pushback, idempotency: Idempotency) -> Option<Verdict> {
    let rule = rule(code)?;
    Some(match pushback {
        Pushback::None => rule.verdict(idempotency),
        Pushback::Stop => never(Overload).verdict(idempotency).not_wanted(),
        Pushback::After(wait) => {
            let again = if rule.is_always() { rule } else { if_idempotent(Overload) };
            again.with(Overload).verdict(idempotency).after(wait)
        }
    })
}

/// Returns the verdict on a status with `google.rpc.RetryInfo` in its details: the server says when
/// the same request may come again. With `RESOURCE_EXHAUSTED` and `ABORTED` it also says that it has refused
/// this one, so the request was [without effect](Verdict::without_effect).
///
/// # Examples
///
/// ```
/// use resile_clients::{Idempotency::NotIdempotent, grpc};
/// use std::time::Duration;
///
/// let second = Duration::from_secs(1);
/// let limited = grpc::with_retry_info(8, second, NotIdempotent).unwrap();
/// assert!(limited.is_again() && limited.is_own_limit());
/// assert_eq!(limited.hint(), Some(second));
/// ```
#[must_use]
pub fn with_retry_info(code: i32, delay: Duration, idempotency: Idempotency) -> Option<Verdict> {
    let verdict = by_retry_info(code, delay, idempotency)?;
    let is_refused = is_refusal(code) || matches!(code, 8 | 10);
    Some(if is_refused { verdict.without_effect() } else { verdict })
}

/// Returns the verdict on a code with a delay, without what they say of the effect.
fn by_retry_info(code: i32, delay: Duration, idempotency: Idempotency) -> Option<Verdict> {
    let rule = match code {
        8 => always(OwnLimit),
        10 => always(Healthy),
        _ => rule(code)?,
    };
    let verdict = rule.verdict(idempotency);
    Some(if verdict.is_again() { verdict.after(delay) } else { verdict })
}

/// Returns the name of a status code as the specification of gRPC spells it. An unknown code has none.
///
/// # Examples
///
/// ```
/// use resile_clients::grpc;
///
/// assert_eq!(grpc::name(14), Some("UNAVAILABLE"));
/// ```
#[must_use]
pub const fn name(code: i32) -> Option<&'static str> {
    Some(match code {
        0 => "OK",
        1 => "CANCELLED",
        2 => "UNKNOWN",
        3 => "INVALID_ARGUMENT",
        4 => "DEADLINE_EXCEEDED",
        5 => "NOT_FOUND",
        6 => "ALREADY_EXISTS",
        7 => "PERMISSION_DENIED",
        8 => "RESOURCE_EXHAUSTED",
        9 => "FAILED_PRECONDITION",
        10 => "ABORTED",
        11 => "OUT_OF_RANGE",
        12 => "UNIMPLEMENTED",
        13 => "INTERNAL",
        14 => "UNAVAILABLE",
        15 => "DATA_LOSS",
        16 => "UNAUTHENTICATED",
        _ => return None,
    })
}

/// Returns whether a server has refused a request with this code before it executed the request. The library
/// gives the other codes to requests that were executed too. `tonic` gives `OUT_OF_RANGE` to an answer that is
/// too large, and `ABORTED` is also the code of a connection that a handler lost. It gives `UNIMPLEMENTED` to a
/// compression that it does not know, which its words tell, and to the 404 of a proxy.
/// Source: gRPC, `statuscodes.md`.
const fn is_refusal(code: i32) -> bool {
    matches!(code, 3 | 5 | 6 | 7 | 9 | 12 | 16)
}

const fn rule(code: i32) -> Option<Rule> {
    Some(match code {
        // A server that ends its own handler answers so too, after the handler has worked.
        1 => never(Unknown).in_doubt(),
        2 | 13 | 14 => if_idempotent(Failing),
        4 | 15 => never(Failing),
        8 => if_idempotent(Overload),
        3 | 5 | 6 | 7 | 9 | 12 | 16 => never(Healthy),
        // The server works, but it may have kept a part.
        10 | 11 => never(Healthy).in_doubt(),
        _ => return None,
    })
}
