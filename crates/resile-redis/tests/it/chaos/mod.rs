//! Random faults, one after the other, while members come, leave and die.

mod crowd;
mod plan;

use std::time::Duration;

use redis::Value;
use tokio::time::{Instant, sleep};

use crate::proxy::{Proxy, Way};
use crate::scene::{BURST, CALLERS, LIMIT, run};
use crate::server::Server;
use crate::steps::step_back;
use crowd::{Crowd, LEAST, MOST};
use plan::{Change, Event, Fault, WAYS, events};

/// The time in which all members share and the calls go on, after each event.
const QUIET: Duration = Duration::from_millis(2_500);

/// The time in which each member has noticed a fault.
const NOTICE: Duration = Duration::from_millis(800);

/// The most admissions beyond the rate without a fault, with the most members. The last part is for a
/// busy machine.
const CALM: u32 = BURST + LEASES + LIMIT / 10;
const LEASES: u32 = LIMIT / 10 + MOST * (CALLERS + 1);

/// Two servers, of which one is the primary, the ways to it, and the members.
struct World {
    primary: Server,
    spare: Server,
    ways: Vec<Proxy>,
    crowd: Crowd,
}

impl World {
    async fn start() -> Option<Self> {
        let (primary, spare) = (Server::start(&[])?, Server::start(&[])?);
        let mut ways = Vec::new();
        for _ in 0..WAYS {
            ways.push(Proxy::start(primary.port()).await);
        }
        let mut crowd = Crowd::new(ways.iter().map(Proxy::url).collect());
        for _ in 0..6 {
            crowd.join();
        }
        Some(Self { primary, spare, ways, crowd })
    }

    /// Runs an event to the end of its fault. Returns the units that it may cost.
    async fn run(&mut self, event: &Event) -> u32 {
        let Event { fault, change, between } = *event;
        // The members that a bad way cuts off use their share beside the others. So does one that joins
        // without a server.
        let cut = self.crowd.members_at(fault.way());
        let alone = |members: u32, time: Duration| {
            let seconds = (time + Duration::from_millis(1_200)).as_secs_f64();
            let units = f64::from(LIMIT) * seconds * f64::from(members) / f64::from(LEAST);
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "few")]
            let units = units.ceil() as u32;
            units
        };
        let newcomer = u32::from(matches!(change, Change::Joins));
        let outage = LEASES + LIMIT / 4;
        match fault {
            Fault::Killed(time) => {
                self.primary.kill();
                self.change(change, between).await;
                sleep(time).await;
                self.primary.restart();
                outage + alone(newcomer, time)
            }
            Fault::Stopped(time) => {
                self.primary.stop_signal();
                self.change(change, between).await;
                sleep(time).await;
                self.primary.cont_signal();
                outage + alone(newcomer, time)
            }
            Fault::FailOver(lost) => {
                self.fail_over(change, between, lost).await;
                outage + LEASES
            }
            Fault::StepBack(by) => {
                step_back(&self.primary, by).await;
                self.change(change, between).await;
                0
            }
            Fault::Flushed => {
                run(&self.primary, &["FLUSHALL"]).await;
                self.change(change, between).await;
                LEASES
            }
            Fault::ScriptsFlushed => {
                run(&self.primary, &["SCRIPT", "FLUSH"]).await;
                self.change(change, between).await;
                0
            }
            Fault::Way(at, way, time) => {
                let units = alone(cut, time + between) + alone(newcomer, time);
                self.ways[at].set(way);
                self.change(change, between).await;
                sleep(time).await;
                self.ways[at].set(Way::Pass);
                units + outage
            }
            Fault::Stranded(at) => {
                let units = alone(cut + newcomer, Duration::from_secs(3));
                self.ways[at].strand();
                self.change(change, between).await;
                units + outage
            }
            Fault::Repeated(requests) => {
                let count = self.repeat(requests).await;
                self.change(change, between).await;
                println!("    {count} requests came once more");
                0
            }
        }
    }

    /// Lets a replica take over. It does not have the last writes.
    async fn fail_over(&mut self, change: Change, between: Duration, lost: Duration) {
        let port = self.primary.port().to_string();
        run(&self.spare, &["REPLICAOF", "127.0.0.1", &port]).await;
        let began = Instant::now();
        while !is_synced(&self.spare).await {
            assert!(began.elapsed() < Duration::from_secs(20), "the replica got no data");
            sleep(Duration::from_millis(20)).await;
        }
        run(&self.spare, &["REPLICAOF", "NO", "ONE"]).await;
        self.change(change, between).await;
        sleep(lost).await;
        for way in &self.ways {
            way.switch(self.spare.port());
        }
        let port = self.spare.port().to_string();
        run(&self.primary, &["REPLICAOF", "127.0.0.1", &port]).await;
        std::mem::swap(&mut self.primary, &mut self.spare);
    }

    async fn change(&mut self, change: Change, after: Duration) {
        sleep(after).await;
        match change {
            Change::Nothing => {}
            Change::Joins => self.crowd.join(),
            Change::Leaves(which) => self.crowd.leave(which),
            Change::Dies(which) => self.crowd.die(which),
        }
    }

    /// Sends the last requests of scripts once more. Returns their number.
    async fn repeat(&self, requests: usize) -> usize {
        let client = redis::Client::open(self.primary.url()).unwrap();
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
        let mut count = 0;
        for way in &self.ways {
            let commands = commands(&way.requests());
            for words in commands.iter().rev().take(requests).rev() {
                let mut command = redis::cmd("EVALSHA");
                command.arg(&words[1..]);
                let _: Result<Value, _> = command.query_async(&mut connection).await;
                count += 1;
            }
        }
        count
    }
}

