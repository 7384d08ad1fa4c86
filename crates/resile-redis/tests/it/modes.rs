//! What a process may use while the server is away, and a fleet that starts without it.

use resile::fleet::State;
use resile_redis::FailMode;

use crate::crew::{Mate, limited, until};
use crate::scene::{BURST, LIMIT, MEMBERS, Scene};

async fn killed_with(mode: FailMode) -> Option<Scene> {
    let upstream = |_| limited(LIMIT, BURST);
    Scene::with(&[], 1, upstream, |fleet| fleet.with_fail_mode(mode)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_fleet_uses_the_whole_limit_in_each_process() {
    let Some(mut scene) = killed_with(FailMode::Open).await else { return };
    scene.begin().await;
    scene.server.kill();
    let from = scene.endure().await;
    scene.is_safe();
    scene.server.restart();
    let fault = scene.recover(from).await;
    scene.check("killed, fail mode Open", fault, f64::from(MEMBERS));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closed_fleet_uses_nothing_new() {
    let Some(mut scene) = killed_with(FailMode::Closed).await else { return };
    scene.begin().await;
    scene.server.kill();
    let from = scene.endure().await;
    scene.is_safe();
    scene.server.restart();
    let fault = scene.recover(from).await;
    scene.check("killed, fail mode Closed", fault, 0.0);
    scene.check_excess("killed, fail mode Closed", fault);
    // The leases end soon after the last answer.
    let quiet = from + std::time::Duration::from_millis(600);
    assert_eq!(scene.load.times().between(quiet, fault.to).0, []);
}

/// The processes divide the limit by the least number of members, which nobody told them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fleet_that_starts_without_a_server_keeps_the_limit() {
    let upstream = |_| limited(LIMIT, BURST);
    let least = |fleet: resile_redis::Fleet| fleet.with_least_members(MEMBERS);
    let Some(mut scene) = Scene::with(&["--requirepass", "secret"], 1, upstream, least).await
    else {
        return;
    };
    scene.server.kill();
    scene.begin_load().await;
    let from = scene.endure().await;
    scene.is_safe();
    scene.server.restart();
    refused(&scene, "NOAUTH").await;
    let url = scene.server.url().replace("redis://", "redis://:secret@");
    let client = redis::Client::open(url).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let mut open = redis::cmd("CONFIG");
    let () = open.arg("SET").arg("requirepass").arg("").query_async(&mut connection).await.unwrap();
    let fault = scene.recover(from).await;
    scene.check("no server, then no password", fault, 1.0);
    scene.check_excess("no server, then no password", fault);
}

/// Waits until each member tells this reason.
async fn refused(scene: &Scene, reason: &str) {
    let error = |mate: &Mate| mate.member.snapshot().last_error.unwrap_or_default();
    let all = || scene.crew.iter().all(|mate| error(mate).contains(reason));
    until(reason, all, || error(&scene.crew[0])).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_password_is_told_without_the_password() {
    let Some(server) = crate::server::Server::start(&["--requirepass", "secret"]) else { return };
    let url = server.url().replace("redis://", "redis://:hunter2@");
    let fleet = resile_redis::Fleet::new(&url).unwrap();
    let mate = Mate::join(&fleet, limited(LIMIT, BURST));
    mate.becomes(State::Safe).await;
    let snapshot = mate.member.snapshot();
    let error = snapshot.last_error.unwrap_or_default();
    println!("wrong password: {error}");
    assert!(error.to_lowercase().contains("pass"), "{error}");
    assert!(!error.contains("hunter2") && !format!("{fleet:?}").contains("hunter2"), "{error}");
    let url = server.url().replace("redis://", "redis://:secret@");
    let client = redis::Client::open(url).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let mut set = redis::cmd("CONFIG");
    let () = set
        .arg("SET")
        .arg("requirepass")
        .arg("hunter2")
        .query_async(&mut connection)
        .await
        .unwrap();
    mate.becomes(State::Shared).await;
}
