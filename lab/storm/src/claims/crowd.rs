//! Fifty clients at one server, each with a limit of its own that it learns.
//!
//! The server has 500 slots, and a call takes it 50 ms. It gets twice the calls that it can bear. One
//! server refuses what has no slot. The other one never refuses: it queues. Clients start together.

use super::Published::{AtLeast, AtMost, Percent};
use super::gate::Way;
use super::limit::TAKES;
use super::sim::{mean, on_all_cores};
use super::slots::{Run, Scene, Service, run};
use super::{Check, Progress, Size};

const CLIENTS: usize = 50;
/// The share of a client: the best fixed limit of each.
const SHARE: usize = 10;

/// The runs at one server.
#[derive(Debug)]
pub struct Line {
    refuses: bool,
    way: Way,
    clients: usize,
    runs: Vec<Run>,
}

fn one(refuses: bool, way: Way, clients: usize, lasts: usize, seed: u64) -> Run {
    let slots = clients * SHARE;
    let rate = 2.0 * slots as f64 / TAKES;
    let scene = Scene {
        way,
        clients,
        rate: &|_| rate,
        peak: rate,
        slots: &|_| slots,
        refuses,
        takes: &|_, rng| Service::Exponential.draw(TAKES, rng),
        lasts,
    };
    run(&scene, seed)
}

/// The servers, and the ways of their clients. The last one is alone.
const MODELS: [(bool, Way, usize); 4] = [
    (true, Way::Learned, CLIENTS),
    (false, Way::Fixed(SHARE as u32), CLIENTS),
    (false, Way::Learned, CLIENTS),
    (false, Way::Learned, 2),
];

pub fn measure(size: Size, progress: Progress<'_>) -> Vec<Line> {
    let (seeds, lasts) = size.pick((1, 30), (2, 300));
    let runs = on_all_cores(MODELS.len() * seeds, progress, |job| {
        let (refuses, way, clients) = MODELS[job / seeds];
        one(refuses, way, clients, lasts, (job % seeds) as u64)
    });
    let mut runs = runs.into_iter();
    let line = |(refuses, way, clients)| Line {
        refuses,
        way,
        clients,
        runs: runs.by_ref().take(seeds).collect(),
    };
    MODELS.map(line).into()
}

impl Line {
    /// Returns the second half of the run.
    fn late(run: &Run) -> std::ops::Range<usize> {
        run.limit.len() / 2..run.limit.len()
    }

    fn goodput(&self) -> f64 {
        let capacity = (self.clients * SHARE) as f64 / TAKES;
        mean(self.runs.iter().map(|run| 100.0 * run.goodput(Self::late(run)) / capacity))
    }

    fn latency(&self) -> f64 {
        mean(self.runs.iter().map(|run| run.latency(Self::late(run)) / TAKES))
    }

    fn limit(&self) -> f64 {
        mean(self.runs.iter().map(|run| mean(run.limit[Self::late(run)].iter().copied())))
    }

    /// Returns the attempts that the server refused in 1,000 answers.
    fn refused(&self) -> f64 {
        mean(self.runs.iter().map(|run| {
            let sum = |of| run.sum(Self::late(run), of);
            1_000.0 * sum(|second| f64::from(second.refused_there))
                / sum(|second| f64::from(second.done))
        }))
    }

    /// Returns the fairness of Jain (1984): 100 % if all clients get the same.
    fn fairness(&self) -> f64 {
        mean(self.runs.iter().map(|run| {
            let all = || run.by_client.iter().copied().map(f64::from);
            let square = all().sum::<f64>().powi(2);
            100.0 * square
                / (run.by_client.len() as f64 * all().map(|some| some * some).sum::<f64>())
        }))
    }
}

pub fn table(lines: &[Line]) -> String {
    let head = "  clients  server   way         limit  goodput  latency  refused/1000  fairness\n";
    let row = |line: &Line| {
        format!(
            "  {:>7}  {:<7}  {:<8}  {:>7.1}  {:>5.1} %  {:>5.2} x  {:>12.0}  {:>6.1} %",
            line.clients,
            if line.refuses { "refuses" } else { "queues" },
            line.way.name(),
            line.limit(),
            line.goodput(),
            line.latency(),
            line.refused(),
            line.fairness(),
        )
    };
    head.to_owned() + &lines.iter().map(row).collect::<Vec<_>>().join("\n")
}

pub fn checks(lines: &[Line], size: Size) -> Vec<Check> {
    let [refusing, _fixed, queueing, _two] = lines else { unreachable!("four lines") };
    let row = |what: &str, bound, figure| Check::new(what, bound, figure).ours();
    vec![
        row("a server that refuses: goodput", AtLeast(90.0, 0.0), (refusing.goodput(), 1, " %")),
        row("  fairness (Jain)", AtLeast(95.0, 0.0), (refusing.fairness(), 1, " %")),
        row("  refused in 1,000 answers", AtMost(100.0, 0.0), (refusing.refused(), 0, "")),
        row("  mean limit", Percent(10.0, 20.0), (refusing.limit(), 1, "")),
        row(
            "a server that queues: mean limit",
            AtLeast(size.pick(30.0, 100.0), 0.0),
            (queueing.limit(), 0, ""),
        ),
    ]
}
