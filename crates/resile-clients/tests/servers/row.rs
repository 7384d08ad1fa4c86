//! The row of the data file for an error that a test provokes.

#![allow(dead_code, reason = "the hooks have no rows")]

use std::time::Duration;

use super::data::{Says, rows};

/// The time for one test with its server.
const BOUND: Duration = Duration::from_secs(90);

/// Returns what a row says. `tests/clients/provoked.rs` names the test that asks.
///
/// # Panics
///
/// Panics if there is no such row, or if its evidence is neither a real server nor a real client.
#[expect(clippy::unnecessary_wraps, reason = "`says` returns such a type")]
pub(crate) fn row(family: &str, code: &str) -> Option<Says> {
    let rows = rows();
    let row = rows.iter().find(|row| row.family == family && row.code == code);
    let row = row.unwrap_or_else(|| panic!("no row {family} {code} in `data/errors.csv`"));
    let evidence = ["real-server", "real-client"];
    assert!(evidence.contains(&row.evidence), "{family} {code} in `data/errors.csv`");
    Some(row.says)
}

/// Runs a test, which waits for a server, within a bound.
pub(crate) async fn within<T>(test: impl Future<Output = T>) -> T {
    tokio::time::timeout(BOUND, test).await.expect("the server did not answer in time")
}
