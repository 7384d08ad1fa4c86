//! The share of a process while the server is away, and a fleet that starts without a server.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use redis::cmd;
use resile::fleet::State;
use resile::observe::{Event, EventKind};
use resile_redis::{FailMode, Fleet, Member};

use crate::crew::{Mate, limited, until};
use crate::scene::{BURST, LIMIT, MEMBERS, Scene};
use crate::server::Server;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_fail_mode_keeps_its_word() {
    tokio::join!(open(), closed(), away_from_the_start());
}

async fn killed(name: &'static str, mode: FailMode) -> Option<(Scene, Duration)> {
    let settings = |fleet: Fleet| fleet.with_fail_mode(mode);
    let mut scene = Scene::with(name, &[], 1, || limited(LIMIT, BURST), settings).await?;
    scene.begin().await;
    scene.server.kill();
    let from = scene.endure().await;
    scene.is_safe();
    scene.server.restart();
    Some((scene, from))
}

/// Each process uses the whole limit.
async fn open() {
    let Some((scene, from)) = killed("killed, fail mode Open", FailMode::Open).await else {
        return;
    };
    let fault = scene.recover(from).await;
    scene.goes_on(fault, f64::from(MEMBERS));
}

/// No process uses more than it has.
async fn closed() {
    let Some((scene, from)) = killed("killed, fail mode Closed", FailMode::Closed).await else {
        return;
    };
    let fault = scene.recover(from).await;
    scene.goes_on(fault, 0.0);
    scene.keeps_the_limit(0.0);
    let noticed = from + Duration::from_millis(600);
    assert!(scene.load.times().between(noticed, fault.to).0.is_empty());
}

/// The processes divide the limit by the least number of members, because nobody told them their
/// number. The server comes, but refuses them at first.
async fn away_from_the_start() {
    let settings = |fleet: Fleet| fleet.with_least_members(MEMBERS);
    let args = ["--requirepass", "secret"];
    let upstream = || limited(LIMIT, BURST);
    let scene = Scene::with("away, then with a password", &args, 1, upstream, settings).await;
    let Some(mut scene) = scene else { return };
    scene.server.kill();
    scene.begin_load().await;
    let from = scene.endure().await;
    scene.is_safe();
    scene.server.restart();
    let error = |mate: &Mate| mate.member.snapshot().last_error.unwrap_or_default();
    let all = || scene.crew.iter().all(|mate| error(mate).contains("NOAUTH"));
    until("a refused password", all, || error(&scene.crew[0])).await;
    scene.is_safe();
    set_password(&scene.server, "").await;
    let fault = scene.recover(from).await;
    scene.goes_on(fault, 1.0);
    // Nobody tells the members that the password is right. Each one asks again within a second, and uses its
    // part until then: half a second of the limit on average.
    scene.keeps_the_limit(f64::from(LIMIT) / 2.0);
}

/// Changes the password `secret`.
async fn set_password(server: &Server, password: &str) {
    let url = server.url().replace("redis://", "redis://:secret@");
    let client = redis::Client::open(url).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let mut set = cmd("CONFIG");
    let set = set.arg("SET").arg("requirepass").arg(password);
    let () = set.query_async(&mut connection).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_password_is_told_without_the_password_and_tried_again() {
    let Some(server) = Server::start(&["--requirepass", "secret"]) else { return };
    let url = server.url().replace("redis://", "redis://:hunter2@");
    let fleet = Fleet::new(&url).unwrap();
    let mate = Mate::join(&fleet, limited(LIMIT, BURST));
    mate.becomes(State::Safe).await;
    let error = mate.member.snapshot().last_error.unwrap_or_default();
    assert!(error.contains("WRONGPASS"), "{error}");
    assert!(!error.contains("hunter2") && !format!("{fleet:?}").contains("hunter2"), "{error}");
    set_password(&server, "hunter2").await;
    mate.becomes(State::Shared).await;
}

/// Who reads the status of the upstream and then the snapshot finds the same state.
#[tokio::test]
async fn the_status_of_the_upstream_is_never_ahead_of_the_snapshot() {
    let Some(server) = Server::start(&[]) else { return };
    let (member, seen) = (Arc::new(OnceLock::<Member>::new()), Arc::new(Mutex::new(Vec::new())));
    let (its, events) = (Arc::clone(&member), Arc::clone(&seen));
    let observer = move |event: &Event<'_>| {
        if let (EventKind::Fleet(status), Some(member)) = (event.kind, its.get()) {
            let snapshot = member.snapshot();
            let (told, known) = (status.state, snapshot.state);
            events.lock().unwrap().push((told, known, status.members, snapshot.members));
        }
    };
    let upstream = limited(100, 10).with_shared_observer(observer);
    let mate = Mate::join(&Fleet::new(&server.url()).unwrap(), upstream);
    assert!(member.set(mate.member.clone()).is_ok());
    let words = || format!("{:?}", seen.lock().unwrap());
    until("the first state", || !seen.lock().unwrap().is_empty(), words).await;
    assert_eq!(*seen.lock().unwrap(), [(State::Shared, State::Shared, 1, 1)]);
}