/// Returns whether a replica has the data of its primary.
async fn is_synced(replica: &Server) -> bool {
    let info = run(replica, &["INFO", "replication"]).await;
    let text: String = redis::from_redis_value(info).unwrap_or_default();
    text.contains("master_link_status:up")
}

/// Returns the last commands that run a script, among the bytes of requests.
fn commands(bytes: &[u8]) -> Vec<Vec<Vec<u8>>> {
    const WORD: &[u8] = b"\r\n$7\r\nEVALSHA\r\n";
    let bytes = &bytes[bytes.len().saturating_sub(200_000)..];
    let found = bytes.windows(WORD.len()).enumerate().filter(|(_, window)| *window == WORD);
    // The array begins with a star and the number of its words. A broken one is left out.
    let starts = found.filter_map(|(at, _)| bytes[..at].iter().rposition(|byte| *byte == b'*'));
    let parse = |start: usize| redis::parse_redis_value(&bytes[start..]).ok();
    starts.filter_map(|start| redis::from_redis_value(parse(start)?).ok()).collect()
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Runs for `CHAOS_SECONDS` with the faults of `CHAOS_SEED`. The faults of a seed are always the same,
/// and the machine decides the rest.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_fault_of_a_seed_breaks_the_limit_or_stops_the_calls() {
    let (seed, seconds) = (number("CHAOS_SEED", 1), number("CHAOS_SECONDS", 20));
    let Some(mut world) = World::start().await else { return };
    world.crowd.all_share().await;
    sleep(Duration::from_secs(1)).await;
    let (mut allowed, began) = (CALM, Instant::now());
    for (number, event) in events(seed).enumerate() {
        if began.elapsed() >= Duration::from_secs(seconds) {
            break;
        }
        let name = format!("CHAOS_SEED={seed}, event {number}, {event:?}");
        println!("{:5.1} s  {event:?}", began.elapsed().as_secs_f64());
        let from = world.crowd.now().saturating_sub(Duration::from_secs(1));
        let cost = world.run(&event).await;
        let ended = world.crowd.now();
        sleep(NOTICE).await;
        world.crowd.all_share().await;
        let quiet = world.crowd.now();
        sleep(QUIET).await;
        let to = world.crowd.now();
        let times = world.crowd.times();
        let excess = times.between(from, to).excess(f64::from(LIMIT));
        let used = |from: Duration, to: Duration| {
            let units = f64::from(LIMIT) * to.saturating_sub(from).as_secs_f64();
            times.between(from, to).count() / units
        };
        let rest = used(quiet, to);
        println!(
            "    {} members, shared after {:.1?}, {excess:.0} of {} units beyond the rate, then \
             {:.1} % used",
            world.crowd.count(),
            quiet.saturating_sub(ended),
            CALM + cost,
            rest * 100.0
        );
        assert!(excess <= f64::from(CALM + cost), "{name}: {excess} units beyond the rate");
        assert!(rest >= 0.9, "{name}: {rest} of the limit is used afterwards");
        world.crowd.all_live();
        allowed += cost;
    }
    let times = world.crowd.times();
    let excess = times.excess(f64::from(LIMIT));
    println!("{excess:.0} units beyond the rate in all, {allowed} allowed");
    assert!(excess <= f64::from(allowed), "CHAOS_SEED={seed}: {excess} units in all");
    world.crowd.end().await;
}
