//! The time that a call takes while the server answers late.

use std::time::Duration;

use resile::Never;
use resile::fleet::State;
use resile_redis::Fleet;
use tokio::time::{Instant, sleep};

use crate::crew::{Mate, all_share, limited};
use crate::proxy::{Proxy, Way};
use crate::scene::Scene;
use crate::server::Server;

/// Calls for a while, 500 times a second. Returns the sorted times of the admissions.
async fn admissions(mate: &Mate, length: Duration) -> Vec<Duration> {
    let began = Instant::now();
    let mut times = Vec::new();
    while began.elapsed() < length {
        let asked = Instant::now();
        let admission = mate.upstream.admit(Never).await.unwrap();
        times.push(asked.elapsed());
        admission.succeeded();
        sleep(Duration::from_millis(2)).await;
    }
    times.sort_unstable();
    times
}

fn p99(times: &[Duration]) -> Duration {
    times[times.len() * 99 / 100]
}

/// The quota has plenty, so no call has to wait for units.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_waits_for_a_late_answer() {
    let Some(server) = Server::start_alone() else { return };
    let proxy = Proxy::start(server.port()).await;
    let fleet = Fleet::new(&proxy.url()).unwrap();
    let mate = Mate::join(&fleet, limited(100_000, 100_000));
    all_share(std::slice::from_ref(&mate)).await;
    admissions(&mate, Duration::from_secs(1)).await;
    let healthy = admissions(&mate, Duration::from_secs(2)).await;
    proxy.set(Way::Delay(Duration::from_secs(2)));
    let late = admissions(&mate, Duration::from_secs(3)).await;
    assert_eq!(mate.state(), State::Safe);
    let [before, after] = [p99(&healthy), p99(&late)];
    let longest = late.last().copied().unwrap_or_default();
    let ratio = after.as_secs_f64() / before.as_secs_f64();
    println!(
        "answers after 2 s: p99 of an admission {before:?} before, {after:?} meanwhile, \
         ratio {ratio:.2}, longest {longest:?} (before {:?})",
        healthy.last()
    );
    assert!(after < 20 * before + Duration::from_millis(5), "{after:?} {before:?}");
    // The lease lasts until safe mode begins.
    assert!(longest < Duration::from_millis(120), "{longest:?}");
}

/// A round trip above the first timeout. The timeout follows it, so the members share.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_far_away_is_no_dead_server() {
    let Some(mut scene) = Scene::start("a round trip of 80 ms", 1).await else { return };
    scene.proxies[0].set(Way::Delay(Duration::from_millis(80)));
    sleep(Duration::from_secs(1)).await;
    scene.begin().await;
    let from = scene.endure().await;
    for mate in &scene.crew {
        assert_eq!(mate.state(), State::Shared, "{:?}", mate.member.snapshot());
    }
    let failures = || scene.crew.iter().map(|mate| mate.member.snapshot().failures).sum::<u64>();
    let before = failures();
    let fault = scene.recover(from).await;
    assert!(failures() <= before + 2, "{} failures", failures() - before);
    scene.goes_on(fault, 1.0);
    scene.keeps_the_limit(0.0);
}
