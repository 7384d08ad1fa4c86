//! Faults of the server, under load.

use std::time::Duration;

use tokio::time::sleep;

use crate::crew::limited;
use crate::scene::{LIMIT, Scene, run};
use crate::server::Server;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_server() {
    let Some(mut scene) = Scene::start(1).await else { return };
    scene.begin().await;
    scene.server.kill();
    let from = scene.endure().await;
    scene.is_safe();
    scene.server.restart();
    let fault = scene.recover(from).await;
    scene.check("killed, restarted empty", fault, 1.0);
    scene.check_excess("killed, restarted empty", fault);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_server() {
    let Some(mut scene) = Scene::start(1).await else { return };
    scene.begin().await;
    scene.server.stop_signal();
    let from = scene.endure().await;
    scene.is_safe();
    scene.server.cont_signal();
    let fault = scene.recover(from).await;
    scene.check("stopped and continued", fault, 1.0);
    scene.check_excess("stopped and continued", fault);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_server() {
    let Some(mut scene) = Scene::start(1).await else { return };
    scene.begin().await;
    run(&scene.server, &["SET", "big", &"x".repeat(2 << 20)]).await;
    run(&scene.server, &["CONFIG", "SET", "maxmemory", "1mb"]).await;
    let from = scene.endure().await;
    scene.is_safe();
    run(&scene.server, &["CONFIG", "SET", "maxmemory", "0"]).await;
    let fault = scene.recover(from).await;
    scene.check("out of memory", fault, 1.0);
    scene.check_excess("out of memory", fault);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_of_another_type() {
    let Some(mut scene) = Scene::start(1).await else { return };
    scene.begin().await;
    run(&scene.server, &["SET", "resile:1:{shared}:quota:requests", "mine"]).await;
    let from = scene.endure().await;
    scene.is_safe();
    run(&scene.server, &["DEL", "resile:1:{shared}:quota:requests"]).await;
    let fault = scene.recover(from).await;
    scene.check("a key of another type", fault, 1.0);
    scene.check_excess("a key of another type", fault);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flushed_scripts_and_data() {
    let Some(mut scene) = Scene::start(1).await else { return };
    for (name, words) in [("SCRIPT FLUSH", &["SCRIPT", "FLUSH"][..]), ("FLUSHALL", &["FLUSHALL"])] {
        scene.begin().await;
        run(&scene.server, words).await;
        let from = scene.endure().await;
        let fault = scene.recover(from).await;
        scene.check(name, fault, 1.0);
        scene.check_excess(name, fault);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fail_over_with_lost_writes() {
    let Some(replica) = Server::start(&[]) else { return };
    let Some(mut scene) = Scene::start(1).await else { return };
    let port = scene.server.port().to_string();
    run(&replica, &["REPLICAOF", "127.0.0.1", &port]).await;
    scene.begin().await;
    // The replica misses the writes of the last half second.
    run(&replica, &["REPLICAOF", "NO", "ONE"]).await;
    sleep(Duration::from_millis(500)).await;
    scene.proxies[0].switch(replica.port());
    let port = replica.port().to_string();
    run(&scene.server, &["REPLICAOF", "127.0.0.1", &port]).await;
    let from = scene.endure().await;
    let fault = scene.recover(from).await;
    scene.check("fail-over with lost writes", fault, 1.0);
    scene.check_excess("fail-over with lost writes", fault);
}

/// The burst is that of three seconds, and the server is away for longer than that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_burst_and_a_stopped_server() {
    let upstream = |_| limited(LIMIT, 3 * LIMIT);
    let Some(mut scene) = Scene::with(&[], 1, upstream, |fleet| fleet).await else { return };
    scene.begin().await;
    sleep(Duration::from_secs(2)).await;
    scene.server.stop_signal();
    let from = scene.endure().await;
    sleep(Duration::from_secs(2)).await;
    scene.is_safe();
    scene.server.cont_signal();
    let fault = scene.recover(from).await;
    scene.check("large burst, stopped", fault, 1.0);
}
