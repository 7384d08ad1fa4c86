//! One budget for all members.

use std::convert::Infallible;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use resile::{Backoff, Budget, Never, RetryPolicy, Upstream, Verdict, retry};
use resile_redis::Fleet;
use tokio::time::{Instant, sleep};

use crate::crew::{Mate, all_share, until};
use crate::server::Server;

const MEMBERS: u32 = 8;
const CAPACITY: u32 = 10;

fn join(fleet: &Fleet) -> Mate {
    Mate::join(fleet, Upstream::new("paid").with_budget(Budget::new().with_capacity(CAPACITY)))
}

/// Makes failing calls with up to three retries each. Returns the number of retries.
async fn retries(mate: &Mate, calls: u32) -> u32 {
    let attempts = AtomicU32::new(0);
    for _ in 0..calls {
        let policy = RetryPolicy::new()
            .with_attempts(4)
            .with_backoff(Backoff::fixed(Duration::ZERO))
            .with_classifier(|_: &&str| Verdict::transient());
        let operation = |_| async {
            attempts.fetch_add(1, Ordering::Relaxed);
            Err::<Infallible, _>("down")
        };
        let _ = retry(operation, policy, Never).on(&*mate.upstream).await;
        sleep(Duration::from_millis(10)).await;
    }
    attempts.into_inner() - calls
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fleet_retries_as_much_as_one_process() {
    let Some(server) = Server::start(&[]) else { return };
    let crew: Vec<_> = (0..MEMBERS).map(|_| join(&Fleet::new(&server.url()).unwrap())).collect();
    all_share(&crew).await;
    let mut all = 0;
    for mate in &crew {
        all += retries(mate, 40).await;
    }
    println!("{all} retries of {MEMBERS} members at total failure, capacity {CAPACITY}");
    // A few processes that have made their calls hold a token for their next retry.
    assert!((CAPACITY / 2..=CAPACITY).contains(&all), "{all} retries");

    // The successes of one member pay for the retries of another. Each of the others takes one token
    // for its next retry first.
    for _ in 0..100 {
        crew[0].upstream.budget().unwrap().deposit();
    }
    let (mut later, began) = (0, Instant::now());
    while later < CAPACITY - MEMBERS && began.elapsed() < Duration::from_secs(10) {
        later += retries(&crew[1], 5).await;
    }
    assert!(later >= CAPACITY - MEMBERS, "{later} retries");
}

/// Each process had successes before the upstream fails for all of them. A success refills no token that
/// another process holds. A fleet of more processes than tokens has one for each of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn successes_before_an_outage_make_a_fleet_retry_no_more() {
    let Some(server) = Server::start(&[]) else { return };
    for members in [1, 2, 4, 8, 16] {
        let join = |_| {
            let fleet = Fleet::new(&server.url()).unwrap().with_prefix(&format!("of{members}"));
            Mate::join(&fleet, Upstream::new("paid").with_budget(Budget::new()))
        };
        let crew: Vec<_> = (0..members).map(join).collect();
        all_share(&crew).await;
        for _ in 0..200 {
            for mate in &crew {
                mate.upstream.budget().unwrap().deposit();
            }
            sleep(Duration::from_millis(5)).await;
        }
        sleep(Duration::from_millis(1_200)).await; // an exchange of each
        let have = || crew.iter().map(|mate| mate.upstream.budget().unwrap().available());
        assert!(have().all(|tokens| tokens > 0), "{:?}", have().collect::<Vec<_>>());
        let mut all = 0;
        for _ in 0..60 {
            for mate in &crew {
                all += retries(mate, 1).await;
            }
        }
        let most = members.max(Budget::new().capacity());
        println!("{all} retries of {members} members at total failure, at most {most}");
        assert!((most / 2..=most).contains(&all), "{all} retries of {members} members");
    }
}

/// Two calls of one process fail at once, in less time than an exchange takes. Four processes share 16
/// tokens: half of them are with the processes, and the others with the fleet.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failures_within_one_exchange_are_retried_while_the_fleet_has_plenty() {
    let Some(server) = Server::start(&[]) else { return };
    let join = || {
        let budget = Budget::new().with_capacity(16);
        let fleet = Fleet::new(&server.url()).unwrap();
        Mate::join(&fleet, Upstream::new("plenty").with_budget(budget))
    };
    let crew = [join(), join(), join(), join()];
    all_share(&crew).await;
    // Each has the token of its next retry, and the account is full again.
    for _ in 0..100 {
        crew[0].upstream.budget().unwrap().deposit();
    }
    let balance = |mate: &Mate| mate.upstream.budget().unwrap().available();
    let have = || crew.each_ref().map(balance);
    until(
        "two tokens each",
        || have().iter().all(|tokens| *tokens >= 2),
        || format!("{:?}", have()),
    )
    .await;
    // The next exchange still counts the level before the others took theirs.
    sleep(Duration::from_secs(3)).await;
    for _ in 0..15 {
        sleep(Duration::from_millis(100)).await;
        let lasting = have();
        assert!(lasting.iter().all(|tokens| *tokens == 2), "no token goes to and fro: {lasting:?}");
    }
    let withdrawn = (0..3).filter(|_| crew[0].upstream.budget().unwrap().withdraw()).count();
    assert_eq!(withdrawn, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_budget_of_its_own_is_not_shared() {
    let Some(server) = Server::start(&[]) else { return };
    let fleet = Fleet::new(&server.url()).unwrap().with_shared_budget(false);
    let crew = [join(&fleet), join(&Fleet::new(&server.url()).unwrap().with_shared_budget(false))];
    all_share(&crew).await;
    for mate in &crew {
        assert_eq!(retries(mate, 20).await, CAPACITY);
    }
    until("no lease", || crew[0].member.snapshot().leases.is_empty(), String::new).await;
}
