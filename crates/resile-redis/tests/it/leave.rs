//! Members that leave, and members that die.

use std::time::Duration;

use resile::Never;
use resile::fleet::State;
use resile_redis::{Fleet, JoinError};
use tokio::time::{Instant, sleep};

use crate::crew::{Mate, all_share, limited, until};
use crate::server::Server;

/// A limit that does not refill within a test.
fn scarce() -> resile::Upstream {
    use resile::quota::Rate;
    use resile::{Quota, Upstream};
    Upstream::new("scarce").with_quota(Quota::new().with_requests(Rate::per_day(20)))
}

/// Takes all that the member can get now. Returns the number of calls.
async fn take(mate: &Mate, most: u32) -> u32 {
    for count in 0..most {
        let call = tokio::time::timeout(Duration::from_secs(5), mate.upstream.admit(Never)).await;
        let Ok(Ok(admission)) = call else { return count };
        admission.succeeded();
    }
    most
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_leaves_gives_its_units_back() {
    let Some(server) = Server::start(&[]) else { return };
    let fleet = Fleet::new(&server.url()).unwrap();
    let (first, second) = (Mate::join(&fleet, scarce()), Mate::join(&fleet, scarce()));
    all_share(&[first.clone(), second.clone()]).await;
    assert_eq!(take(&first, 5).await, 5);
    assert_eq!(fleet.join(std::sync::Arc::clone(&first.upstream)).unwrap_err(), JoinError::Joined);

    first.member.leave().await;
    assert_eq!(first.upstream.fleet(), None);
    let began = Instant::now();
    assert_eq!(take(&second, 15).await, 15, "{:?}", second.member.snapshot());
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());

    // The upstream can join again.
    let again = fleet.join(std::sync::Arc::clone(&first.upstream)).unwrap();
    let is_back = || again.snapshot().state == State::Shared;
    until("the second membership", is_back, || format!("{:?}", again.snapshot())).await;
}

#[test]
fn the_units_of_a_dead_member_come_back() {
    let Some(server) = Server::start(&[]) else { return };
    let runtime = || tokio::runtime::Runtime::new().unwrap();
    let (doomed, other) = (runtime(), runtime());
    // A large demand gets many spare units.
    doomed.block_on(async {
        let mate = Mate::join(&Fleet::new(&server.url()).unwrap(), scarce());
        all_share(std::slice::from_ref(&mate)).await;
        assert_eq!(take(&mate, 4).await, 4);
        sleep(Duration::from_millis(300)).await;
        let held = mate.member.snapshot().leases[0].balance;
        println!("a member died with {held} units");
        assert!(held > 0);
    });
    doomed.shutdown_background(); // nothing is given back
    let began = Instant::now();
    other.block_on(async {
        let mate = Mate::join(&Fleet::new(&server.url()).unwrap(), scarce());
        all_share(std::slice::from_ref(&mate)).await;
        assert_eq!(take(&mate, 16).await, 16, "{:?}", mate.member.snapshot());
    });
    println!("the units of a dead member came back after {:.1?}", began.elapsed());
    assert!(began.elapsed() < Duration::from_secs(5));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_fleet_the_limit_is_that_of_one_process() {
    let Some(server) = Server::start(&[]) else { return };
    let fleet = Fleet::new(&server.url()).unwrap();
    let mate = Mate::join(&fleet, limited(100, 10));
    all_share(std::slice::from_ref(&mate)).await;
    mate.member.leave().await;
    let began = Instant::now();
    assert_eq!(take(&mate, 60).await, 60);
    let took = began.elapsed();
    assert!(took > Duration::from_millis(400) && took < Duration::from_secs(2), "{took:?}");
}
