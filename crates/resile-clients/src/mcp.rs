//! MCP and JSON-RPC.
//!
//! `initialize`, `ping`, the lists, `resources/read` and `prompts/get` are idempotent. `tools/call` is
//! only if the annotations of the tool say so and the server is trusted. A result with `isError` is
//! for the model and not for a retry.

#[cfg(feature = "rmcp-3")]
mod reconnect;

use resile::Verdict;

use crate::Idempotency;
use crate::rule::State::{Failing, Healthy};
use crate::rule::{if_idempotent, never};

#[cfg(feature = "rmcp-3")]
pub use reconnect::Reconnect;

/// Returns the verdict on the code of an error.
///
/// # Examples
///
/// ```
/// use resile_clients::{Idempotency::Idempotent, mcp};
///
/// assert!(mcp::code(-32603, Idempotent).unwrap().is_again());
/// assert!(!mcp::code(-32602, Idempotent).unwrap().is_again());
/// ```
#[must_use]
pub fn code(code: i32, idempotency: Idempotency) -> Option<Verdict> {
    match code {
        -32603 => Some(if_idempotent(Failing)),
        -32700 | -32602..=-32600 | -32002 => Some(never(Healthy)),
        _ => None,
    }
    .map(|rule| rule.verdict(idempotency))
}
