//! Faults of the server, under load.

use std::time::Duration;

use resile::quota::Rate;
use resile::{Quota, Upstream};
use tokio::time::sleep;

use crate::crew::{Load, all_share, limited};
use crate::scene::{LIMIT, Scene, run};
use crate::server::Server;

/// Each fault has a server and members of its own, and the faults last at the same time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_fault_of_the_server_breaks_the_limit_or_stops_the_calls() {
    tokio::join!(
        killed(),
        stopped(),
        full(),
        another_type(),
        flushed("SCRIPT FLUSH", &["SCRIPT", "FLUSH"]),
        flushed("FLUSHALL", &["FLUSHALL"]),
        fail_over(),
        stopped_with_a_large_burst(),
    );
}

async fn killed() {
    let Some(mut scene) = Scene::start("killed, restarted empty", 1).await else { return };
    scene.begin().await;
    scene.server.kill();
    let from = scene.endure().await;
    scene.is_safe();
    scene.server.restart();
    let fault = scene.recover(from).await;
    scene.goes_on(fault, 1.0);
    scene.keeps_the_limit(0.0);
}

async fn stopped() {
    let Some(mut scene) = Scene::start("stopped and continued", 1).await else { return };
    scene.begin().await;
    scene.server.stop_signal();
    let from = scene.endure().await;
    scene.is_safe();
    scene.server.cont_signal();
    let fault = scene.recover(from).await;
    scene.goes_on(fault, 1.0);
    scene.keeps_the_limit(0.0);
}

async fn full() {
    let Some(mut scene) = Scene::start("out of memory", 1).await else { return };
    scene.begin().await;
    run(&scene.server, &["SET", "big", &"x".repeat(2 << 20)]).await;
    run(&scene.server, &["CONFIG", "SET", "maxmemory", "1mb"]).await;
    let from = scene.endure().await;
    scene.is_safe();
    run(&scene.server, &["CONFIG", "SET", "maxmemory", "0"]).await;
    let fault = scene.recover(from).await;
    scene.goes_on(fault, 1.0);
    scene.keeps_the_limit(0.0);
}

async fn another_type() {
    let Some(mut scene) = Scene::start("a key of another type", 1).await else { return };
    scene.begin().await;
    run(&scene.server, &["SET", "resile:1:{shared}:quota:requests", "mine"]).await;
    let from = scene.endure().await;
    scene.is_safe();
    run(&scene.server, &["DEL", "resile:1:{shared}:quota:requests"]).await;
    let fault = scene.recover(from).await;
    scene.goes_on(fault, 1.0);
    scene.keeps_the_limit(0.0);
}

async fn flushed(name: &'static str, command: &[&str]) {
    let Some(mut scene) = Scene::start(name, 1).await else { return };
    scene.begin().await;
    run(&scene.server, command).await;
    let from = scene.endure().await;
    let fault = scene.recover(from).await;
    scene.goes_on(fault, 1.0);
    scene.keeps_the_limit(0.0);
}

/// A replica without the last writes becomes the primary, and the old primary its replica. A member
/// joins meanwhile.
async fn fail_over() {
    let Some(replica) = Server::start(&[]) else { return };
    let Some(mut scene) = Scene::start("fail-over with lost writes", 1).await else { return };
    let port = scene.server.port().to_string();
    run(&replica, &["REPLICAOF", "127.0.0.1", &port]).await;
    scene.begin().await;
    run(&replica, &["REPLICAOF", "NO", "ONE"]).await;
    scene.join();
    sleep(Duration::from_millis(500)).await;
    scene.proxies[0].switch(replica.port());
    let port = replica.port().to_string();
    run(&scene.server, &["REPLICAOF", "127.0.0.1", &port]).await;
    let from = scene.endure().await;
    let fault = scene.recover(from).await;
    scene.goes_on(fault, 1.0);
    scene.keeps_the_limit(0.0);
}

/// The burst is that of three seconds. The server is away for longer than that, so the refill of
/// this time does not fit.
async fn stopped_with_a_large_burst() {
    const BURST: u32 = 3 * LIMIT;
    let upstream = || limited(LIMIT, BURST);
    let scene = Scene::with("stopped, burst of 3 s", &[], 1, upstream, |fleet| fleet).await;
    let Some(mut scene) = scene else { return };
    scene.begin().await;
    sleep(Duration::from_secs(2)).await;
    scene.server.stop_signal();
    let from = scene.endure().await;
    sleep(Duration::from_secs(2)).await;
    scene.is_safe();
    scene.server.cont_signal();
    let fault = scene.recover(from).await;
    scene.goes_on(fault, 1.0);
    scene.keeps_the_limit(f64::from(BURST));
}

/// A limit of a minute is used up, and many calls wait in each member, when the server goes away.
/// What the members use meanwhile is not spent again by those that come back first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_that_is_used_up_stays_used_up_after_an_outage() {
    tokio::join!(used_up("used up, stopped", false), used_up("used up, killed", true));
}

async fn used_up(name: &'static str, is_killed: bool) {
    const CALLERS: usize = 100;
    let upstream = || {
        let rate = Rate::per_minute(u64::from(60 * LIMIT)).with_burst(u64::from(4 * LIMIT));
        Upstream::new("shared").with_quota(Quota::new().with_requests(rate))
    };
    let scene = Scene::with(name, &[], 1, upstream, |fleet| fleet).await;
    let Some(mut scene) = scene else { return };
    all_share(&scene.crew).await;
    scene.load = Load::new();
    for mate in &scene.crew {
        scene.load.add(mate, CALLERS);
    }
    sleep(Duration::from_secs(2)).await; // the burst is used up
    if is_killed {
        scene.server.kill();
    } else {
        scene.server.stop_signal();
    }
    let from = scene.endure().await;
    sleep(Duration::from_secs(2)).await;
    scene.is_safe();
    if is_killed {
        scene.server.restart();
    } else {
        scene.server.cont_signal();
    }
    let fault = scene.recover(from).await;
    scene.goes_on(fault, 1.0);
    let times = scene.load.times().between(from, scene.load.now());
    let excess = times.excess(f64::from(LIMIT));
    println!("{name:28} {excess:4.0} beyond the refill since the fault began");
    // A quarter of a second, and what a busy machine notes at one time. What the account saves during
    // the outage is four times as much as this bound.
    assert!(excess <= f64::from(LIMIT), "{name}: {excess} units");
}
