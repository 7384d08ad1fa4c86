//! What jitter is worth where clients contend (Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015).
//!
//! Clients change one row under optimistic concurrency control: each reads, then writes, and a write holds only
//! if no other did since the read. A hop of the network takes |Normal(10, 2)| ms.

use std::time::Duration;

use rand::RngExt;
use resile::{Backoff, Jitter};

use super::Published::{Below, Between, Percent, PlusMinus};
use super::sim::{Agenda, mean, normal, on_all_cores, seeded};
use super::{Check, Progress, Size};

const CAP: Duration = Duration::from_secs(2);
/// The curve of the source begins at 10 ms: its first retry is 5 · 2¹.
const EXPONENTIAL: Backoff = Backoff::exponential(Duration::from_millis(10)).with_cap(CAP);
/// Its decorrelated walk begins at 5 ms.
const WALK: Backoff =
    Backoff::exponential(Duration::from_millis(5)).with_cap(CAP).with_jitter(Jitter::Decorrelated);

/// How many clients the published table is for.
const PUBLISHED: usize = 100;

const KINDS: [(&str, Backoff); 5] = [
    ("no delay", Backoff::none()),
    ("no jitter", EXPONENTIAL.with_jitter(Jitter::None)),
    ("equal jitter", EXPONENTIAL.with_jitter(Jitter::Equal)),
    ("full jitter", EXPONENTIAL.with_jitter(Jitter::Full)),
    ("decorrelated jitter", WALK),
];

/// What one kind of delay costs, by the number of clients.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) name: &'static str,
    pub(crate) points: Vec<Point>,
}

/// Means over several seeds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    pub(crate) clients: usize,
    pub(crate) writes: f64,
    pub(crate) seconds: f64,
}

#[derive(Clone, Copy)]
struct Client {
    retry: u32,
    delay: Duration,
}

enum Event {
    /// A read reaches the row.
    Read(usize),
    /// What was read reaches the client.
    HasRead(usize, u64),
    /// A write reaches the row, made on that version.
    Write(usize, u64),
    /// The client is told whether its write held.
    HasWritten(usize, bool),
}

/// The writes made and the time taken until every client has had one that held.
fn run(backoff: Backoff, count: usize, seed: u64) -> (u32, Duration) {
    let mut rng = seeded(seed);
    let mut agenda = Agenda::new();
    let mut clients = vec![Client { retry: 0, delay: Duration::ZERO }; count];
    let (mut version, mut writes, mut done) = (0, 0, 0);
    for client in 0..count {
        agenda.after(normal(0.010, 0.002, &mut rng), Event::Read(client));
    }
    while let Some(event) = agenda.next_before(Duration::MAX) {
        let hop = normal(0.010, 0.002, &mut rng);
        match event {
            Event::Read(client) => agenda.after(hop, Event::HasRead(client, version)),
            Event::HasRead(client, known) => agenda.after(hop, Event::Write(client, known)),
            Event::Write(client, known) => {
                writes += 1;
                let held = known == version;
                version += u64::from(held);
                agenda.after(hop, Event::HasWritten(client, held));
            }
            Event::HasWritten(_, true) => {
                done += 1;
                if done == count {
                    break;
                }
            }
            Event::HasWritten(client, false) => {
                let state = &mut clients[client];
                state.retry += 1;
                state.delay =
                    backoff.delay(state.retry, state.delay, |range| rng.random_range(range));
                agenda.after(hop + state.delay, Event::Read(client));
            }
        }
    }
    assert_eq!(done, count, "every client gets its turn");
    (writes, agenda.now())
}

pub(crate) fn measure(size: Size, progress: Progress<'_>) -> Vec<Line> {
    let seeds = size.pick(10, 100);
    let counts: &[usize] = size.pick(&[20, 50, PUBLISHED], &[10, 25, 50, 75, PUBLISHED, 150, 200]);
    let jobs: Vec<_> = KINDS
        .iter()
        .flat_map(|&(_, backoff)| counts.iter().map(move |&count| (backoff, count)))
        .collect();
    let points = on_all_cores(jobs.len(), progress, |job| {
        let (backoff, clients) = jobs[job];
        let runs: Vec<_> = (0..seeds).map(|seed| run(backoff, clients, seed)).collect();
        Point {
            clients,
            writes: mean(runs.iter().map(|run| f64::from(run.0))),
            seconds: mean(runs.iter().map(|run| run.1.as_secs_f64())),
        }
    });
    let lines = KINDS.iter().zip(points.chunks(counts.len()));
    lines.map(|(&(name, _), points)| Line { name, points: points.to_vec() }).collect()
}

pub(crate) fn checks(lines: &[Line], size: Size) -> Vec<Check> {
    let at = |name: &str| {
        let line = lines.iter().find(|line| line.name == name).expect("a kind");
        *line
            .points
            .iter()
            .find(|point| point.clients == PUBLISHED)
            .expect("the published number of clients")
    };
    let (none, bare, equal) = (at("no delay"), at("no jitter"), at("equal jitter"));
    let (full, walk) = (at("full jitter"), at("decorrelated jitter"));
    // In percent. A tenth of the seeds has three times the noise.
    let (writes, time) = size.pick((5.0, 15.0), (1.5, 10.0));
    // In the unit of the ratio.
    let (beside, ratio) = size.pick((8.0, 0.1), (3.0, 0.05));
    // Without a pause each round has one winner: writes grow with the square of the clients. A pause that is the same
    // for all hardly helps, and takes for ever.
    vec![
        Check::new("no delay: writes", Percent(2422.0, writes), (none.writes, 0, "")),
        Check::new("no jitter: writes", Percent(1857.0, writes), (bare.writes, 0, "")),
        Check::new("no jitter: until all are done", Percent(63.1, time), (bare.seconds, 1, " s")),
        Check::new("full jitter: writes", Percent(797.0, writes), (full.writes, 0, "")),
        Check::new("full jitter: until all are done", Percent(4.96, time), (full.seconds, 2, " s")),
        Check::new(
            "full jitter: writes of those without",
            Below(0.45),
            (full.writes / bare.writes, 3, ""),
        ),
        Check::new(
            "full jitter: time of that without",
            Below(0.1),
            (full.seconds / bare.seconds, 3, ""),
        ),
        Check::new(
            "equal jitter: more writes than full",
            Between(-beside, beside),
            ((equal.writes / full.writes - 1.0) * 100.0, 1, " %"),
        ),
        Check::new(
            "decorrelated jitter: writes of full",
            PlusMinus(1.25, ratio),
            (walk.writes / full.writes, 2, ""),
        ),
    ]
}
