//! A provider whose burst is that of the quota.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use resile::{Cooldown, Never, Verdict};
use resile_redis::Fleet;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::crew::{Load, Mate, all_share, limited, until};
use crate::server::Server;

const LIMIT: u32 = 60;
const BURST: u32 = 12;
const SECOND: Duration = Duration::from_secs(1);

/// A provider: a bucket, and the calls that it accepted and refused.
struct Provider {
    level: f64,
    at: Instant,
    accepted: u32,
    refused: u32,
}

impl Provider {
    /// Answers a call. A refusal asks for a pause of a second.
    fn answer(&mut self) -> Option<Verdict> {
        let elapsed = self.at.elapsed().as_secs_f64();
        self.at = Instant::now();
        self.level = elapsed.mul_add(f64::from(LIMIT), self.level).min(f64::from(BURST));
        if self.level < 1.0 {
            self.refused += 1;
            return Some(Verdict::throttled().after(SECOND));
        }
        self.level -= 1.0;
        self.accepted += 1;
        None
    }
}

/// At rest the members held their leases beyond the burst of the account. The first calls after a hold
/// were then refused, which held all members again, and a third of the limit was left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_is_over_after_its_release() {
    let Some(server) = Server::start(&[]) else { return };
    let upstream = || limited(LIMIT, BURST).with_cooldown(Cooldown::new());
    let join = |_| Mate::join(&Fleet::new(&server.url()).unwrap(), upstream());
    let crew: Vec<_> = (0..4).map(join).collect();
    all_share(&crew).await;
    let (at, level) = (Instant::now(), f64::from(BURST));
    let provider = Arc::new(Mutex::new(Provider { level, at, accepted: 0, refused: 0 }));
    let mut callers = JoinSet::new();
    for lane in 0..32_u32 {
        let (upstream, provider) =
            (Arc::clone(&crew[lane as usize % 4].upstream), Arc::clone(&provider));
        callers.spawn(async move {
            sleep(Duration::from_millis(8) * lane).await;
            loop {
                let admission = upstream.admit(Never).await.unwrap();
                let verdict = provider.lock().unwrap().answer();
                sleep(Duration::from_millis(20)).await;
                match verdict {
                    Some(verdict) => admission.settle(&verdict),
                    None => admission.succeeded(),
                }
                sleep(Duration::from_millis(240)).await;
            }
        });
    }
    sleep(2 * SECOND).await;
    crew[0].upstream.hold(3 * SECOND);
    sleep(3 * SECOND).await;
    let (before, refused) = {
        let provider = provider.lock().unwrap();
        (provider.accepted, provider.refused)
    };
    sleep(8 * SECOND).await;
    let (accepted, refused) = {
        let provider = provider.lock().unwrap();
        (provider.accepted - before, provider.refused - refused)
    };
    println!("{accepted} accepted in the 8 s after a hold, and {refused} refused");
    assert!(accepted >= 6 * LIMIT, "{accepted} of {} accepted, {refused} refused", 8 * LIMIT);
}

/// The account was full at the refusal. The provider counts nothing during the hold that could be used after it, so
/// the fleet then has what arrives from its end on, and no burst.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::cast_precision_loss, reason = "counts of a test are small")]
async fn after_a_refusal_a_fleet_has_no_burst() {
    let Some(server) = Server::start(&[]) else { return };
    let upstream = || limited(LIMIT, 40).with_cooldown(Cooldown::new());
    let join = |_| Mate::join(&Fleet::new(&server.url()).unwrap(), upstream());
    let crew: Vec<_> = (0..4).map(join).collect();
    all_share(&crew).await;
    let admission = crew[0].upstream.admit(Never).await.unwrap();
    admission.settle(&Verdict::throttled().after(2 * SECOND));
    let mut load = Load::new();
    let end = load.now() + crew[0].upstream.held().unwrap();
    let is_held = || crew.iter().all(|mate| mate.upstream.held().is_some());
    until("a common hold", is_held, || format!("{:?}", crew[3].member.snapshot())).await;
    for mate in &crew {
        load.add(mate, 20);
    }
    sleep((end + SECOND).saturating_sub(load.now())).await;
    let times = load.times().since(end);
    let beyond =
        |(index, at): (usize, &Duration)| (index + 1) as f64 - f64::from(LIMIT) * at.as_secs_f64();
    let most = times.0.iter().enumerate().map(beyond).fold(0.0, f64::max);
    println!("{} in the second after a hold, {most:.1} beyond the refill", times.count());
    assert!(most <= 8.0, "{most:.1} beyond the refill: {times:?}");
    assert!(times.count() >= f64::from(LIMIT) / 2.0, "{times:?}");
}
