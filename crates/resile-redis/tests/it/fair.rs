//! The parts of a limit that equal and unequal members get.

use std::time::Duration;

use resile::quota::Rate;
use resile::{Never, Quota, Upstream};
use resile_redis::Fleet;
use tokio::time::{Instant, sleep, sleep_until};

use crate::crew::{Load, Mate, Times, all_share, limited};
use crate::server::Server;

const TIME: Duration = Duration::from_secs(6);

/// Lets members of these weights call in loops. Returns the admissions of each.
async fn parts(per_second: u32, weights: &[u32]) -> Option<Vec<f64>> {
    let server = Server::start(&[])?;
    let join = |weight: &u32| {
        let fleet = Fleet::new(&server.url()).unwrap().with_weight(*weight);
        Mate::join(&fleet, limited(per_second, per_second / 10))
    };
    let crew: Vec<_> = weights.iter().map(join).collect();
    all_share(&crew).await;
    let mut loads = Vec::new();
    for mate in &crew {
        let mut load = Load::new();
        load.add(mate, 20);
        loads.push(load);
    }
    sleep(Duration::from_secs(2) + TIME).await;
    let count = |load: &Load| {
        let end = load.now();
        load.times().between(end.saturating_sub(TIME), end).count()
    };
    let counts = loads.iter().map(count).collect();
    println!("{per_second} a second for the weights {weights:?}: {counts:?} in {TIME:?}");
    Some(counts)
}

