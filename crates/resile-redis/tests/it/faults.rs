//! Faults of the server, under load.

use std::time::Duration;

use tokio::time::sleep;

use crate::crew::limited;
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
