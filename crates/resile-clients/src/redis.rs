//! Redis and Valkey.
//!
//! `INCR`, `APPEND`, `LPUSH`, `LPOP`, `SPOP`, `PUBLISH`, `XADD` without an id, `SET NX` as a lock and
//! scripts are not idempotent. A lock with a token in it is: compare the token after the retry.

#[cfg(feature = "redis-1")]
mod error;

use resile::Verdict;

use crate::Idempotency;
use crate::rule::State::{Failing, Healthy, Overload, Unknown};
use crate::rule::{Rule, always, if_idempotent, never};

#[cfg(feature = "redis-1")]
pub use error::error;

/// Returns the verdict on an error reply. Its first word is the code. The rest counts only for
/// `ERR max number of clients reached`.
///
/// # Examples
///
/// ```
/// use resile_clients::{Idempotency::NotIdempotent, redis};
///
/// let reply = "LOADING Redis is loading the dataset in memory";
/// assert!(redis::prefix(reply, NotIdempotent).unwrap().is_again());
/// ```
#[must_use]
pub fn prefix(reply: &str, idempotency: Idempotency) -> Option<Verdict> {
    rule(reply).map(|rule| rule.verdict(idempotency))
}

fn rule(reply: &str) -> Option<Rule> {
    if reply.starts_with("ERR max number of clients reached") {
        return Some(always(Overload)); // while connecting
    }
    Some(match reply.split(' ').next()? {
        // Not executed.
        "LOADING" | "CLUSTERDOWN" | "MASTERDOWN" | "READONLY" | "UNBLOCKED" | "NOREPLICAS"
        | "INPROG" | "NOGOODSLAVE" => always(Failing),
        "TRYAGAIN" => always(Healthy),
        "BUSY" => always(Overload),
        "OOM" => if_idempotent(Overload),
        "MISCONF" => never(Failing),
        "MOVED" | "ASK" | "NOSCRIPT" | "EXECABORT" | "CROSSSLOT" | "WRONGTYPE" | "NOTBUSY"
        | "NOSUB" | "ERR" => never(Healthy),
        "NOAUTH" | "WRONGPASS" | "NOPERM" => never(Unknown),
        _ => return None,
    })
}
