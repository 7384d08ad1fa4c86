//! Tests the lines about members that join, leave or die.

use std::time::Duration;

use resile::fleet::State;
use resile_redis::Fleet;
use tokio::runtime::Runtime;
use tokio::time::{Instant, sleep};

use crate::crew::{Mate, all_share, limited, until};
use crate::log::capture_at;
use crate::server::Server;

fn join(server: &Server, name: &str) -> Mate {
    let fleet = Fleet::new(&server.url()).unwrap().with_member_name(name);
    Mate::join(&fleet, limited(100, 10))
}

#[tokio::test]
async fn a_member_that_leaves_or_dies_is_named() {
    let Some(server) = Server::start(&[]) else { return };
    let (lines, _guard) = capture_at(tracing::Level::INFO);
    let crew = ["web-1", "web-2", "web-3"].map(|name| join(&server, name));
    let doomed = Runtime::new().unwrap();
    {
        let _entered = doomed.enter();
        join(&server, "web-4");
    }
    let told = |text: &str| lines.with(text);
    let words = || format!("{:?}", told("fleet"));
    let members = |number: usize| {
        crew[..2].iter().all(|mate| mate.upstream.fleet().unwrap().members as usize == number)
    };
    until("all members", || told("fleet: shared by 4 processes").len() >= 3, words).await;

    crew[2].member.leave().await;
    let left = "INFO message=shared: fleet: left, 3 processes remain upstream=\"shared\" \
                member=\"web-3\" members=3";
    assert_eq!(told("fleet: left"), [left]);
    let snapshot = crew[2].member.snapshot();
    assert!(!snapshot.is_joined && snapshot.leases.is_empty(), "{snapshot:?}");
    assert_eq!((snapshot.state, snapshot.members), (State::Left, 3), "those that remain");
    let began = Instant::now();
    until("the smaller number", || members(3), words).await;
    let line = "fleet: shared by 3 processes, 4 before: web-3 left";
    until("the line", || told(line).len() >= 2, words).await;
    let took = began.elapsed();
    println!("a leave was told after {took:.1?}");
    assert!(took < Duration::from_millis(2_500), "as a join: {took:?}");
    assert!(told(line)[0].contains("members=3 before=4"), "{}", words());

    doomed.shutdown_background(); // nobody hears of it
    let began = Instant::now();
    let line = "fleet: shared by 2 processes, 3 before: ";
    until("the line", || told(line).len() >= 2, words).await;
    // The name is a message, which may come later than the number on a busy machine.
    let lines = told(line);
    assert!(lines.iter().all(|line| line.contains("stopped reporting")), "{lines:?}");
    assert!(lines.iter().any(|line| line.contains("web-4 stopped reporting")), "{lines:?}");
    println!("a death was told after {:.1?}", began.elapsed());
    assert!(began.elapsed() < Duration::from_millis(8_500), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_member_that_joins_is_named() {
    let Some(server) = Server::start(&[]) else { return };
    let (lines, _guard) = capture_at(tracing::Level::INFO);
    let crew = ["web-1", "web-2"].map(|name| join(&server, name));
    let told = |text: &str| lines.with(text);
    let words = || format!("{:?}", told("fleet"));
    until("both members", || told("fleet: shared by 2 processes").len() >= 2, words).await;
    join(&server, "web-3");
    let line = "fleet: shared by 3 processes, 2 before: web-3 joined upstream=";
    until("the line", || told(line).len() >= crew.len(), words).await;
    assert_eq!(told("2 before"), told(line), "each one names it");
}

/// A message is lost if nobody listens, but the server counts the members too.
#[tokio::test]
async fn a_member_that_leaves_an_absent_server_says_so() {
    let Some(mut server) = Server::start(&[]) else { return };
    let (lines, _guard) = capture_at(tracing::Level::INFO);
    let mate = join(&server, "web-1");
    all_share(std::slice::from_ref(&mate)).await;
    server.kill();
    mate.member.leave().await;
    let told = lines.with("fleet: left");
    assert!(told.len() == 1 && told[0].contains("left, the store did not answer"), "{told:?}");
}

/// Calls come in small groups, so the lease of a member is too small now and then, while the fleet has
/// units.
#[tokio::test]
async fn a_fleet_below_its_limit_has_no_quota_that_is_used_up() {
    let Some(server) = Server::start(&[]) else { return };
    let (lines, _guard) = capture_at(tracing::Level::INFO);
    let upstream = || limited(100, 25);
    let crew: Vec<_> =
        (0..3).map(|_| Mate::join(&Fleet::new(&server.url()).unwrap(), upstream())).collect();
    all_share(&crew).await;
    sleep(Duration::from_millis(2_100)).await; // their shares are known
    let mut waits = 0;
    for round in 0..12 {
        for mate in &crew {
            let calls = (0..if round % 3 == 0 { 5 } else { 1 }).map(|_| async {
                let began = Instant::now();
                mate.upstream.admit(resile::Never).await.unwrap().succeeded();
                began.elapsed()
            });
            let took = futures_util::future::join_all(calls).await;
            waits += took.iter().filter(|took| **took > Duration::from_millis(1)).count();
            sleep(Duration::from_millis(90)).await;
        }
    }
    println!("{waits} calls waited for an exchange");
    assert_eq!(lines.with("used up"), [""; 0]);
    // More than the limit is a strain.
    let all = crew.iter().flat_map(|mate| (0..60).map(|_| mate.upstream.admit(resile::Never)));
    let all = all.map(async |admission| admission.await.unwrap().succeeded());
    futures_util::future::join_all(all).await;
    assert_eq!(lines.with("quota used up").len(), 3, "{:?}", lines.with(""));
}

/// Each process sends ten calls a second, and its share is 15 a second. Calls wait while it does not know
/// yet that the server is stopped, and for their first units when it is back.
#[tokio::test]
async fn a_server_that_is_stopped_does_not_use_up_the_quota() {
    let Some(server) = Server::start(&[]) else { return };
    let (lines, _guard) = capture_at(tracing::Level::INFO);
    let crew: Vec<_> =
        (0..4).map(|_| Mate::join(&Fleet::new(&server.url()).unwrap(), limited(60, 15))).collect();
    all_share(&crew).await;
    sleep(Duration::from_millis(2_100)).await; // their shares are known
    let mut calls = tokio::task::JoinSet::new();
    let mut waits = 0;
    for round in 0..90 {
        match round {
            20 => server.stop_signal(),
            50 => server.cont_signal(),
            _ => {}
        }
        for mate in &crew {
            let upstream = std::sync::Arc::clone(&mate.upstream);
            calls.spawn(async move {
                let began = Instant::now();
                let op = |_| async { Ok::<_, std::convert::Infallible>(()) };
                let policy = resile::RetryPolicy::none();
                resile::retry(op, policy, resile::Never).on(&*upstream).await.unwrap();
                began.elapsed()
            });
        }
        sleep(Duration::from_millis(100)).await;
    }
    while let Some(took) = calls.join_next().await {
        waits += usize::from(took.unwrap() > Duration::from_millis(100));
    }
    println!("{waits} calls waited for more than 100 ms");
    assert_eq!(lines.with("safe mode").len(), 4, "{:?}", lines.with(""));
    assert_eq!(lines.with("used up"), [""; 0]);
}
