//! The delays of a stream of `rmcp`.

use std::time::Duration;

use resile_clients::mcp::Reconnect;
use resile_clients::resile::{Backoff, Jitter};
use rmcp::transport::common::client_side_sse::{ExponentialBackoff, SseRetryPolicy};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_mins(1);

/// The policy of the client itself has neither a cap nor jitter by default.
#[test]
fn the_own_policy_of_the_client_waits_for_hours() {
    let own = ExponentialBackoff::default();
    assert!(
        own.retry(12) > Some(Duration::from_hours(1)),
        "the client has a cap now, so the docs of `mcp::Reconnect` are out of date",
    );
    assert_eq!(own.retry(5), own.retry(5));
}

#[test]
fn no_delay_is_above_the_cap_and_each_is_drawn() {
    let backoff = Backoff::exponential(SECOND).with_cap(MINUTE);
    let policy = Reconnect::new(backoff);
    for failures in (0..100).chain([usize::MAX - 1, usize::MAX]) {
        let delay = policy.retry(failures).unwrap();
        assert!(delay <= MINUTE, "{failures}: {delay:?}");
    }
    let delays: Vec<_> = (0..20).map(|_| policy.retry(50)).collect();
    assert!(delays.iter().any(|delay| *delay != delays[0]), "{delays:?}");
}

#[test]
fn the_delays_are_those_of_the_backoff() {
    let plain = Backoff::exponential(SECOND).with_cap(MINUTE).with_jitter(Jitter::None);
    let policy = Reconnect::new(plain);
    let delays: Vec<_> = (0..8).filter_map(|failures| policy.retry(failures)).collect();
    assert_eq!(delays, plain.schedule().take(8).collect::<Vec<_>>());
}

#[test]
fn the_stream_ends_after_so_many_failures() {
    let policy = Reconnect::new(Backoff::fixed(SECOND)).with_most(2);
    assert_eq!(policy.retry(0), Some(SECOND));
    assert_eq!(policy.retry(1), Some(SECOND));
    assert_eq!(policy.retry(2), None);
    assert_eq!(policy.retry(usize::MAX), None);
    assert_eq!(policy.with_most(0).retry(0), None);
}
