//! Members that leave, and members that die.

#[path = "../../examples/stop.rs"]
#[expect(dead_code, reason = "the program has a main function")]
mod stop;

use std::time::Duration;

use resile::Never;
use resile::fleet::State;
use resile_redis::{Fleet, JoinError};
use tokio::time::{Instant, sleep};

use crate::crew::{Load, Mate, all_share, limited, until};
use crate::proxy::{Proxy, Way};
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
    let again = fleet.join(std::sync::Arc::clone(&first.upstream));
    assert_eq!(again.unwrap_err(), JoinError::Joined("scarce".into()));

    first.member.leave().await;
    let left = first.upstream.fleet().unwrap();
    assert_eq!((left.state, first.member.snapshot().state), (State::Left, State::Left));
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
        assert!(held >= 1.0);
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

/// Half of the members leave while calls wait in each. Until their calls are done they have their
/// parts and not the whole limit each.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_that_leave_with_waiting_calls_keep_the_limit() {
    const SECONDS: u32 = 3;
    let Some(server) = Server::start(&[]) else { return };
    let join = |_| Mate::join(&Fleet::new(&server.url()).unwrap(), limited(100, 10));
    let crew: Vec<_> = (0..6).map(join).collect();
    all_share(&crew).await;
    let mut load = Load::new();
    for mate in &crew[..4] {
        load.add(mate, 5);
    }
    // These two have calls for about three seconds.
    for mate in &crew[4..] {
        load.add_calls(mate, 17 * SECONDS as usize);
    }
    sleep(Duration::from_secs(1)).await;
    let leaving = async |mate: &Mate| {
        let began = Instant::now();
        mate.member.leave().await;
        began.elapsed()
    };
    let (one, other, endless) =
        tokio::join!(leaving(&crew[4]), leaving(&crew[5]), leaving(&crew[3]));
    println!("calls for 2 s: left after {one:.1?} and {other:.1?}, endless ones {endless:.1?}");
    for took in [one, other] {
        assert!((1.0..4.0).contains(&took.as_secs_f64()), "{took:?}");
    }
    assert!((9.5..14.0).contains(&endless.as_secs_f64()), "{endless:?}");
    assert_eq!(crew[4].upstream.fleet().unwrap().state, State::Left);
    assert!(crew[3].member.snapshot().is_joined, "its calls go on, so it is a member");
    let (excess, worst) = (load.times().excess(100.0), load.times().worst_second());
    println!("{excess:.0} units beyond the rate, {worst} in the worst second");
    assert!(excess <= 10.0 + 10.0 + 6.0 * 6.0 && worst <= 130, "{excess}, {worst}");
}

/// The server falls silent, and the last call ends just before the time is over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_server_makes_nobody_leave_later() {
    let Some(server) = Server::start(&[]) else { return };
    let proxy = Proxy::start(server.port()).await;
    let mate = Mate::join(&Fleet::new(&proxy.url()).unwrap(), scarce());
    all_share(std::slice::from_ref(&mate)).await;
    assert_eq!(take(&mate, 20).await, 20);
    let mut load = Load::new();
    let call = load.add_caller(&mate);
    sleep(Duration::from_millis(100)).await; // until it waits
    let began = Instant::now();
    let rest = async {
        sleep(Duration::from_secs(5)).await;
        proxy.set(Way::Silent);
        sleep(Duration::from_millis(4_600)).await;
        call.abort();
    };
    tokio::join!(mate.member.leave(), rest);
    let took = began.elapsed();
    println!("left a silent server after {took:.2?}");
    assert!((9.5..10.3).contains(&took.as_secs_f64()), "{took:?}");
}

/// The end of the program of the guide: no job is cut, and those that would wait for long begin no attempt.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_program_of_the_guide_finishes_its_jobs_before_it_leaves() {
    let Some(server) = Server::start(&[]) else { return };
    let began = Instant::now();
    let (taken, done) = stop::serve(&server.url(), sleep(Duration::from_secs(2))).await.unwrap();
    println!("{done} of {taken} jobs in {:.1?}", began.elapsed());
    assert!(taken >= 10 && done == taken, "{done} of {taken}");
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    let mut connection = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    let mut members = redis::cmd("ZRANGE");
    members.arg("guide:1:{model}:members").arg(0).arg(-1);
    let members: Vec<String> = members.query(&mut connection).unwrap();
    assert!(members.iter().all(|field| !field.starts_with("m:")), "{members:?}");

    // Most of the jobs wait for the quota, for longer than the five seconds of the program.
    let fleet = Fleet::new(&server.url()).unwrap().with_prefix("guide");
    let rate = resile::quota::Rate::new(1, Duration::from_secs(10)).with_burst(1);
    fleet.set_limit("model", resile::quota::Dimension::Requests, Some(rate)).await.unwrap();
    let began = Instant::now();
    let (taken, done) = stop::serve(&server.url(), sleep(Duration::from_secs(2))).await.unwrap();
    println!("{done} of {taken} jobs in {:.1?}", began.elapsed());
    assert!(done < taken, "{done} of {taken}");
    assert!((6.9..10.0).contains(&began.elapsed().as_secs_f64()), "{:?}", began.elapsed());
}
