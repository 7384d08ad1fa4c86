//! Calls that do not wait.

use std::time::Duration;

use resile::quota::{Cost, Rate};
use resile::{Quota, Upstream};
use resile_redis::Fleet;

use crate::crew::{Mate, all_share};
use crate::server::Server;

/// Calls that do not wait get units too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_do_not_wait_are_admitted() {
    let Some(server) = Server::start(&[]) else { return };
    let rate = Rate::per_second(1_000);
    let quota = Quota::new().with_requests(rate).with_tokens(rate).with_queue(0);
    let upstream = Upstream::new("impatient").with_quota(quota);
    let mate = Mate::join(&Fleet::new(&server.url()).unwrap(), upstream);
    all_share(std::slice::from_ref(&mate)).await;
    let cost = Cost::input(50).with_max_output(0);
    let mut admitted = 0;
    for _ in 0..100 {
        if let Ok(admission) = mate.upstream.at_cost(cost).try_admit() {
            admission.succeeded();
            admitted += 1;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    println!("{admitted} of 100 calls that do not wait were admitted, 60 fit");
    assert!(admitted >= 30, "{admitted}, {:?}", mate.member.snapshot());
}
