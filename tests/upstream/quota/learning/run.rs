//! A program at its limit: as many callers as the limit needs, each with a latency of its own.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use resile::observe::{Event, EventKind};
use resile::quota::{self, Dimension, Finding, Learning, Rate};
use resile::{Cooldown, Never, Quota, RetryPolicy, Upstream, Verdict, retry};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use super::provider::{Counts, Provider, Reports};

/// The world of one run.
#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) counts: Counts,
    /// The limit of the provider, and later limits with their times.
    pub(super) limit: u32,
    pub(super) later: Vec<(u64, u32)>,
    /// The limit that the quota is built with.
    pub(super) configured: u32,
    pub(super) period: Duration,
    pub(super) burst: Option<u32>,
    /// The median of the latency in milliseconds. It is lognormal with a σ of a half.
    pub(super) latency: f64,
    /// Whether a refusal says when to come back.
    pub(super) has_hint: bool,
    /// The wait that each refusal names in place of the exact one, as a header of whole seconds does.
    pub(super) retry_after: Option<Duration>,
    pub(super) has_cooldown: bool,
    pub(super) reports: Reports,
    pub(super) learning: Learning,
    pub(super) seed: u64,
}

impl World {
    pub(super) fn per_minute(counts: Counts, limit: u32, seed: u64) -> Self {
        Self {
            counts,
            limit,
            later: Vec::new(),
            configured: limit,
            period: Duration::from_secs(60),
            burst: None,
            latency: 300.0,
            has_hint: true,
            retry_after: None,
            has_cooldown: true,
            reports: Reports::Nothing,
            learning: Learning::Lower,
            seed,
        }
    }

    pub(super) fn per_second(counts: Counts, limit: u32, seed: u64) -> Self {
        let period = Duration::from_secs(1);
        Self { period, latency: 10.0, ..Self::per_minute(counts, limit, seed) }
    }
}

/// What happened, in seconds since the start.
#[derive(Debug, Default)]
pub(super) struct Record {
    accepted: Vec<f64>,
    refused: Vec<f64>,
    pub(super) findings: Vec<(f64, Finding)>,
    /// The share in use at each second.
    pub(super) shares: Vec<f64>,
}

impl Record {
    pub(super) fn count(&self, from: u64, to: u64) -> (f64, f64) {
        let within = |times: &[f64]| {
            times.iter().filter(|time| (from as f64..to as f64).contains(*time)).count() as f64
        };
        (within(&self.accepted), within(&self.refused))
    }

    /// Returns the used part of a limit, and the refusals per 1,000 accepted requests.
    pub(super) fn score(&self, world: &World, limit: u32, from: u64, to: u64) -> (f64, f64) {
        let (accepted, refused) = self.count(from, to);
        let most = f64::from(limit) * (to - from) as f64 / world.period.as_secs_f64();
        (accepted / most, 1_000.0 * refused / accepted.max(1.0))
    }

    /// Returns the first second from which on the share fits.
    pub(super) fn first(&self, from: u64, fits: impl Fn(f64) -> bool) -> Option<u64> {
        let shares = self.shares.iter().enumerate().skip(from as usize);
        shares.into_iter().find(|(_, share)| fits(**share)).map(|(second, _)| second as u64)
    }
}

#[derive(Debug, thiserror::Error)]
#[error("refused")]
struct Refused(Option<Duration>);

/// Runs a world for so many seconds of virtual time.
pub(super) async fn run(world: &World, seconds: u64) -> Record {
    let rate = Rate::new(u64::from(world.configured), world.period);
    let rate = world.burst.map_or(rate, |burst| rate.with_burst(u64::from(burst)));
    let record = Arc::new(Mutex::new(Record::default()));
    let began = Instant::now();
    let observer = {
        let record = Arc::clone(&record);
        move |event: &Event<'_>| {
            if let EventKind::Learned(finding) = event.kind {
                let at = began.elapsed().as_secs_f64();
                record.lock().unwrap().findings.push((at, finding));
            }
        }
    };
    let quota = Quota::new().with_requests(rate).with_learning(world.learning);
    let upstream = Upstream::new("model").with_quota(quota).with_shared_observer(observer);
    let upstream =
        if world.has_cooldown { upstream.with_cooldown(Cooldown::new()) } else { upstream };
    let upstream = Arc::new(upstream.with_seed(world.seed));
    let provider = Arc::new(Mutex::new(Provider::new(world.counts, world.limit, world.period)));
    let per_second = f64::from(world.configured) / world.period.as_secs_f64();
    let callers = (per_second * world.latency / 1_000.0 * 3.0) as u64 + 16;
    let mut tasks = JoinSet::new();
    for caller in 0..callers {
        let (upstream, provider, record) = (upstream.clone(), provider.clone(), record.clone());
        let world = world.clone();
        let mut rng = ChaCha8Rng::seed_from_u64(world.seed << 32 | caller);
        tasks.spawn(async move {
            let policy =
                RetryPolicy::new().with_attempts(1).with_classifier(|Refused(hint): &Refused| {
                    match hint {
                        Some(hint) => Verdict::throttled().after(*hint),
                        None => Verdict::throttled(),
                    }
                });
            loop {
                let [a, b]: [f64; 2] = [rng.random(), rng.random()];
                let normal = (-2.0 * (1.0 - a).ln()).sqrt() * (b * std::f64::consts::TAU).cos();
                let way = Duration::from_secs_f64(world.latency / 2_000.0 * (normal / 2.0).exp());
                let ask = |_| async {
                    sleep(way).await;
                    let at = began.elapsed();
                    let (answer, report) = {
                        let mut provider = provider.lock().unwrap();
                        (provider.ask(at), provider.report(world.reports))
                    };
                    sleep(way).await;
                    if let Some(report) = report {
                        quota::learn(report);
                    }
                    let mut record = record.lock().unwrap();
                    let at = at.as_secs_f64();
                    match answer {
                        Ok(()) => record.accepted.push(at),
                        Err(wait) => {
                            record.refused.push(at);
                            let wait = world.retry_after.unwrap_or(wait);
                            return Err(Refused(Some(wait).filter(|_| world.has_hint)));
                        }
                    }
                    Ok(())
                };
                let _ = retry(ask, &policy, Never).on(&*upstream).await;
                tokio::task::yield_now().await;
            }
        });
    }
    let mut later = world.later.iter().copied().peekable();
    for second in 0..seconds {
        sleep_until(began + Duration::from_secs(second)).await;
        if let Some((_, limit)) = later.next_if(|(at, _)| *at <= second) {
            provider.lock().unwrap().set_limit(limit);
        }
        let used = upstream.quota_rate(Dimension::Requests).unwrap();
        let share = f64::from(used.count()) / f64::from(world.configured);
        record.lock().unwrap().shares.push(share);
    }
    tasks.shutdown().await;
    std::mem::take(&mut *record.lock().unwrap())
}
