//! The members bring the shared state back to a server that has lost all data.

use std::time::Duration;

use resile::quota::{Dimension, Rate};
use resile::{Cooldown, Upstream};
use resile_redis::Fleet;
use tokio::time::{Instant, sleep};

use crate::crew::{Load, Mate, all_share, limited, until};
use crate::scene::run;
use crate::server::Server;

const SECOND: Duration = Duration::from_secs(1);

fn cooled() -> Upstream {
    limited(100, 10).with_cooldown(Cooldown::new())
}

async fn crew(server: &Server, upstream: impl Fn() -> Upstream) -> Vec<Mate> {
    let join = |_| Mate::join(&Fleet::new(&server.url()).unwrap(), upstream());
    let crew: Vec<_> = (0..3).map(join).collect();
    all_share(&crew).await;
    crew
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_survives_a_loss_of_all_data() {
    let Some(server) = Server::start(&[]) else { return };
    let crew = crew(&server, cooled).await;
    let held = |mate: &Mate| mate.upstream.held().unwrap_or_default();
    crew[0].upstream.hold(8 * SECOND);
    let began = Instant::now();
    until("a common hold", || crew.iter().all(|mate| held(mate) > SECOND), String::new).await;
    for _ in 0..2 {
        run(&server, &["FLUSHALL"]).await;
        sleep(3 * SECOND / 2).await; // until a member has looked
    }
    let late = Mate::join(&Fleet::new(&server.url()).unwrap(), cooled());
    until("the hold of a late member", || held(&late) > SECOND, String::new).await;
    let left = (8 * SECOND).saturating_sub(began.elapsed());
    for mate in crew.iter().chain([&late]) {
        let apart = held(mate).abs_diff(left);
        assert!(apart < Duration::from_millis(300), "{:?} instead of {left:?}", held(mate));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_that_was_set_survives_a_loss_of_all_data() {
    let Some(server) = Server::start(&[]) else { return };
    let fleet = Fleet::new(&server.url()).unwrap();
    let mut crew = crew(&server, || limited(100, 10)).await;
    let mut load = Load::new();
    for mate in &crew {
        load.add(mate, 4);
    }
    let set = |rate: Option<Rate>| fleet.set_limit("shared", Dimension::Requests, rate);
    let rate = |limit| Rate::per_second(limit).with_burst(10);
    let all_use = async |load: &Load, limit: f64| {
        sleep(3 * SECOND).await; // until all know, and share
        let from = load.now();
        sleep(2 * SECOND).await;
        let to = load.now();
        let calls = load.times().between(from, to).count() / to.saturating_sub(from).as_secs_f64();
        assert!((0.85..1.15).contains(&(calls / limit)), "{calls} instead of {limit}");
    };
    set(Some(rate(40))).await.unwrap();
    all_use(&load, 40.0).await;
    run(&server, &["FLUSHALL"]).await;
    sleep(3 * SECOND / 2).await; // until a member has looked
    crew.push(Mate::join(&fleet, limited(100, 10)));
    load.add(&crew[3], 4);
    all_use(&load, 40.0).await;
    // A change after the loss is later than what the members know, and so is a removal.
    for (rate, limit) in [(Some(rate(60)), 60.0), (None, 100.0)] {
        run(&server, &["FLUSHALL"]).await;
        set(rate).await.unwrap();
        all_use(&load, limit).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_learned_limit_survives_a_loss_of_all_data() {
    let Some(server) = Server::start(&[]) else { return };
    let crew = crew(&server, || limited(100, 10)).await;
    let used = |mate: &Mate| mate.upstream.quota_rate(Dimension::Requests).unwrap().count();
    let most = || crew.iter().map(used).max().unwrap();
    // The fifth number is the limit that all use.
    let learn = "local n = {}
        for word in redis.call('HGET', KEYS[1], 'requests'):gmatch('%S+') do n[#n + 1] = word end
        n[5] = '60'
        return redis.call('HSET', KEYS[1], 'requests', table.concat(n, ' '))";
    run(&server, &["EVAL", learn, "1", "resile:1:{shared}:learned"]).await;
    sleep(3 * SECOND / 2).await; // until all know
    let before = most();
    assert_eq!(before, 60);
    run(&server, &["FLUSHALL"]).await;
    for _ in 0..30 {
        sleep(SECOND / 10).await;
        assert!(most() <= before + 2, "{} after {before}", most());
    }
}
