//! Members without calls.

use std::ops::Range;
use std::time::Duration;

use redis::from_redis_value;
use resile::fleet::State;
use resile::quota::Rate;
use resile::{Budget, Cooldown, Never, Quota, Upstream};
use resile_redis::Fleet;
use tokio::time::{Instant, sleep};

use crate::crew::{Load, Mate, until};
use crate::scene::run;
use crate::server::Server;

/// The time after which a member without calls rests, and what a busy machine needs besides.
const RESTS_AFTER: Duration = Duration::from_secs(12);

/// The burst of each upstream. Its rate is ten calls a second.
const BURST: u32 = 8;

/// Returns the scripts that the server runs in a second, measured over a time.
#[expect(clippy::cast_precision_loss, reason = "counts of a test are small")]
async fn per_second(server: &Server, time: Duration) -> f64 {
    let (before, began) = (scripts(server).await, Instant::now());
    sleep(time).await;
    (scripts(server).await - before) as f64 / began.elapsed().as_secs_f64()
}

/// Returns the number of scripts that the server has run.
async fn scripts(server: &Server) -> u64 {
    let stats: String =
        from_redis_value(run(server, &["INFO", "commandstats"]).await).unwrap_or_default();
    let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
    line.and_then(|rest| rest.split(',').next()?.parse().ok()).unwrap_or(0)
}

/// Returns fleets that stand for processes.
fn fleets(server: &Server, count: u32) -> Vec<Fleet> {
    (0..count).map(|_| Fleet::new(&server.url()).unwrap()).collect()
}

/// Joins the upstreams with these numbers in each of the fleets.
fn join(fleets: &[Fleet], numbers: Range<u32>) -> Vec<Mate> {
    let upstream = |number: u32| {
        Upstream::named(format!("tenant-{number}"))
            .with_budget(Budget::new())
            .with_cooldown(Cooldown::new())
            .with_quota(
                Quota::new().with_requests(Rate::per_minute(600).with_burst(u64::from(BURST))),
            )
    };
    let places = numbers.flat_map(|number| fleets.iter().map(move |fleet| (fleet, number)));
    places.map(|(fleet, number)| Mate::join(fleet, upstream(number))).collect()
}

async fn all_rest(crew: &[Mate]) -> Duration {
    let all = || crew.iter().all(|mate| mate.member.snapshot().rests);
    until("the rest", all, || {
        let awake: Vec<_> =
            crew.iter().map(|mate| mate.member.snapshot()).filter(|it| !it.rests).collect();
        format!("{} are awake: {:?}", awake.len(), awake.first())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fleet_without_calls_asks_almost_nothing() {
    const FLEETS: u32 = 4;
    const UPSTREAMS: u32 = 25;
    let Some(server) = Server::start(&[]) else { return };
    let crew = join(&fleets(&server, FLEETS), 0..UPSTREAMS);
    sleep(RESTS_AFTER).await;
    let rest = all_rest(&crew).await;
    sleep(Duration::from_secs(2)).await; // the last units go back
    let per_second = per_second(&server, Duration::from_secs(4)).await;
    println!("{} members at rest {rest:.1?} later: {per_second:.1} scripts a second", crew.len());
    assert!(per_second < f64::from(FLEETS * UPSTREAMS) / 10.0, "{per_second}");

    for mate in &crew {
        let snapshot = mate.member.snapshot();
        assert_eq!((snapshot.state, snapshot.members), (State::Shared, FLEETS), "{snapshot:?}");
        let [quota, budget] = &snapshot.leases[..] else { panic!("{snapshot:?}") };
        assert!(quota.balance.abs() < 0.5, "{snapshot:?}");
        assert!(budget.balance >= 1.0, "a retry could not be paid: {snapshot:?}");
    }

    // The first call ends the rest, and waits for one exchange.
    let began = Instant::now();
    crew[0].upstream.admit(Never).await.unwrap().succeeded();
    println!("the first call waited for {:.1?}", began.elapsed());
    let awake = || !crew[0].member.snapshot().rests;
    until("the end of the rest", awake, || format!("{:?}", crew[0].member.snapshot())).await;
    assert!(crew[1].member.snapshot().rests, "the rest of others goes on");
}

/// Without a server a member that wakes has the share of one of the members that it knew at rest.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_wakes_without_a_server_uses_its_share() {
    const FLEETS: u32 = 4;
    let Some(mut server) = Server::start(&[]) else { return };
    let crew = join(&fleets(&server, FLEETS), 0..1);
    sleep(RESTS_AFTER).await;
    all_rest(&crew).await;
    server.kill();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(crew[0].state(), State::Shared, "nobody has asked since");

    let began = Instant::now();
    crew[0].upstream.admit(Never).await.unwrap().succeeded();
    println!("the first call without a server waited for {:.1?}", began.elapsed());
    crew[0].becomes(State::Safe).await;
    // A quarter of ten requests a second, and of their burst.
    let mut load = Load::new();
    load.add(&crew[0], 2);
    sleep(Duration::from_secs(4)).await;
    let count = load.times().count();
    println!("{count} calls in 4 s, {:?}", crew[0].member.snapshot());
    assert!((5.0..=11.0).contains(&(count - f64::from(BURST / FLEETS))), "{count}");
}

/// Prints the scripts of a thousand upstreams in ten processes, of which 50 join in a second. It takes
/// some minutes:
/// `cargo test --release -p resile-redis --test it -- --ignored a_thousand --nocapture`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "prints a figure"]
async fn a_thousand_upstreams_in_ten_processes() {
    let Some(server) = Server::start(&[]) else { return };
    let (fleets, mut crew) = (fleets(&server, 10), Vec::new());
    for number in 0..1_000 {
        crew.extend(join(&fleets, number..number + 1));
        if number % 5 == 4 {
            let scripts = per_second(&server, Duration::from_secs(1)).await;
            let rest = crew.iter().filter(|mate| mate.member.snapshot().rests).count();
            println!("{rest:5} of {} at rest: {scripts:.0} scripts a second", crew.len());
        }
    }
    sleep(RESTS_AFTER).await;
    all_rest(&crew).await;
    for _ in 0..3 {
        let scripts = per_second(&server, Duration::from_secs(30)).await;
        println!("all {} at rest: {scripts:.0} scripts a second", crew.len());
    }
}
