//! A limit on the attempts in flight that is learned, on a server with 50 slots and a queue.
//!
//! Calls arrive at random, at a multiple of what the server can do. The limiter refuses what is above
//! its limit. The best fixed limit is the number of slots: a lower one idles the server, and each more
//! only queues.

use std::collections::VecDeque;
use std::time::Duration;

use rand::RngExt;
use rand::rngs::ChaCha8Rng;
use resile::call::Admission;
use resile::time::{ManualTimer, Timer};
use resile::{Bulkhead, Upstream, Verdict};

use super::Published::{AtLeast, AtMost, Below, Between};
use super::peers::{Gradient2, Peer, Vegas};
use super::sim::{Agenda, exponential, mean, on_all_cores, seeded};
use super::{Check, Progress, Size};

/// The distribution of the times of service around their mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Service {
    /// Within 20 % of the mean.
    Uniform,
    Exponential,
    /// With a shape of 1.
    Lognormal,
}

/// What limits the calls.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Way {
    Learned,
    Gradient2,
    Vegas,
}

#[derive(Clone, Copy)]
struct Model {
    way: Way,
    service: Service,
    /// The arrivals as a multiple of the capacity.
    load: f64,
    lasts: u64,
}

/// The seconds at the start that do not count.
const WARM: usize = 60;
const SLOTS: usize = 50;
const TAKES: f64 = 0.05;

type Permit<'a> = Option<Admission<&'a Upstream<ManualTimer>>>;

enum Limiter<'a> {
    Crate(&'a Upstream<ManualTimer>),
    Peer(Box<dyn Peer>),
}

enum Event {
    Arrives,
    /// The service of this call is done.
    Done(usize),
}

struct Call<'a> {
    permit: Permit<'a>,
    began: Duration,
}

/// The figures of one run, after its start.
#[derive(Debug)]
pub struct Run {
    /// The limit in each second.
    pub limit: Vec<f64>,
    /// The goodput as a share of the capacity.
    goodput: f64,
    /// The mean latency as a multiple of the mean time of service.
    latency: f64,
}

fn takes(service: Service, rng: &mut ChaCha8Rng) -> Duration {
    match service {
        Service::Uniform => Duration::from_secs_f64(TAKES * rng.random_range(0.8..1.2)),
        Service::Exponential => exponential(TAKES, rng),
        Service::Lognormal => {
            let radius = (-2.0 * (1.0 - rng.random::<f64>()).ln()).sqrt();
            let normal = radius * (std::f64::consts::TAU * rng.random::<f64>()).cos();
            Duration::from_secs_f64(TAKES * (normal - 0.5).exp())
        }
    }
}

