//! Faults of the way to the server, under load.

use std::time::Duration;

use crate::proxy::Way;
use crate::scene::Scene;

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
