//! No time of a client reaches the server.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use resile::quota::Rate;
use resile::{Breaker, Budget, Cooldown, Never, Quota, Upstream, Verdict};
use resile_redis::Fleet;
use tokio::time::sleep;

use crate::crew::{Mate, PATIENCE, until};
use crate::proxy::Proxy;
use crate::server::Server;

/// Returns the integers in the text.
fn numbers(bytes: &[u8]) -> Vec<u128> {
    let words = bytes.split(|byte| !byte.is_ascii_digit());
    let words = words.filter_map(|word| std::str::from_utf8(word).ok()?.parse().ok());
    words.collect()
}

/// A client with a clock that is an hour off cannot do harm if it never sends a time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_sends_no_time_of_its_clock() {
    let Some(server) = Server::start(&[]) else { return };
    let proxy = Proxy::start(server.port()).await;
    let fleet = Fleet::new(&proxy.url()).unwrap().with_votes(true);
    let quota = Quota::new().with_requests(Rate::per_second(300));
    let upstream = Upstream::new("shared")
        .with_quota(quota)
        .with_budget(Budget::new())
        .with_breaker(Breaker::new().with_consecutive(1))
        .with_cooldown(Cooldown::new());
    let mate = Mate::join(&fleet, upstream);
    let enough = || mate.member.snapshot().exchanges > 8;
    until("the exchanges", enough, || format!("{:?}", mate.member.snapshot())).await;
    // The next call opens the breaker and holds the others.
    let admission = tokio::time::timeout(PATIENCE, mate.upstream.admit(Never)).await;
    let verdict = Verdict::throttled().after(Duration::from_millis(300));
    admission.unwrap().unwrap().settle(&verdict);
    sleep(Duration::from_millis(1_500)).await;
    mate.member.leave().await;

    let requests = proxy.requests();
    let text = String::from_utf8_lossy(&requests);
    for part in ["members", "quota:requests", "budget", "cooldown", "votes"] {
        assert!(text.contains(&format!("{{shared}}:{part}")), "no request for {part}");
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let numbers = numbers(&requests);
    assert!(numbers.len() > 200, "{} numbers", numbers.len());
    for scale in [1, 1_000, 1_000_000, 1_000_000_000] {
        let now = now.as_nanos() * scale / 1_000_000_000;
        let two_hours = 7_200 * scale;
        let near = numbers.iter().find(|number| number.abs_diff(now) < two_hours);
        assert_eq!(near, None, "near the time {now}");
    }
}