fn run(model: Model, seed: u64) -> Run {
    let timer = ManualTimer::with_seed(seed);
    let upstream = Upstream::new("server")
        .with_bulkhead(Bulkhead::learned(1_000).with_queue(0))
        .with_observer(&())
        .with_timer(timer.clone());
    let mut limiter = match model.way {
        Way::Learned => Limiter::Crate(&upstream),
        Way::Gradient2 => Limiter::Peer(Box::new(Gradient2::new())),
        Way::Vegas => Limiter::Peer(Box::new(Vegas::new(seeded(seed + 1_000)))),
    };
    let (mut agenda, mut rng) = (Agenda::new(), seeded(seed));
    let mut calls: Vec<Call<'_>> = Vec::new();
    let mut free: Vec<usize> = Vec::new();
    let mut queue: VecDeque<usize> = VecDeque::new();
    let (mut busy, mut in_flight) = (0, 0_u32);
    let (mut limits, mut done, mut latency) = (Vec::new(), 0_u32, 0.0);
    let between = TAKES / SLOTS as f64 / model.load;
    agenda.after(Duration::ZERO, Event::Arrives);
    while let Some(event) = agenda.next_before(Duration::from_secs(model.lasts)) {
        let now = agenda.now();
        timer.advance(now.saturating_sub(timer.now()));
        while limits.len() as u64 <= now.as_secs() {
            limits.push(match &limiter {
                Limiter::Crate(upstream) => f64::from(upstream.bulkhead().unwrap().limit()),
                Limiter::Peer(peer) => peer.limit(),
            });
        }
        match event {
            Event::Arrives => {
                agenda.after(exponential(between, &mut rng), Event::Arrives);
                let permit = match &limiter {
                    Limiter::Crate(upstream) => upstream.try_admit().ok().map(Some),
                    Limiter::Peer(peer) => {
                        (f64::from(in_flight) < peer.limit().floor()).then_some(None)
                    }
                };
                let Some(permit) = permit else { continue };
                in_flight += 1;
                let call = Call { permit, began: now };
                let id = free.pop().unwrap_or(calls.len());
                if id < calls.len() {
                    calls[id] = call;
                } else {
                    calls.push(call);
                }
                queue.push_back(id);
            }
            Event::Done(id) => {
                let took = now.saturating_sub(calls[id].began).as_secs_f64();
                match (&mut limiter, calls[id].permit.take()) {
                    (_, Some(admission)) => admission.succeeded(),
                    (Limiter::Peer(peer), None) => peer.ended(now.as_secs_f64(), took, in_flight),
                    (Limiter::Crate(_), None) => {}
                }
                free.push(id);
                (busy, in_flight) = (busy - 1, in_flight - 1);
                if now.as_secs() as usize >= WARM {
                    (done, latency) = (done + 1, latency + took);
                }
            }
        }
        while busy < SLOTS {
            let Some(id) = queue.pop_front() else { break };
            busy += 1;
            agenda.after(takes(model.service, &mut rng), Event::Done(id));
        }
    }
    let seconds = (model.lasts as usize - WARM) as f64;
    Run {
        limit: limits,
        goodput: f64::from(done) * TAKES / SLOTS as f64 / seconds,
        latency: latency / f64::from(done.max(1)) / TAKES,
    }
}

/// A server that refuses what is above a cap that nobody knows: 32 calls in the first hour, 16 in
/// the second, 48 in the third. 128 workers make calls of ten seconds.
#[derive(Debug)]
pub struct Hidden {
    used: f64,
    refused: f64,
}

enum Step {
    Wants,
    Done(usize),
    Refused(usize),
}

fn hidden(seed: u64) -> Hidden {
    const HOUR: u64 = 3_600;
    let cap = |at: Duration| [32, 16, 48][(at.as_secs() / HOUR).min(2) as usize];
    let timer = ManualTimer::with_seed(seed);
    let upstream = Upstream::new("provider")
        .with_bulkhead(Bulkhead::learned(200).with_queue(0))
        .with_observer(&())
        .with_timer(timer.clone());
    let (mut agenda, mut rng) = (Agenda::new(), seeded(seed));
    let mut calls: Vec<Permit<'_>> = Vec::new();
    let (mut busy, mut waiting, mut before) = (0_u32, 0_u32, Duration::ZERO);
    let (mut used, mut all, mut refused, mut done) = (0.0, 0.0, 0_u32, 0_u32);
    (0..128).for_each(|at| agenda.after(Duration::from_millis(8 * at), Step::Wants));
    while let Some(step) = agenda.next_before(Duration::from_secs(3 * HOUR)) {
        let now = agenda.now();
        timer.advance(now.saturating_sub(timer.now()));
        let lasted = now.saturating_sub(before).as_secs_f64();
        used += f64::from(busy.min(cap(before))) * lasted;
        all += f64::from(cap(before)) * lasted;
        before = now;
        match step {
            Step::Wants => waiting += 1,
            Step::Done(id) => {
                (busy, done, waiting) = (busy - 1, done + 1, waiting + 1);
                calls[id].take().unwrap().succeeded();
            }
            Step::Refused(id) => {
                refused += 1;
                calls[id].take().unwrap().settle(&Verdict::throttled());
                agenda.after(Duration::from_secs_f64(1.0 + rng.random::<f64>()), Step::Wants);
            }
        }
        while waiting > 0 {
            let Ok(admission) = upstream.try_admit() else { break };
            waiting -= 1;
            let id = calls.len();
            calls.push(Some(admission));
            if busy < cap(now) {
                busy += 1;
                let scaled = takes(Service::Lognormal, &mut rng).as_secs_f64() / TAKES;
                agenda.after(Duration::from_secs_f64(10.0 * scaled), Step::Done(id));
            } else {
                agenda.after(Duration::from_millis(100), Step::Refused(id));
            }
        }
    }
    Hidden { used: used / all, refused: f64::from(refused) / f64::from(done) }
}

