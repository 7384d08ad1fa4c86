//! The waits of calls while the server is away.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use resile::Never;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use crate::crew::Mate;
use crate::proxy::Way;
use crate::scene::{LIMIT, MEMBERS, Scene};

/// The length of a fault.
const FAULT: Duration = Duration::from_secs(4);

/// The bound that the guide states: three round trips to a near server, 200 ms, and the next unit of the
/// share, with room for a busy machine.
const BOUND: Duration = Duration::from_millis(500);

/// All calls at half of the limit, with the begin and the wait of each.
struct Calls {
    began: Instant,
    waits: Arc<Mutex<Vec<(Duration, Duration)>>>,
    callers: JoinSet<()>,
}

impl Calls {
    fn begin(crew: &[Mate]) -> Self {
        let (began, waits) = (Instant::now(), Arc::<Mutex<Vec<_>>>::default());
        let mut callers = JoinSet::new();
        let pause = Duration::from_secs(2) * MEMBERS / LIMIT;
        for (number, mate) in (0..).zip(crew) {
            let (upstream, waits) = (Arc::clone(&mate.upstream), Arc::clone(&waits));
            callers.spawn(async move {
                let mut calls = JoinSet::new();
                let mut at = began + pause * number / MEMBERS;
                loop {
                    sleep_until(at).await;
                    let (upstream, waits) = (Arc::clone(&upstream), Arc::clone(&waits));
                    calls.spawn(async move {
                        let start = Instant::now();
                        if let Ok(admission) = upstream.admit(Never).await {
                            let wait = (start - began, start.elapsed());
                            waits.lock().unwrap_or_else(PoisonError::into_inner).push(wait);
                            admission.succeeded();
                        }
                    });
                    at += pause;
                }
            });
        }
        Self { began, waits, callers }
    }

    /// Returns the waits of the calls that began since a time, in order.
    fn since(&self, from: Duration) -> Vec<Duration> {
        let waits = self.waits.lock().unwrap_or_else(PoisonError::into_inner);
        let mut waits: Vec<_> =
            waits.iter().filter(|(at, _)| *at >= from).map(|(_, wait)| *wait).collect();
        waits.sort_unstable();
        waits
    }
}

async fn waits(name: &'static str, begin: impl Fn(&mut Scene), end: impl Fn(&mut Scene)) {
    let Some(mut scene) = Scene::start(name, 1).await else { return };
    crate::crew::all_share(&scene.crew).await;
    let mut calls = Calls::begin(&scene.crew);
    sleep(Duration::from_secs(2)).await;
    let from = calls.began.elapsed();
    begin(&mut scene);
    sleep(FAULT).await;
    end(&mut scene);
    sleep(Duration::from_secs(3)).await;
    calls.callers.shutdown().await;
    let waits = calls.since(from);
    let at = |part: usize| waits[(waits.len() - 1) * part / 1_000];
    let late = waits.iter().filter(|wait| **wait > Duration::from_millis(50)).count();
    println!(
        "{name:12} {} calls, {late} waited for more than 50 ms; p50 {:.1?}, p99 {:.1?}, p99.9 {:.1?}, \
         the longest {:.1?}",
        waits.len(),
        at(500),
        at(990),
        at(999),
        at(1_000),
    );
    assert!(waits.len() > 800, "{name}: {} calls", waits.len());
    assert!(at(1_000) <= BOUND, "{name}: {:?}", at(1_000));
}

/// The calls need half of the limit, so each wait has the fault as its cause.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_waits_for_a_bounded_time_while_the_server_is_away() {
    tokio::join!(
        waits("killed", |scene| scene.server.kill(), |scene| scene.server.restart()),
        waits("stopped", |scene| scene.server.stop_signal(), |scene| scene.server.cont_signal()),
        waits(
            "no answers",
            |scene| scene.proxies[0].set(Way::Silent),
            |scene| scene.proxies[0].set(Way::Pass)
        ),
    );
}
