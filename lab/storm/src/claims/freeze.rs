//! A long hint that freezes a limit: the rule of `inspect_ai`, a library for evaluations of models.
//!
//! A provider takes 32 calls of ten seconds at once and refuses each further one, with a hint to come
//! back after 89 s or after 30 min. Calls arrive at random, four times as many as it can bear. A refused call
//! does not come back.
//!
//! The rule doubles the limit in each round without a refusal until the first one. From then on it
//! adds 5 % in each such round. A refusal cuts a fifth, but only once in 15 s, and the hint of the
//! refusal moves the end of that time. So one refusal with a hint of 30 min stops all cuts for 30 min.

use std::time::Duration;

use resile::time::{ManualTimer, Timer};
use resile::{Bulkhead, Upstream, Verdict};

use super::Published::{AtLeast, AtMost, PlusMinus};
use super::sim::{Agenda, exponential, mean, on_all_cores, seeded};
use super::slots::Service;
use super::{Check, Progress, Size};

const CAP: u32 = 32;
const TAKES: f64 = 10.0;
const LOAD: f64 = 4.0;
const LASTS: Duration = Duration::from_mins(30);
/// The hints in seconds.
const HINTS: [u64; 2] = [89, 1_800];
/// The time until a refusal arrives.
const HOP: Duration = Duration::from_millis(100);

/// The rule of `inspect_ai`.
struct Rule {
    limit: f64,
    most: f64,
    clean: f64,
    was_refused: bool,
    cuts: u32,
    next_cut: Duration,
}

impl Rule {
    fn succeeded(&mut self) {
        self.clean += 1.0;
        if self.clean >= self.limit {
            self.clean = 0.0;
            let grown = if self.was_refused { 1.05 } else { 2.0 };
            self.limit = (self.limit * grown).min(self.most);
        }
    }

    fn refused(&mut self, now: Duration, hint: Duration) {
        (self.clean, self.was_refused) = (0.0, true);
        if now >= self.next_cut {
            self.limit = (self.limit * 0.8).max(1.0);
            self.cuts += 1;
            self.next_cut = now + Duration::from_secs(15).max(hint);
        }
    }
}

/// The figures of a run.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// The refusals for each answer in the latest ten minutes.
    refused: f64,
    used: f64,
    cuts: u32,
}

/// The outcome with one hint.
#[derive(Debug)]
pub struct Line {
    hint: u64,
    rule: Vec<Run>,
    learned: Vec<Run>,
}

enum Step {
    Arrives,
    Done(usize),
    Refused(usize),
}

fn run(is_ours: bool, hint: Duration, seed: u64) -> Run {
    let timer = ManualTimer::with_seed(seed);
    let upstream = Upstream::new("provider")
        .with_bulkhead(Bulkhead::learned(200).with_queue(0))
        .with_observer(&())
        .with_timer(timer.clone());
    let mut rule = Rule {
        limit: 20.0,
        most: 200.0,
        clean: 0.0,
        was_refused: false,
        cuts: 0,
        next_cut: Duration::ZERO,
    };
    let (mut agenda, mut rng) = (Agenda::new(), seeded(seed));
    let (mut calls, mut in_flight, mut busy) = (Vec::new(), 0_u32, 0_u32);
    let (mut done, mut refused) = (0_u32, 0_u32);
    let between = TAKES / f64::from(CAP) / LOAD;
    agenda.after(Duration::ZERO, Step::Arrives);
    while let Some(step) = agenda.next_before(LASTS) {
        let now = agenda.now();
        timer.advance(now.saturating_sub(timer.now()));
        let counts = now + Duration::from_mins(10) >= LASTS;
        match step {
            Step::Arrives => {
                agenda.after(exponential(between, &mut rng), Step::Arrives);
                let admission = if is_ours { upstream.try_admit().ok() } else { None };
                if admission.is_none() && (is_ours || f64::from(in_flight) >= rule.limit.floor()) {
                    continue;
                }
                in_flight += 1;
                calls.push(admission);
                let id = calls.len() - 1;
                if busy < CAP {
                    busy += 1;
                    agenda.after(Service::Exponential.draw(TAKES, &mut rng), Step::Done(id));
                } else {
                    agenda.after(HOP, Step::Refused(id));
                }
            }
            Step::Done(id) => {
                (busy, in_flight) = (busy - 1, in_flight - 1);
                done += u32::from(counts);
                match calls[id].take() {
                    Some(admission) => admission.succeeded(),
                    None => rule.succeeded(),
                }
            }
            Step::Refused(id) => {
                in_flight -= 1;
                refused += u32::from(counts);
                match calls[id].take() {
                    Some(admission) => admission.settle(&Verdict::throttled().after(hint)),
                    None => rule.refused(now, hint),
                }
            }
        }
    }
    Run {
        refused: f64::from(refused) / f64::from(done),
        used: f64::from(done) * TAKES / f64::from(CAP) / 600.0,
        cuts: rule.cuts,
    }
}

pub fn measure(size: Size, progress: Progress<'_>) -> Vec<Line> {
    let seeds = size.pick(1, 10);
    let runs = on_all_cores(2 * HINTS.len() * seeds, progress, |job| {
        let (hint, is_ours) = (HINTS[job / seeds / 2], job / seeds % 2 == 1);
        run(is_ours, Duration::from_secs(hint), (job % seeds) as u64)
    });
    let mut runs = runs.into_iter();
    HINTS
        .map(|hint| Line {
            hint,
            rule: runs.by_ref().take(seeds).collect(),
            learned: runs.by_ref().take(seeds).collect(),
        })
        .into()
}

pub fn checks(lines: &[Line]) -> Vec<Check> {
    let of = |runs: &[Run], of: fn(&Run) -> f64| mean(runs.iter().map(of));
    lines
        .iter()
        .flat_map(|line| {
            let hint = line.hint;
            let cuts = LASTS.as_secs() as f64 / hint as f64;
            let (rule, ours) = (&line.rule, &line.learned);
            [
                Check::new(
                    format!("hint of {hint} s, their rule: cuts in 30 min"),
                    if hint < 1_000 { AtMost(cuts.ceil(), 0.0) } else { PlusMinus(1.0, 0.0) },
                    (of(rule, |run| f64::from(run.cuts)), 1, ""),
                ),
                Check::new(
                    "  refused for each answer",
                    AtLeast(0.1, 0.0),
                    (of(rule, |run| run.refused), 2, ""),
                )
                .ours(),
                Check::new(
                    "  learned: refused for each answer",
                    AtMost(0.05, 0.0),
                    (of(ours, |run| run.refused), 3, ""),
                )
                .ours(),
                Check::new(
                    "  learned: used of the cap",
                    AtLeast(90.0, 0.0),
                    (100.0 * of(ours, |run| run.used), 1, " %"),
                )
                .ours(),
            ]
        })
        .collect()
}
