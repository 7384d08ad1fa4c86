//! Limits that differ, and limits that one member has learned.

use std::time::Duration;

use resile::fleet::State;
use resile::quota::{Dimension, Limit, Limits};
use resile::{Cooldown, Verdict};
use resile_redis::Fleet;
use tokio::time::sleep;

use crate::crew::{Load, Mate, all_share, limited, until};
use crate::log::capture_at;
use crate::server::Server;

const SECOND: Duration = Duration::from_secs(1);

async fn calls_a_second(load: &Load) -> f64 {
    let from = load.now();
    sleep(2 * SECOND).await;
    let to = load.now();
    load.times().between(from, to).count() / to.saturating_sub(from).as_secs_f64()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_members_use_the_lowest_limit_and_what_one_has_learned() {
    let Some(server) = Server::start(&[]) else { return };
    let fleet = || Fleet::new(&server.url()).unwrap();
    let crew: Vec<_> = [(100, 20), (100, 20), (1_000, 200)]
        .into_iter()
        .map(|(limit, burst)| Mate::join(&fleet(), limited(limit, burst)))
        .collect();
    all_share(&crew).await;
    let used = |mate: &Mate| mate.upstream.quota_rate(Dimension::Requests).unwrap().count();
    let words = || format!("{:?}", crew.iter().map(used).collect::<Vec<_>>());
    until("the lowest limit", || crew.iter().all(|mate| used(mate) == 100), words).await;
    let mut load = Load::new();
    for mate in &crew {
        load.add(mate, 4);
    }
    sleep(2 * SECOND).await;
    let calls = calls_a_second(&load).await;
    assert!((90.0..110.0).contains(&calls), "{calls}");

    // The provider tells one of them that the limit is 50 a second.
    let limits = Limits::new().with(Dimension::Requests, Limit::of(50, Some(SECOND)));
    let mut told = crew[0].upstream.admit(resile::Never).await.unwrap();
    told.learn(limits);
    told.succeeded();
    until("the learned limit", || crew.iter().all(|mate| used(mate) == 50), words).await;
    sleep(SECOND).await;
    let calls = calls_a_second(&load).await;
    assert!((45.0..55.0).contains(&calls), "{calls}");
}

/// The end of a deployment, say.
#[tokio::test]
async fn members_that_have_the_same_limit_again_say_so() {
    let Some(server) = Server::start(&[]) else { return };
    let (lines, _guard) = capture_at(tracing::Level::INFO);
    let fleet = Fleet::new(&server.url()).unwrap();
    let [high, low] = [(100, "web-1"), (50, "web-2")]
        .map(|(limit, name)| Mate::join(&fleet.clone().with_member_name(name), limited(limit, 10)));
    let words = || format!("{:#?}", lines.with("fleet"));
    let differ = "fleet: the members have different limits of requests: this one 100 a second, \
                  member web-2 50, and all use the lower one";
    until("the difference", || !lines.with(differ).is_empty(), words).await;
    low.member.leave().await;
    let again = || lines.with("fleet: the members have the same limit of requests again");
    until("the same limit", || !again().is_empty(), words).await;
    sleep(2 * SECOND).await;
    let told = again();
    assert!(told.len() == 1 && told[0].starts_with("INFO "), "{}", words());
    assert!(told[0].contains("again, 100 a second, after "), "{}", words());
    assert_eq!(lines.with(differ).len(), 1, "{}", words());
    drop(high);
}

/// All members hear the same headers, but operators need one line.
#[tokio::test]
async fn a_limit_that_is_too_high_is_a_warning_of_one_member() {
    let Some(server) = Server::start(&[]) else { return };
    let (lines, _guard) = capture_at(tracing::Level::DEBUG);
    let join = |_| Mate::join(&Fleet::new(&server.url()).unwrap(), limited(100, 20));
    let crew: Vec<_> = (0..4).map(join).collect();
    all_share(&crew).await;
    let hears = |count| {
        for mate in &crew {
            let limits = Limits::new().with(Dimension::Requests, Limit::of(count, Some(SECOND)));
            let mut told = mate.upstream.try_admit().unwrap();
            told.learn(limits);
            told.succeeded();
        }
    };
    let used = |mate: &Mate| mate.upstream.quota_rate(Dimension::Requests).unwrap().count();
    let words = || format!("{:?} {:?}", crew.iter().map(used).collect::<Vec<_>>(), lines.with("h"));
    hears(50);
    until("the learned limit", || crew.iter().all(|mate| used(mate) == 50), words).await;
    until("a warning", || !lines.with("WARN").is_empty(), words).await;
    sleep(2 * SECOND).await;
    let warnings = lines.with("WARN");
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    let line = "fleet: the members have learned that the limit of requests is lower, and use 50 of \
                100 a second: correct the setting or its burst";
    assert!(warnings[0].contains(line), "{warnings:?}");
    let all =
        lines.with("fleet: the members use 50 of 100 a second of requests, as one of them tells");
    assert_eq!(all.len(), 4, "{}", words());
    assert!(all.iter().all(|line| line.starts_with("DEBUG")), "{all:?}");
    let own = lines.with("quota too high: the upstream reports 50 requests");
    assert!(!own.is_empty() && own.iter().all(|line| line.starts_with("DEBUG")), "{own:?}");
}

/// What it has learned alone may be the calls of processes that it does not know.
#[tokio::test]
async fn a_process_that_has_learned_alone_tells_that_it_uses_the_limit_of_the_fleet_again() {
    let Some(mut server) = Server::start(&[]) else { return };
    server.kill();
    let (lines, _guard) = capture_at(tracing::Level::INFO);
    let upstream = limited(100, 10).with_cooldown(Cooldown::new());
    let mate = Mate::join(&Fleet::new(&server.url()).unwrap(), upstream);
    let words = || format!("{:#?} {:?}", lines.with(""), mate.member.snapshot());
    mate.becomes(State::Safe).await;
    let mut refused = None;
    let is_refused = || {
        refused = refused.take().or_else(|| mate.upstream.try_admit().ok());
        refused.is_some()
    };
    until("a unit of its share", is_refused, words).await;
    refused.unwrap().settle(&Verdict::throttled().after(3 * SECOND));
    let own = lines.with("quota too high: the upstream refuses calls below 100 requests");
    assert_eq!(own.len(), 1, "{}", words());
    server.restart();
    let told = || lines.with("fleet: the limit of requests is that of all processes again");
    until("the limit of the fleet", || !told().is_empty(), words).await;
    let line = "again, 100 a second, and no longer the 70 that this one has learned alone";
    assert!(told()[0].starts_with("INFO ") && told()[0].contains(line), "{}", words());
    // Calls that wait are no sign that the provider accepts more.
    mate.becomes(State::Shared).await;
    let mut load = Load::new();
    load.add(&mate, 4);
    sleep(SECOND).await;
    assert_eq!(told().len(), 1, "{}", words());
    assert_eq!(lines.with("quota in use again"), [""; 0], "{}", words());
}
