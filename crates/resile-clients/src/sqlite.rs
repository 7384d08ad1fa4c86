//! SQLite.
//!
//! Set `busy_timeout` first: it waits better than a retry. But keep it well below the attempt timeout:
//! an attempt that is cut while it waits is not repeated if it is not idempotent, and the error hides
//! the lock.
//!
//! The attempt is the whole transaction. Begin it with `BEGIN IMMEDIATE`, which waits for the lock.
//! A plain `BEGIN` takes the lock only at the first write. If the transaction has read before, SQLite
//! may fail at once instead of waiting for as long as `busy_timeout` says, because what was read may be
//! out of date.

use resile::Verdict;

use crate::Idempotency;
use crate::rule::State::{Failing, Healthy, Unknown};
use crate::rule::{Rule, always, if_idempotent, never};

/// Returns the verdict on a result code, primary or extended. An extended code without a rule of its
/// own has that of its primary code, if the whole family means the same.
///
/// # Examples
///
/// ```
/// use resile::Health;
/// use resile_clients::{Idempotency::NotIdempotent, sqlite};
///
/// let snapshot = sqlite::code(517, NotIdempotent).unwrap();
/// assert!(snapshot.is_again());
/// assert_eq!(snapshot.health(), Health::Healthy);
/// ```
#[must_use]
pub fn code(code: i32, idempotency: Idempotency) -> Option<Verdict> {
    rule(code).map(|rule| rule.verdict(idempotency))
}

const fn rule(code: i32) -> Option<Rule> {
    Some(match code {
        ..=0 => return None,
        15 => always(Healthy),
        7 => if_idempotent(Unknown),
        4 | 516 | 9 => never(Unknown),
        13 | 26 => never(Failing),
        20 | 21 | 25 => never(Healthy),
        _ => match code & 0xff {
            // Nothing was written: BUSY and LOCKED.
            5 | 6 => always(Healthy),
            // IOERR, CORRUPT and CANTOPEN.
            10 | 11 | 14 => never(Failing),
            // ERROR, READONLY and CONSTRAINT.
            1 | 8 | 19 => never(Healthy),
            _ => return None,
        },
    })
}
