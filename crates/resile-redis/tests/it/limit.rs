//! Many members under one limit.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use resile::quota::{Quota, Rate};
use resile::{Never, Upstream};
use resile_redis::Fleet;
use tokio::time::{Instant, sleep_until};

use crate::server::Server;

const LIMIT: u32 = 1_000;
const MEMBERS: usize = 100;

fn zipf(rank: usize) -> f64 {
    1.0 / (rank as f64 + 1.0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_members_use_one_limit() {
    let Some(server) = Server::start(&[]) else { return };
    let seconds: u64 = std::env::var("SECONDS").ok().and_then(|s| s.parse().ok()).unwrap_or(6);
    let moves: u64 = std::env::var("MOVES").ok().and_then(|s| s.parse().ok()).unwrap_or(3);
    let sum: f64 = (0..MEMBERS).map(zipf).sum();
    let began = Instant::now() + Duration::from_millis(500);
    let admitted = Arc::new(Mutex::new(Vec::new()));
    let refused = Arc::new(AtomicU64::new(0));
    let mut members = Vec::new();
    let mut tasks = Vec::new();
    for index in 0..MEMBERS {
        let quota =
            Quota::new().with_requests(Rate::per_second(LIMIT).with_burst(50)).with_queue(64);
        let upstream = Arc::new(Upstream::new("shared").with_quota(quota));
        let fleet = Fleet::new(&server.url()).unwrap();
        members.push(fleet.join(Arc::clone(&upstream)).unwrap());
        let (admitted, refused) = (Arc::clone(&admitted), Arc::clone(&refused));
        tasks.push(tokio::spawn(async move {
            let mut at = began;
            let end = began + Duration::from_secs(seconds);
            while at < end {
                let phase = at.duration_since(began).as_secs() / moves;
                let rank = (index + 37 * phase as usize) % MEMBERS;
                let per_second = 2.0 * f64::from(LIMIT) * zipf(rank) / sum;
                at += Duration::from_secs_f64(1.0 / per_second);
                sleep_until(at).await;
                let (upstream, admitted) = (Arc::clone(&upstream), Arc::clone(&admitted));
                let refused = Arc::clone(&refused);
                tokio::spawn(async move {
                    match tokio::time::timeout(Duration::from_millis(500), upstream.admit(Never))
                        .await
                    {
                        Ok(Ok(mut admission)) => {
                            admitted.lock().unwrap().push(began.elapsed());
                            admission.record(resile::quota::Usage::new());
                            drop(admission);
                        }
                        _ => {
                            refused.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    let mut times = admitted.lock().unwrap().clone();
    times.sort();
    let from = Duration::from_secs(1);
    let to = Duration::from_secs(seconds);
    let within = times.iter().filter(|at| **at >= from && **at < to).count() as f64;
    let share = within / (f64::from(LIMIT) * (to - from).as_secs_f64());
    let mut worst = 0;
    let mut first = 0;
    for (index, at) in times.iter().enumerate() {
        while *at - times[first] >= Duration::from_secs(1) {
            first += 1;
        }
        worst = worst.max(index - first + 1);
    }
    let exchanges: u64 = members.iter().map(|m| m.snapshot().exchanges).sum();
    let failures: u64 = members.iter().map(|m| m.snapshot().failures).sum();
    let elapsed = began.elapsed().as_secs_f64() + 0.5;
    println!(
        "share {share:.4} worst {worst} exchanges/s {:.0} failures {failures} refused {} state {:?}",
        exchanges as f64 / elapsed,
        refused.load(Ordering::Relaxed),
        members[0].snapshot()
    );
}
