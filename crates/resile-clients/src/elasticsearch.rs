//! Elasticsearch and OpenSearch.
//!
//! `_search`, `_msearch`, `_count` and `_mget` are `POST`s that are idempotent. An index request with an
//! `_id` and `op_type=create` is too.

use resile::Verdict;

use crate::Idempotency;
use crate::rule::State::{Failing, Healthy, Overload};
use crate::rule::{Rule, always, if_idempotent, never};

/// Returns the verdict on a status and the `type` of the error in the body. In the answer to a bulk
/// request each item has its own.
///
/// # Examples
///
/// ```
/// use resile_clients::{Idempotency::NotIdempotent, elasticsearch};
///
/// let kind = "es_rejected_execution_exception";
/// let full = elasticsearch::error(429, kind, NotIdempotent).unwrap();
/// assert!(full.is_again());
/// ```
#[must_use]
pub fn error(status: u16, kind: &str, idempotency: Idempotency) -> Option<Verdict> {
    rule(status, kind).map(|rule| rule.verdict(idempotency))
}

fn rule(status: u16, kind: &str) -> Option<Rule> {
    Some(match (status, kind) {
        (429, "es_rejected_execution_exception") => always(Overload),
        (429, "circuit_breaking_exception") => if_idempotent(Overload),
        (502..=504, _) => if_idempotent(Failing),
        (403, "cluster_block_exception") => never(Failing), // the disk is full
        (409, "version_conflict_engine_exception") | (400 | 401 | 403 | 404, _) => never(Healthy),
        _ => return None,
    })
}
