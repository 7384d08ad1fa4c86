//! Faults of the server and of the way to it, under load.

use std::time::Duration;

use redis::{Value, cmd};

use crate::proxy::{Proxy, Way};
use crate::scene::Scene;
use crate::server::Server;

/// Runs a command on a connection of its own.
async fn run(server: &Server, words: &[&str]) -> Value {
    let client = redis::Client::open(server.url()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let mut command = cmd(words[0]);
    command.arg(&words[1..]);
    command.query_async(&mut connection).await.unwrap()
}

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
async fn half_of_the_members_cut_off() {
    let Some(mut scene) = Scene::start(2).await else { return };
    scene.begin().await;
    scene.proxies[1].set(Way::Cut);
    let from = scene.endure().await;
    scene.proxies[1].set(Way::Pass);
    let fault = scene.recover(from).await;
    // The others use the whole limit, and those their share.
    scene.check("half of the members cut off", fault, 1.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_answers() {
    let Some(mut scene) = Scene::start(1).await else { return };
    scene.begin().await;
    scene.proxies[0].set(Way::Delay(Duration::from_secs(2)));
    let from = scene.endure().await;
    scene.is_safe();
    scene.proxies[0].set(Way::Pass);
    let fault = scene.recover(from).await;
    scene.check("answers after 2 s", fault, 1.0);
    scene.check_excess("answers after 2 s", fault);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_that_are_none() {
    let Some(mut scene) = Scene::start(1).await else { return };
    scene.begin().await;
    scene.proxies[0].set(Way::Garbage);
    let from = scene.endure().await;
    scene.is_safe();
    scene.proxies[0].set(Way::Pass);
    let fault = scene.recover(from).await;
    scene.check("garbage answers", fault, 1.0);
    scene.check_excess("garbage answers", fault);
}

/// The connections stay open and are dead for ever. A new connection would work.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_connections() {
    let Some(mut scene) = Scene::start(1).await else { return };
    scene.begin().await;
    scene.proxies[0].strand();
    let from = scene.endure().await;
    let fault = scene.recover(from).await;
    scene.check("dead connections", fault, 1.0);
    scene.check_excess("dead connections", fault);
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
    tokio::time::sleep(Duration::from_millis(500)).await;
    scene.proxies[0].switch(replica.port());
    let port = replica.port().to_string();
    run(&scene.server, &["REPLICAOF", "127.0.0.1", &port]).await;
    let from = scene.endure().await;
    let fault = scene.recover(from).await;
    scene.check("fail-over with lost writes", fault, 1.0);
    scene.check_excess("fail-over with lost writes", fault);
    let keys: Vec<String> = redis::from_redis_value(run(&replica, &["KEYS", "*"]).await).unwrap();
    assert!(keys.len() >= 2, "{keys:?}");
    drop(Proxy::start(0).await);
}

/// The burst is that of a second, as if the limit were one of a minute.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_burst_and_a_stopped_server() {
    let upstream = |_| crate::crew::limited(crate::scene::LIMIT, 3 * crate::scene::LIMIT);
    let Some(mut scene) = Scene::with(&[], 1, upstream, |fleet| fleet).await else { return };
    scene.begin().await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    scene.server.stop_signal();
    let from = scene.endure().await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    scene.is_safe();
    scene.server.cont_signal();
    let fault = scene.recover(from).await;
    scene.check("large burst, stopped", fault, 1.0);
}
