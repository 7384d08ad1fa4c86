//! Faults of the way to the server, under load.

use std::time::Duration;

use crate::proxy::Way;
use crate::scene::{LIMIT, Scene};

/// Each fault has a server and members of its own, and the faults last at the same time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_fault_of_the_way_breaks_the_limit_or_stops_the_calls() {
    tokio::join!(
        half_cut_off(),
        faulty("answers after 2 s", Way::Delay(Duration::from_secs(2))),
        faulty("no answers", Way::Silent),
        faulty("answers that are none", Way::Garbage),
        dead_connections(),
    );
}

async fn faulty(name: &'static str, way: Way) {
    let Some(mut scene) = Scene::start(name, 1).await else { return };
    scene.begin().await;
    scene.proxies[0].set(way);
    let from = scene.endure().await;
    scene.is_safe();
    scene.proxies[0].set(Way::Pass);
    let fault = scene.recover(from).await;
    scene.goes_on(fault, 1.0);
    scene.keeps_the_limit(0.0);
}

/// Those with a server use the whole limit, because they cannot know that the others still run.
async fn half_cut_off() {
    let Some(mut scene) = Scene::start("half of the members cut off", 2).await else { return };
    scene.begin().await;
    scene.proxies[1].set(Way::Cut);
    let from = scene.endure().await;
    scene.proxies[1].set(Way::Pass);
    let fault = scene.recover(from).await;
    scene.goes_on(fault, 1.0);
    // The share of half of the members, until their next try.
    let alone = fault.to.saturating_sub(from) + Duration::from_millis(1_200);
    scene.keeps_the_limit(f64::from(LIMIT) / 2.0 * alone.as_secs_f64());
}

/// The connections stay open and are dead for ever. A new connection works.
async fn dead_connections() {
    let Some(mut scene) = Scene::start("dead connections", 1).await else { return };
    scene.begin().await;
    scene.proxies[0].strand();
    let from = scene.endure().await;
    let fault = scene.recover(from).await;
    scene.goes_on(fault, 1.0);
    scene.keeps_the_limit(0.0);
    let connections = scene.proxies[0].connections();
    assert!(connections <= 4 * scene.crew.len() as u64, "{connections} connections");
}
