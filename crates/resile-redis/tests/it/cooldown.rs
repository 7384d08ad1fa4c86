//! A hold that one member was told holds all.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use resile::{Cooldown, Never, RetryPolicy, Upstream, Verdict, retry};
use resile_redis::Fleet;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::crew::{Mate, all_share, until};
use crate::server::Server;

const MEMBERS: usize = 8;

fn cooled() -> Upstream {
    Upstream::new("cooled").with_cooldown(Cooldown::new())
}

async fn crew(server: &Server) -> Vec<Mate> {
    let join = |_| Mate::join(&Fleet::new(&server.url()).unwrap(), cooled());
    let crew: Vec<_> = (0..MEMBERS).map(join).collect();
    all_share(&crew).await;
    crew
}

fn held(mate: &Mate) -> Duration {
    mate.upstream.held().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_hold_holds_all_and_does_not_grow() {
    let Some(server) = Server::start(&[]) else { return };
    let crew = crew(&server).await;
    let began = Instant::now();
    crew[0].upstream.hold(Duration::from_secs(5));
    let all = || crew.iter().all(|mate| held(mate) > Duration::from_secs(1));
    let took =
        until("a common hold", all, || format!("{:?}", crew.iter().map(held).collect::<Vec<_>>()))
            .await;
    println!("a hold reached the last of {MEMBERS} members after {took:.1?}");
    assert!(took < Duration::from_secs(1));

    // A shorter hold of another member changes nothing. The copies of a hold do not make it longer.
    crew[1].upstream.hold(Duration::from_millis(100));
    sleep(Duration::from_secs(2)).await;
    let left = Duration::from_secs(5).saturating_sub(began.elapsed());
    for mate in &crew {
        let apart = held(mate).abs_diff(left);
        assert!(apart < Duration::from_millis(300), "{:?} left instead of {left:?}", held(mate));
    }

    // A late member reads the hold.
    let late = Mate::join(&Fleet::new(&server.url()).unwrap(), cooled());
    let is_held = || held(&late) > Duration::from_millis(100);
    until("the hold of a late member", is_held, || format!("{:?}", late.member.snapshot())).await;
    // A longer hold is news for all.
    late.upstream.hold(Duration::from_secs(8));
    let all = || crew.iter().all(|mate| held(mate) > Duration::from_secs(6));
    until("the longer hold", all, || format!("{:?}", crew.iter().map(held).collect::<Vec<_>>()))
        .await;
}

/// The provider is at its limit for this time.
#[derive(Debug)]
struct Limited(Duration);

impl std::fmt::Display for Limited {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "limited for {:?}", self.0)
    }
}

/// A provider that is at its limit for a second now and then, for all processes.
struct Provider {
    limited_until: Mutex<Instant>,
    refusals: AtomicU32,
}

impl Provider {
    async fn ask(&self) -> Result<(), Limited> {
        sleep(Duration::from_millis(1)).await;
        let now = Instant::now();
        let left = self.limited_until.lock().unwrap().saturating_duration_since(now);
        if left.is_zero() {
            return Ok(());
        }
        self.refusals.fetch_add(1, Ordering::Relaxed);
        Err(Limited(left))
    }
}

/// Returns the refusals after each of three limits of a second.
async fn refusals(upstreams: &[Arc<Upstream>]) -> Vec<u32> {
    let (limited_until, refusals) = (Mutex::new(Instant::now()), AtomicU32::new(0));
    let provider = Arc::new(Provider { limited_until, refusals });
    let mut callers = JoinSet::new();
    for (index, upstream) in upstreams.iter().cloned().enumerate() {
        let provider = Arc::clone(&provider);
        callers.spawn(async move {
            sleep(Duration::from_millis(37) * u32::try_from(index).unwrap()).await;
            loop {
                let classify = |limited: &Limited| Verdict::throttled().after(limited.0);
                let policy = RetryPolicy::new().with_classifier(classify);
                let call = retry(|_| provider.ask(), policy, Never).on(upstream.display());
                let _ = call.await;
                sleep(Duration::from_millis(300)).await;
            }
        });
    }
    let mut rounds = Vec::new();
    for _ in 0..3 {
        sleep(Duration::from_millis(400)).await;
        let before = provider.refusals.load(Ordering::Relaxed);
        *provider.limited_until.lock().unwrap() = Instant::now() + Duration::from_secs(1);
        sleep(Duration::from_millis(1_600)).await;
        rounds.push(provider.refusals.load(Ordering::Relaxed) - before);
    }
    rounds
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fleet_gets_a_fifth_of_the_refusals() {
    let Some(server) = Server::start(&[]) else { return };
    let alone: Vec<_> = (0..MEMBERS).map(|_| Arc::new(cooled())).collect();
    let crew = crew(&server).await;
    let upstreams: Vec<_> = crew.iter().map(|mate| Arc::clone(&mate.upstream)).collect();
    let (alone, fleet) = (refusals(&alone).await, refusals(&upstreams).await);
    println!("refusals after a 429, {MEMBERS} processes: alone {alone:?}, as a fleet {fleet:?}");
    // The middle one of three limits. A stall of this machine in one of them does not count.
    let [alone, fleet] = [alone, fleet].map(|mut rounds| {
        rounds.sort_unstable();
        rounds[rounds.len() / 2]
    });
    assert!(fleet * 5 <= alone, "{fleet} refusals of a fleet, {alone} without");
}
