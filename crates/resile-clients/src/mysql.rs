//! MySQL, MariaDB, TiDB and Galera.
//!
//! The number decides, because the SQLSTATE is `HY000` for most faults. The attempt is the whole
//! transaction. After 1205 and 3572 the server keeps its earlier statements, and the next `BEGIN` on
//! that connection would commit them. So roll back first. A transaction that does so in every case may
//! be called [`Idempotent`](crate::Idempotency::Idempotent) for these codes.
//!
//! An error does not undo everything. A table without transactions, such as one of `MyISAM`, keeps the rows
//! that a statement wrote before it. Outside of a transaction a procedure keeps its earlier statements. So a
//! number without a row has no verdict.

use resile::Verdict;

use crate::Idempotency;
use crate::rule::State::{Failing, Healthy, Overload, OwnLimit, Unknown};
use crate::rule::{Rule, always, if_idempotent, never, refused};

/// Returns the verdict on the number of an error, such as that of `sqlx::mysql::MySqlDatabaseError`.
///
/// # Examples
///
/// ```
/// use resile_clients::{Idempotency::NotIdempotent, mysql};
///
/// let deadlock = mysql::number(1213, NotIdempotent).unwrap();
/// assert!(deadlock.is_again()); // it was rolled back
/// let lost = mysql::number(2013, NotIdempotent).unwrap();
/// assert!(!lost.is_again()); // it may have been committed
/// ```
#[must_use]
pub fn number(number: u16, idempotency: Idempotency) -> Option<Verdict> {
    rule(number).map(|rule| rule.verdict(idempotency))
}

/// Returns the verdict on an error of the server. The number 1226 has two meanings, and its text names
/// the limit: slots pass soon, and a quota of an hour does not.
#[cfg(feature = "sqlx-0_9-mysql")]
pub(crate) fn error(code: u16, message: &str, idempotency: Idempotency) -> Option<Verdict> {
    if code != 1226 {
        return number(code, idempotency);
    }
    let is_slot = message.contains("'max_user_connections'"); // while connecting
    let rule = if is_slot { always(OwnLimit) } else { never(OwnLimit) };
    Some(rule.verdict(idempotency))
}

const fn rule(number: u16) -> Option<Rule> {
    Some(match number {
        // Rolled back. The last three are those of TiDB.
        1213 | 1020 | 3101 | 4031 | 9007 | 8022 | 8028 => always(Healthy),
        // Only the statement is rolled back.
        1205 | 3572 => if_idempotent(Healthy),
        // Never sent, or a node of Galera that is not ready.
        1047 | 2002 | 2003 => always(Failing),
        1040 => always(Overload),
        1203 | 1226 => if_idempotent(OwnLimit),
        // The connection went away.
        1053 | 1079 | 1152 | 1158..=1161 | 1184 | 3168 | 2006 | 2013 | 2055 => {
            if_idempotent(Failing)
        }
        // Read-only after a fail-over, and faults of TiDB.
        1290 | 1836 | 9001 | 9002 | 9005 => if_idempotent(Failing),
        1037 | 1038 | 1041 | 9003 => if_idempotent(Overload),
        1317 | 1969 | 3024 => never(Unknown),
        // While connecting: no access.
        1044 | 1045 | 1049 => refused(Unknown),
        1021 | 1114 | 1206 => never(Failing),
        1792 | 1048 | 1054 | 1062 | 1064 | 1146 | 1451 | 1452 | 1644 | 3819 | 4025 => {
            never(Healthy)
        }
        _ => return None,
    })
}
