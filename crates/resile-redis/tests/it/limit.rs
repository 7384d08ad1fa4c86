//! A hundred members under one limit, with a demand of twice the limit that is skewed and moves.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use resile::{Never, Upstream};
use resile_redis::Fleet;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use crate::crew::{Mate, Times, all_share, limited};
use crate::server::Server;

const LIMIT: u32 = 1_000;
const BURST: u32 = LIMIT / 50;
const MEMBERS: u32 = 100;
const TIME: Duration = Duration::from_secs(5);
/// The time after which other members are the busy ones.
const MOVES: Duration = Duration::from_secs(2);
/// A call ends if it is not admitted in this time.
const PATIENCE: Duration = Duration::from_millis(300);

/// Returns the calls per second of a member at a time: twice the limit in all, by Zipf's law.
fn demand(member: u32, at: Duration) -> f64 {
    let sum: f64 = (1..=MEMBERS).map(weight).sum();
    let turns = u32::try_from(at.as_millis() / MOVES.as_millis()).unwrap();
    let rank = (member + 37 * turns) % MEMBERS + 1;
    2.0 * f64::from(LIMIT) * weight(rank) / sum
}

fn weight(rank: u32) -> f64 {
    1.0 / f64::from(rank)
}

/// Lets every member call by its demand. Returns the times of the admissions.
async fn admissions<F>(admit: impl Fn(u32) -> F) -> Times
where
    F: Future<Output = bool> + Send + 'static,
{
    let began = Instant::now();
    let mut callers = JoinSet::new();
    let mut calls: Vec<(Duration, u32)> = Vec::new();
    for member in 0..MEMBERS {
        // A part of the first pause, so the members do not call at one time.
        let mut at = Duration::from_millis(u64::from(member * 7 % 100));
        while at < TIME {
            calls.push((at, member));
            at += Duration::from_secs_f64(1.0 / demand(member, at));
        }
    }
    calls.sort_unstable();
    for (at, member) in calls {
        sleep_until(began + at).await;
        let call = timeout(PATIENCE, admit(member));
        callers.spawn(async move { (call.await == Ok(true)).then(|| began.elapsed()) });
    }
    let mut times: Vec<_> = callers.join_all().await.into_iter().flatten().collect();
    times.sort_unstable();
    Times(times)
}

/// A way to keep the limit, and its figures.
struct Row {
    name: &'static str,
    share: f64,
    worst: f64,
    scripts: f64,
}

impl Row {
    /// The first second is left out: it has the burst.
    fn new(name: &'static str, times: &Times, scripts: u64) -> Self {
        let from = Duration::from_secs(1);
        let within = times.between(from, TIME);
        let second = f64::from(LIMIT);
        let row = Self {
            name,
            share: within.count() / (second * TIME.saturating_sub(from).as_secs_f64()),
            worst: f64::from(u32::try_from(times.worst_second()).unwrap()) / second,
            scripts: f64::from(u32::try_from(scripts).unwrap()) / TIME.as_secs_f64(),
        };
        let Self { name, share, worst, scripts } = &row;
        println!(
            "{name:16} {:6.1} % of the limit  worst second {worst:5.3}  {scripts:6.0} scripts/s",
            share * 100.0
        );
        row
    }
}

/// Returns the number of scripts that the server has run.
async fn scripts(connection: &mut MultiplexedConnection) -> u64 {
    let mut info = redis::cmd("INFO");
    let text: String = info.arg("commandstats").query_async(connection).await.unwrap();
    let calls = |line: &str| line.split("calls=").nth(1)?.split(',').next()?.parse::<u64>().ok();
    let is_script = |line: &&str| line.starts_with("cmdstat_eval");
    text.lines().filter(is_script).filter_map(calls).sum()
}

/// Returns the mean time of a script at the server, in microseconds.
async fn cost(connection: &mut MultiplexedConnection) -> String {
    let mut info = redis::cmd("INFO");
    let text: String = info.arg("commandstats").query_async(connection).await.unwrap();
    let line = text.lines().find(|line| line.starts_with("cmdstat_evalsha")).unwrap_or_default();
    let part = line.split("usec_per_call=").nth(1).and_then(|rest| rest.split(',').next());
    part.unwrap_or_default().to_owned()
}

async fn admit(upstream: Arc<Upstream>) -> bool {
    let Ok(admission) = upstream.admit(Never).await else { return false };
    admission.succeeded();
    true
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_members_use_one_limit() {
    let Some(server) = Server::start_alone() else { return };
    let client = redis::Client::open(server.url()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();

    let split: Vec<_> = (0..MEMBERS).map(|_| Arc::new(limited(LIMIT / MEMBERS, 1))).collect();
    let times = admissions(|member| admit(Arc::clone(&split[member as usize]))).await;
    let split = Row::new("static split", &times, 0);

    let bucket = redis::Script::new(PER_CALL);
    let before = scripts(&mut connection).await;
    let times = admissions(|_| {
        let (bucket, mut connection) = (bucket.clone(), connection.clone());
        async move {
            loop {
                let mut call = bucket.prepare_invoke();
                let call = call.key("bucket").arg(LIMIT).arg(BURST);
                if call.invoke_async(&mut connection).await == Ok(1) {
                    return true;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    })
    .await;
    let per_call = Row::new("script per call", &times, scripts(&mut connection).await - before);

    // Each member has a connection of its own, as a process has.
    let crew: Vec<_> = (0..MEMBERS)
        .map(|_| {
            // A hundred processes share the two cores of a test machine.
            let fleet = Fleet::new(&server.url()).unwrap().with_timeout(PATIENCE);
            Mate::join(&fleet, limited(LIMIT, BURST))
        })
        .collect();
    all_share(&crew).await;
    let () = redis::cmd("CONFIG").arg("RESETSTAT").query_async(&mut connection).await.unwrap();
    let before = scripts(&mut connection).await;
    let upstreams: Vec<_> = crew.iter().map(|mate| Arc::clone(&mate.upstream)).collect();
    let times = admissions(|member| admit(Arc::clone(&upstreams[member as usize]))).await;
    let fleet = Row::new("fleet", &times, scripts(&mut connection).await - before);
    println!(
        "a script takes {} us, with {MEMBERS} members that lack units",
        cost(&mut connection).await
    );

    assert!(fleet.share >= 0.985, "{} admitted {}", fleet.name, fleet.share);
    // The account saves up to 0.15 s while members lack units, and a busy machine makes all of them
    // late.
    assert!(fleet.worst <= 1.12, "{} admitted {} in a second", fleet.name, fleet.worst);
    // One script for the lease in 100 ms, and one each for the membership, the limits and what was learned a
    // second.
    let most = f64::from(MEMBERS) * (10.0 + 3.0 * 1.3);
    assert!(fleet.scripts <= most, "{} scripts a second", fleet.scripts);
    assert!(split.share < 0.85 && per_call.scripts > 2.0 * fleet.scripts);
}

/// A plain token bucket, as many programs ask it before every call.
const PER_CALL: &str = "
local now = redis.call('TIME')
now = now[1] + now[2] / 1000000
local limit, burst = tonumber(ARGV[1]), tonumber(ARGV[2])
local state = redis.call('HMGET', KEYS[1], 'level', 'time')
local level, time = tonumber(state[1]) or burst, tonumber(state[2]) or now
level = math.min(burst, level + (now - time) * limit)
local taken = 0
if level >= 1 then level, taken = level - 1, 1 end
redis.call('HSET', KEYS[1], 'level', string.format('%.9f', level), 'time', string.format('%.6f', now))
return taken";
