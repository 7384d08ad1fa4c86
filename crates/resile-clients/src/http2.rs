//! HTTP/2: the codes of frames that the *peer* sent. A reset that the own side sent shows nothing about
//! the upstream, so ask the error first, such as `h2::Error::is_remote`.

use resile::Verdict;

use crate::Idempotency;
use crate::rule::State::{Failing, Healthy, Overload, Unknown};
use crate::rule::{Rule, always, if_idempotent, never};

/// Returns the verdict on a stream that the peer reset with this code.
///
/// # Examples
///
/// ```
/// use resile_clients::{Idempotency::NotIdempotent, http2};
///
/// let refused = http2::reset(7, NotIdempotent).unwrap();
/// assert!(refused.is_again()); // REFUSED_STREAM: not processed
/// ```
#[must_use]
pub fn reset(code: u32, idempotency: Idempotency) -> Option<Verdict> {
    match code {
        0 => None,
        7 => Some(always(Healthy)),
        _ => rule(code),
    }
    .map(|rule| rule.whole(idempotency))
}

/// Returns the verdict on a stream that ended by a GOAWAY of the peer with this code. `unprocessed`
/// says that the stream is above the last one of the frame, so the peer did not process it.
///
/// # Examples
///
/// ```
/// use resile_clients::{Idempotency::NotIdempotent, http2};
///
/// let closed = http2::goaway(0, true, NotIdempotent).unwrap();
/// assert!(closed.is_again());
/// let closed = http2::goaway(0, false, NotIdempotent).unwrap();
/// assert!(!closed.is_again());
/// ```
#[must_use]
pub fn goaway(code: u32, unprocessed: bool, idempotency: Idempotency) -> Option<Verdict> {
    match code {
        0 if unprocessed => Some(always(Healthy)),
        0 | 7 => Some(if_idempotent(Failing)),
        _ => rule(code),
    }
    .map(|rule| rule.whole(idempotency))
}

const fn rule(code: u32) -> Option<Rule> {
    Some(match code {
        1..=6 | 8 | 9 => if_idempotent(Failing),
        11 => if_idempotent(Overload),
        10 | 12 | 13 => never(Unknown),
        _ => return None,
    })
}

/// Returns the verdict on a frame of the peer. `h2` reports a GOAWAY without an error only to streams
/// above its last one.
#[cfg(any(feature = "hyper-1", feature = "tonic-0_14"))]
pub(crate) fn frame(error: &h2::Error, idempotency: Idempotency) -> Option<Verdict> {
    let reason = error.reason().filter(|_| error.is_remote())?.into();
    if error.is_reset() { reset(reason, idempotency) } else { goaway(reason, true, idempotency) }
}
