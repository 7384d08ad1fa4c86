//! Jitter reduces the contention of clients (Brooker, "Exponential Backoff And Jitter", AWS
//! Architecture Blog, 2015).
//!
//! Clients change one row under optimistic concurrency control. Each client reads and then writes.
//! A write fails after another write since the read. A hop of the network takes |Normal(10, 2)| ms.

use std::time::Duration;

use rand::RngExt;
use resile::{Backoff, Jitter};

use super::Published::{Below, Between, Percent, PlusMinus};
use super::sim::{Agenda, mean, normal, on_all_cores, seeded};
use super::{Check, Progress, Size};

const CAP: Duration = Duration::from_secs(2);
/// The curve of the source. It begins at 10 ms, as the first delay is 5 · 2¹ ms.
const EXPONENTIAL: Backoff = Backoff::exponential(Duration::from_millis(10)).with_cap(CAP);
/// The decorrelated walk of the source. It begins at 5 ms.
const WALK: Backoff =
    Backoff::exponential(Duration::from_millis(5)).with_cap(CAP).with_jitter(Jitter::Decorrelated);

/// The number of clients in the published table.
const PUBLISHED: usize = 100;

const KINDS: [(&str, Backoff); 5] = [
    ("no delay", Backoff::none()),
    ("no jitter", EXPONENTIAL.with_jitter(Jitter::None)),
    ("equal jitter", EXPONENTIAL.with_jitter(Jitter::Equal)),
    ("full jitter", EXPONENTIAL.with_jitter(Jitter::Full)),
    ("decorrelated jitter", WALK),
];

/// The cost of one kind of delay, by the number of clients.
#[derive(Debug)]
pub struct Line {
    pub name: &'static str,
    pub points: Vec<Point>,
}

/// The means of several seeds.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    pub clients: usize,
    pub writes: f64,
    pub seconds: f64,
}

#[derive(Clone, Copy)]
struct Client {
    retry: u32,
    delay: Duration,
}

enum Event {
    /// A read reaches the row.
    Read(usize),
    /// The version of the row reaches the client.
    HasRead(usize, u64),
    /// A write of this version reaches the row.
    Write(usize, u64),
    /// The result of a write reaches the client: true for a success.
    HasWritten(usize, bool),
}

/// Returns the number of writes and the time until each client has written once with success.
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
    assert_eq!(done, count, "every client succeeds once");
    (writes, agenda.now())
}

pub fn measure(size: Size, progress: Progress<'_>) -> Vec<Line> {
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

pub fn checks(lines: &[Line], size: Size) -> Vec<Check> {
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
    // Tolerances in percent. A tenth of the seeds has three times the noise.
    let (writes, time) = size.pick((5.0, 15.0), (1.5, 10.0));
    // Tolerances in the unit of the ratio.
    let (beside, ratio) = size.pick((8.0, 0.1), (3.0, 0.05));
    // Without a delay, each round has one winner, so writes grow with the square of the clients. A
    // delay that is equal for all hardly helps and takes very long.
    vec![
        Check::new("no delay: writes", Percent(2422.0, writes), (none.writes, 0, "")),
        Check::new("no jitter: writes", Percent(1857.0, writes), (bare.writes, 0, "")),
        Check::new("no jitter: until all are done", Percent(63.1, time), (bare.seconds, 1, " s")),
        Check::new("full jitter: writes", Percent(797.0, writes), (full.writes, 0, "")),
        Check::new("full jitter: until all are done", Percent(4.96, time), (full.seconds, 2, " s")),
        Check::new(
            "full jitter: writes vs no jitter",
            Below(0.45),
            (full.writes / bare.writes, 3, ""),
        ),
        Check::new(
            "full jitter: time vs no jitter",
            Below(0.1),
            (full.seconds / bare.seconds, 3, ""),
        ),
        Check::new(
            "equal jitter: more writes than full",
            Between(-beside, beside),
            ((equal.writes / full.writes - 1.0) * 100.0, 1, " %"),
        ),
        Check::new(
            "decorrelated jitter: writes vs full",
            PlusMinus(1.25, ratio),
            (walk.writes / full.writes, 2, ""),
        ),
    ]
}
