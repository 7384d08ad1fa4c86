use std::borrow::Cow;

use ::opendal_core::{Error, ErrorKind};
use resile::Verdict;
use resile::io::{error_type, never_sent};

use super::{kind, rule};
use crate::Idempotency;
use crate::classifier::classifies;
use crate::rule::State::Unknown;
use crate::rule::{Rule, always, never};

/// Returns the verdict on an error of `opendal`.
///
/// A temporary error is sent again if the operation is idempotent, and a limit of the caller always. A
/// chain of sources that [proves](never_sent) that nothing was sent allows any operation. A persistent
/// error is never sent again: a `RetryLayer` below has tried already.
///
/// A write of a whole object is idempotent. `append`, and a rename or a copy with `if_not_exists`, are not.
///
/// # Examples
///
/// ```
/// use opendal_core::{Error, ErrorKind};
/// use resile_clients::{Idempotency::NotIdempotent, opendal};
///
/// let limited = Error::new(ErrorKind::RateLimited, "slow down").set_temporary();
/// assert!(opendal::error(&limited, NotIdempotent).unwrap().is_again());
/// let gone = Error::new(ErrorKind::NotFound, "no such object");
/// assert!(!opendal::error(&gone, NotIdempotent).unwrap().is_again());
/// ```
#[must_use]
pub fn error(error: &Error, idempotency: Idempotency) -> Option<Verdict> {
    let name = error.kind().into_static();
    if error.is_persistent() {
        let state = rule(name, true).map_or(Unknown, Rule::state);
        return Some(never(state).verdict(idempotency));
    }
    if error.is_temporary() && never_sent(error) {
        let rule = rule(name, true)?;
        return Some(always(rule.state()).verdict(idempotency));
    }
    kind(name, error.is_temporary(), idempotency)
}

classifies!(Error => error, word);

/// Returns the kind. For an unexpected error it is the word for the `io::Error` in it, if there is one.
#[expect(clippy::unnecessary_wraps, reason = "other clients have errors without a word")]
fn word(error: &Error) -> Option<Cow<'_, str>> {
    let kind = error.kind().into_static();
    Some(Cow::Borrowed(match error.kind() {
        ErrorKind::Unexpected => error_type(error).unwrap_or(kind),
        _ => kind,
    }))
}