/// Returns Jain's index, which is 1 for equal parts.
fn jain(counts: &[f64]) -> f64 {
    let (sum, squares) = (counts.iter().sum::<f64>(), counts.iter().map(|n| n * n).sum::<f64>());
    sum * sum / (squares * f64::from(u32::try_from(counts.len()).unwrap()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn equal_members_get_equal_parts_and_others_by_weight() {
    let few = [1, 1, 1, 1];
    let many = [1; 8];
    let (twenty, forty, eight, weighted) =
        tokio::join!(parts(20, &few), parts(40, &few), parts(40, &many), parts(60, &[1, 2, 3]));
    for (counts, per_second) in [(twenty, 20.0), (forty, 40.0), (eight, 40.0)] {
        let Some(counts) = counts else { return };
        assert!(jain(&counts) >= 0.95, "{counts:?}");
        let used = counts.iter().sum::<f64>() / (per_second * TIME.as_secs_f64());
        assert!((0.95..1.05).contains(&used), "{used}: {counts:?}");
    }
    let weighted = weighted.unwrap();
    assert!((weighted[2] / weighted[0] - 3.0).abs() < 0.4, "{weighted:?}");
    assert!((weighted[1] / weighted[0] - 2.0).abs() < 0.3, "{weighted:?}");
}

/// The length of a figure, and of a window in it.
const LONG: Duration = Duration::from_secs(40);
const WINDOW: Duration = Duration::from_secs(10);

/// Prints what fleets of 4, 8 and 16 members get of a limit, and the least equal window of 10 s. It
/// takes two minutes: `cargo test -p resile-redis --test it -- --ignored fair --nocapture`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes two minutes"]
async fn fleets_of_many_sizes_use_a_limit_in_equal_parts() {
    let second = |per_second: u32| {
        Rate::per_second(u64::from(per_second)).with_burst(u64::from(per_second / 5))
    };
    let minute = |count: u32| Rate::per_minute(u64::from(count)).with_burst(u64::from(count / 300));
    for (name, rate, per_second) in
        [("200 a second", second(200), 200.0), ("6,000 a minute", minute(6_000), 100.0)]
    {
        for size in [4, 8, 16] {
            let Some(times) = loops(rate, size).await else { return };
            let end = LONG.saturating_sub(Duration::from_secs(1));
            let count = |from, to| times.iter().map(move |all| all.between(from, to).count());
            let used = count(Duration::ZERO, end).sum::<f64>() / (per_second * end.as_secs_f64());
            let starts = (0..).map(Duration::from_secs).take_while(|from| *from + WINDOW <= end);
            let equal = starts.map(|from| jain(&count(from, from + WINDOW).collect::<Vec<_>>()));
            let equal = equal.fold(1.0, f64::min);
            println!(
                "{size:3} members, {name}: {:.2} % used, {equal:.4} in the least equal window",
                used * 100.0
            );
            assert!((0.985..=1.005).contains(&used), "{used}");
            assert!(equal >= 0.95, "{equal}");
        }
    }
}

/// Lets many members call in loops. Returns the admissions of each, after a while.
async fn loops(rate: Rate, size: u32) -> Option<Vec<Times>> {
    let server = Server::start_alone()?;
    let join = |_| {
        let upstream = Upstream::new("shared").with_quota(Quota::new().with_requests(rate));
        Mate::join(&Fleet::new(&server.url()).unwrap(), upstream)
    };
    let crew: Vec<_> = (0..size).map(join).collect();
    all_share(&crew).await;
    let mut loads = Vec::new();
    for mate in &crew {
        let mut load = Load::new();
        load.add(mate, 10);
        loads.push(load);
    }
    sleep(Duration::from_secs(2)).await; // the burst is used up
    let from: Vec<_> = loads.iter().map(Load::now).collect();
    sleep(LONG).await;
    let times = loads.iter().zip(from).map(|(load, from)| load.times().since(from));
    Some(times.collect())
}

/// Half of the members need little, and the others ten times as much, which is more than there is. The
/// first ones get what they need, and the others get equal parts of the rest.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_that_need_little_get_it_all() {
    const LIMIT: u32 = 100;
    const NEED: u32 = 4;
    const SIZE: usize = 4;
    let Some(server) = Server::start(&[]) else { return };
    let join = |_| {
        let fleet = Fleet::new(&server.url()).unwrap();
        Mate::join(&fleet, limited(LIMIT, LIMIT / 5))
    };
    let crew: Vec<_> = (0..2 * SIZE).map(join).collect();
    all_share(&crew).await;
    let (modest, busy) = crew.split_at(SIZE);
    let calls = modest.iter().map(|mate| paced(mate, f64::from(NEED)));
    let busy_calls = busy.iter().map(|mate| paced(mate, f64::from(10 * NEED)));
    let (few, parts) = tokio::join!(
        futures_util::future::join_all(calls),
        futures_util::future::join_all(busy_calls)
    );
    println!("of {NEED} a second: {few:?}; of {} a second: {parts:?}", 10 * NEED);
    let seconds = TIME.as_secs_f64();
    for count in &few {
        assert!(*count >= 0.95 * f64::from(NEED) * seconds, "{few:?}");
    }
    assert!(jain(&parts) >= 0.95, "{parts:?}");
    let used = (few.iter().sum::<f64>() + parts.iter().sum::<f64>()) / (100.0 * seconds);
    assert!((0.93..1.07).contains(&used), "{used}");
}

/// Makes calls at a rate. A call that is not admitted within a second ends. Returns the admissions after
/// the first two seconds.
async fn paced(mate: &Mate, per_second: f64) -> f64 {
    let began = Instant::now();
    let (mut at, mut calls) = (0.0, tokio::task::JoinSet::new());
    while at < 2.0 + TIME.as_secs_f64() {
        sleep_until(began + Duration::from_secs_f64(at)).await;
        let upstream = std::sync::Arc::clone(&mate.upstream);
        calls.spawn(async move {
            let call = tokio::time::timeout(Duration::from_secs(1), upstream.admit(Never)).await;
            let Ok(Ok(admission)) = call else { return 0.0 };
            admission.succeeded();
            f64::from(u8::from(at >= 2.0))
        });
        at += 1.0 / per_second;
    }
    calls.join_all().await.iter().sum()
}
