//! A learned limit while something changes: bursts shorter than a step of the limit, a mix of calls
//! that shifts, and a server that loses machines and gets them back.
//!
//! No setting is tuned for these models: it is the default of the crate with a most of 1,000.

use rand::RngExt;

use super::Published::{AtLeast, AtMost, Between};
use super::gate::Way;
use super::limit::{CAPACITY, SLOTS, TAKES};
use super::sim::on_all_cores;
use super::slots::{Run, Scene, Service, run};
use super::{Check, Progress, Size};

/// What changes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Change {
    /// For 200 ms 3 times the load that the server bears, then for 200 ms 0.6 times.
    Bursts,
    /// Calls of 50 ms and of 500 ms, 90 to 10 and later 10 to 90. The load is always twice what the
    /// server bears.
    Mix,
    /// 50 slots, then 20, then 50.
    Capacity,
}

const CHANGES: [Change; 3] = [Change::Bursts, Change::Mix, Change::Capacity];
/// The seconds before the first change, and between two.
pub(super) const EACH: usize = 200;
/// The seconds after a change in which the limit may still move.
const SETTLES: usize = 60;
const SHORT: f64 = 0.2;
/// The slots after the fall.
const FALLEN: usize = 20;

fn is_between(at: f64) -> bool {
    (EACH as f64..2.0 * EACH as f64).contains(&at)
}

/// Returns the mean time of service in the mix.
fn mixed(at: f64) -> f64 {
    if at < EACH as f64 { 0.9 * 0.05 + 0.1 * 0.5 } else { 0.1 * 0.05 + 0.9 * 0.5 }
}

fn one(change: Change, way: Way, service: Service, seed: u64) -> Run {
    let slots = |at: f64| {
        if change == Change::Capacity && is_between(at) { FALLEN } else { SLOTS }
    };
    let rate = |at: f64| match change {
        Change::Bursts if at % (2.0 * SHORT) < SHORT => 3.0 * CAPACITY,
        Change::Bursts => 0.6 * CAPACITY,
        Change::Mix => 2.0 * SLOTS as f64 / mixed(at),
        Change::Capacity => 2.0 * CAPACITY,
    };
    let scene = Scene {
        way,
        clients: 1,
        rate: &rate,
        peak: match change {
            Change::Bursts => 3.0 * CAPACITY,
            Change::Mix => rate(0.0),
            Change::Capacity => 2.0 * CAPACITY,
        },
        slots: &slots,
        refuses: false,
        takes: &|at, rng| {
            let mean = match change {
                Change::Mix => {
                    let short = if at < EACH as f64 { 0.9 } else { 0.1 };
                    if rng.random::<f64>() < short { 0.05 } else { 0.5 }
                }
                _ => TAKES,
            };
            service.draw(mean, rng)
        },
        lasts: 3 * EACH,
    };
    run(&scene, seed)
}

/// The runs of one change with one distribution of the times of service.
#[derive(Debug)]
pub struct Line {
    change: Change,
    service: Service,
    learned: Vec<Run>,
    /// The same arrivals under the best fixed limit.
    fixed: Vec<Run>,
}

pub fn measure(size: Size, progress: Progress<'_>) -> Vec<Line> {
    let seeds = size.pick(1, 5);
    let services: &[Service] = size.pick(&[Service::Exponential], &Service::ALL);
    let models: Vec<_> = CHANGES
        .into_iter()
        .flat_map(|change| services.iter().map(move |&service| (change, service)))
        .collect();
    let runs = on_all_cores(models.len() * seeds, progress, |job| {
        let (change, service) = models[job / seeds];
        let seed = (job % seeds) as u64;
        let fixed = (change == Change::Bursts)
            .then(|| one(change, Way::Fixed(SLOTS as u32), service, seed));
        (one(change, Way::Learned, service, seed), fixed)
    });
    let mut runs = runs.into_iter();
    let line = |&(change, service): &(Change, Service)| {
        let (learned, fixed): (Vec<_>, Vec<_>) = runs.by_ref().take(seeds).unzip();
        Line { change, service, learned, fixed: fixed.into_iter().flatten().collect() }
    };
    models.iter().map(line).collect()
}

impl Line {
    /// Returns the lowest and the highest limit of all runs in the `part` of the run, from 0 to 2.
    fn range(&self, part: usize) -> (f64, f64) {
        let over = part * EACH + SETTLES..(part + 1) * EACH;
        let ranges = self.learned.iter().map(|run| run.range(over.clone()));
        ranges.fold((f64::MAX, 0.0), |all, one| (one.0.min(all.0), one.1.max(all.1)))
    }

    /// Returns the mean limit of the latest minute of a part, of the run in which it moved most.
    fn shift(&self) -> f64 {
        let mean = |run: &Run, part: usize| {
            let over = (part + 1) * EACH - SETTLES..(part + 1) * EACH;
            run.limit[over].iter().sum::<f64>() / SETTLES as f64
        };
        let moved = |run: &Run| 100.0 * (mean(run, 2) / mean(run, 0) - 1.0).abs();
        self.learned.iter().map(moved).fold(0.0, f64::max)
    }

    fn name(&self) -> String {
        format!("{:?}, {:?}", self.change, self.service).to_lowercase()
    }
}

pub fn checks(lines: &[Line]) -> Vec<Check> {
    lines
        .iter()
        .flat_map(|line| match line.change {
            Change::Bursts => bursts(line),
            Change::Mix => vec![
                Check::new(
                    format!("{}: limit moves by", line.name()),
                    AtMost(20.0, 0.0),
                    (line.shift(), 0, " %"),
                )
                .ours(),
            ],
            Change::Capacity => capacity(line),
        })
        .collect()
}

fn bursts(line: &Line) -> Vec<Check> {
    let over = SETTLES..3 * EACH;
    let pairs = || line.learned.iter().zip(&line.fixed);
    let goodput = pairs()
        .map(|(ours, fixed)| 100.0 * ours.goodput(over.clone()) / fixed.goodput(over.clone()))
        .fold(f64::MAX, f64::min);
    let latency = pairs()
        .map(|(ours, fixed)| ours.latency(over.clone()) / fixed.latency(over.clone()))
        .fold(0.0, f64::max);
    vec![
        Check::new(
            format!("{}: goodput, of fixed 50", line.name()),
            AtLeast(93.0, 0.0),
            (goodput, 1, " %"),
        )
        .ours(),
        Check::new("  latency, of fixed 50", AtMost(1.2, 0.0), (latency, 2, " x")).ours(),
    ]
}

/// The limit a minute after each change: within 35 % of the best one.
fn capacity(line: &Line) -> Vec<Check> {
    [SLOTS, FALLEN, SLOTS]
        .into_iter()
        .enumerate()
        .flat_map(|(part, slots)| {
            let (low, high) = line.range(part);
            let best = || Between(0.65 * slots as f64, 1.35 * slots as f64);
            [
                Check::new(
                    format!("{}, {slots} slots: lowest limit", line.name()),
                    best(),
                    (low, 0, ""),
                )
                .ours(),
                Check::new("  highest limit", best(), (high, 0, "")).ours(),
            ]
        })
        .collect()
}
