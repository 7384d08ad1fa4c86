//! PostgreSQL and databases that speak its protocol: CockroachDB, Yugabyte, Aurora.
//!
//! The attempt is the whole transaction, from `BEGIN` with its reads, and never a statement inside.
//! Serialisation failures and locks are contention: use `RetryPolicy::contention()`.

use resile::Verdict;

use crate::Idempotency;
#[cfg(any(feature = "sqlx-0_9-postgres", feature = "tokio-postgres-0_7"))]
use crate::rule::State::OwnLimit;
use crate::rule::State::{Failing, Healthy, Overload, Unknown};
use crate::rule::{Rule, always, if_idempotent, never, refused};

/// Returns the verdict on an SQLSTATE, such as that of `sqlx::error::DatabaseError::code`.
///
/// The server undoes a statement that fails, also outside of a transaction. So a code without a row, such as
/// one that a trigger of the program raises, is final and leaves no doubt, and the server is healthy. The classes
/// `00` to `03`, `08`, `40`, `53`, `57`, `58`, `F0`, `HV`, `HY`, `XX` and `YB` are different: a further code of
/// them is unknown, because the server, a pooler or another system may have failed at any moment.
///
/// A procedure that commits in its middle and then fails has done the first part. No code tells of it.
///
/// A statement that the server cancels (`57014`) is final and in doubt. PostgreSQL undoes it, while
/// CockroachDB gives this code to each statement whose timeout has run out, also if it has committed. So may
/// Yugabyte, whose error is that of PostgreSQL in each field. Before the `COMMIT` of a transaction nothing is
/// kept, whatever the server.
///
/// # Examples
///
/// ```
/// use resile::Health;
/// use resile_clients::{Idempotency, postgres};
///
/// let failed = postgres::sqlstate("40001", Idempotency::NotIdempotent);
/// let failed = failed.unwrap();
/// assert!(failed.is_again()); // it was rolled back
/// assert_eq!(failed.health(), Health::Healthy);
/// ```
#[must_use]
pub fn sqlstate(code: &str, idempotency: Idempotency) -> Option<Verdict> {
    rule(code).or_else(|| undone(code)).map(|rule| verdict(rule, idempotency))
}

/// Returns the verdict of a rule. It says so if the server has kept nothing.
fn verdict(rule: Rule, idempotency: Idempotency) -> Verdict {
    let verdict = rule.verdict(idempotency);
    if rule.is_undone() { verdict.without_effect() } else { verdict }
}

/// Returns the verdict on an SQLSTATE with a row, for a code that may be one of another database.
#[cfg(feature = "sqlx-0_9")]
pub(crate) fn known(code: &str, idempotency: Idempotency) -> Option<Verdict> {
    rule(code).map(|rule| rule.verdict(idempotency))
}

/// Returns the verdict on an error of the server. The name of the function that reported it tells more
/// than the code, and no language changes it.
#[cfg(any(feature = "sqlx-0_9-postgres", feature = "tokio-postgres-0_7"))]
pub(crate) fn error(
    code: &str,
    routine: Option<&str>,
    idempotency: Idempotency,
) -> Option<Verdict> {
    let rule = match (code, routine) {
        // "too many connections for role", while connecting.
        ("53300", Some("InitializeSessionUserId")) => always(OwnLimit),
        // "cached plan must not change result type", before the execution.
        ("0A000", Some("RevalidateCachedQuery")) => always(Healthy),
        _ => return sqlstate(code, idempotency),
    };
    Some(verdict(rule, idempotency))
}

fn is_sqlstate(code: &str) -> bool {
    code.len() == 5 && code.bytes().all(|it| it.is_ascii_digit() || it.is_ascii_uppercase())
}

/// Returns the rule of a code without a row. The server undoes a statement that fails.
fn undone(code: &str) -> Option<Rule> {
    if !is_sqlstate(code) {
        return None;
    }
    match &code[..2] {
        // No errors, and faults of the connection, the server or another system.
        "00" | "01" | "02" | "03" | "08" | "40" | "53" | "57" | "58" | "F0" | "HV" | "HY"
        | "XX" | "YB" => None,
        _ => Some(never(Healthy)),
    }
}

fn rule(code: &str) -> Option<Rule> {
    if !is_sqlstate(code) {
        return None;
    }
    Some(match code {
        // Rolled back: contention, and sessions that were closed while idle.
        "40001" | "40P01" | "55P03" | "57P05" | "25P03" | "25P04" | "72000" => always(Healthy),
        "40000" | "55006" | "26000" => if_idempotent(Healthy),
        "40002" | "57P04" => never(Healthy),
        // Not known whether it was committed.
        "40003" | "08007" | "57P01" | "57P02" | "08000" | "08006" | "08004" => {
            if_idempotent(Failing)
        }
        // A standby after a fail-over, and faults of the server.
        "25006" | "58000" | "58030" | "XX000" => if_idempotent(Failing),
        // Never sent.
        "57P03" | "08001" | "08003" => always(Failing),
        "53300" => always(Overload),
        "53000" | "53200" => if_idempotent(Overload),
        "08P01" | "53100" | "53400" | "XX001" | "XX002" => never(Failing),
        "57014" => never(Unknown).in_doubt(),
        "25P02" => never(Unknown),
        _ => match &code[..2] {
            "0A" | "22" | "23" | "2F" | "3D" | "42" | "P0" => never(Healthy),
            "28" => refused(Unknown),
            _ => return None,
        },
    })
}