#[derive(Debug)]
pub struct Measured {
    pub lines: Vec<Line>,
    hidden: Vec<Hidden>,
}

/// The runs of one model with several seeds.
#[derive(Debug)]
pub struct Line {
    pub way: Way,
    pub service: Service,
    load: f64,
    pub runs: Vec<Run>,
}

const SERVICES: [Service; 3] = [Service::Uniform, Service::Exponential, Service::Lognormal];

fn models(lasts: u64) -> Vec<Model> {
    let ours = [2.0, 1.2].map(|load| (Way::Learned, load));
    let all = ours.into_iter().chain([(Way::Gradient2, 2.0), (Way::Vegas, 2.0)]);
    all.flat_map(|(way, load)| SERVICES.map(|service| Model { way, service, load, lasts }))
        .collect()
}

pub fn measure(size: Size, progress: Progress<'_>) -> Measured {
    let (seeds, lasts) = size.pick((1, 120), (4, 600));
    let models = models(lasts);
    let runs = on_all_cores(models.len() * seeds, &|done| progress(0.9 * done), |job| {
        run(models[job / seeds], (job % seeds) as u64)
    });
    let mut runs = runs.into_iter();
    let line = |model: &Model| Line {
        way: model.way,
        service: model.service,
        load: model.load,
        runs: runs.by_ref().take(seeds).collect(),
    };
    let lines = models.iter().map(line).collect();
    let hidden = on_all_cores(seeds, progress, |seed| hidden(seed as u64));
    Measured { lines, hidden }
}

impl Line {
    /// Returns the lowest and the highest limit of all runs: means of ten seconds.
    fn range(&self) -> (f64, f64) {
        let tens = self.runs.iter().flat_map(|run| run.limit[WARM..].chunks_exact(10));
        tens.map(|some| mean(some.iter().copied()))
            .fold((f64::MAX, 0.0), |(low, high), ten| (low.min(ten), high.max(ten)))
    }

    fn worst(&self, of: fn(&Run) -> f64, pick: fn(f64, f64) -> f64) -> f64 {
        self.runs.iter().map(of).reduce(pick).unwrap_or(f64::NAN)
    }
}

pub fn checks(measured: &Measured, size: Size) -> Vec<Check> {
    let mut checks = Vec::new();
    for line in &measured.lines {
        let name = format!("{:?}, {:?}, {} x", line.way, line.service, line.load);
        let (low, high) = line.range();
        let goodput = (100.0 * line.worst(|run| run.goodput, f64::min), 1, " %");
        let latency = (line.worst(|run| run.latency, f64::max), 2, " x");
        match line.way {
            Way::Learned => {
                let best = || Between(0.65 * SLOTS as f64, 1.35 * SLOTS as f64);
                checks
                    .push(Check::new(format!("{name}: lowest limit"), best(), (low, 0, "")).ours());
                checks.push(Check::new("  highest limit", best(), (high, 0, "")).ours());
                checks.push(Check::new("  goodput", AtLeast(93.0, 0.0), goodput).ours());
                checks.push(Check::new("  latency", AtMost(1.2, 0.0), latency).ours());
            }
            // It learns the queue, so the limit drifts for as long as the overload lasts.
            Way::Gradient2 => {
                let drifts = AtLeast(size.pick(80.0, 150.0), 0.0);
                checks.push(Check::new(format!("{name}: limit"), drifts, (high, 0, "")).ours());
            }
            // Its least latency is that of the luckiest call.
            Way::Vegas if line.service != Service::Uniform => {
                checks.push(Check::new(format!("{name}: goodput"), Below(50.0), goodput).ours());
            }
            Way::Vegas => {}
        }
    }
    let (used, refused) = measured.hidden.iter().fold((f64::MAX, 0.0), |(used, refused), run| {
        (run.used.min(used), run.refused.max(refused))
    });
    checks.extend([
        Check::new("a hidden cap, 32, 16, 48: used", AtLeast(95.0, 0.0), (100.0 * used, 1, " %"))
            .ours(),
        Check::new("  refused in 1,000 calls", AtMost(5.0, 0.0), (1000.0 * refused, 1, "")).ours(),
    ]);
    checks
}
