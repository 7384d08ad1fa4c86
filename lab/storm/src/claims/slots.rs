//! A server with some slots and a queue, and clients with a limiter each.
//!
//! Calls arrive at random. The limiter of a client refuses what is above its limit. The best fixed
//! limit is the number of slots: a lower one idles the server, and each more only queues.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use rand::RngExt;
use rand::rngs::ChaCha8Rng;
use resile::time::{ManualTimer, Timer};

use super::gate::{Entered, Gate, Way};
use super::sim::{Agenda, exponential, seconds, seeded, standard_normal};

/// The distribution of the times of service around their mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Service {
    /// Within 20 % of the mean.
    Uniform,
    Exponential,
    /// With a shape of 1.
    Lognormal,
}

impl Service {
    pub(super) const ALL: [Self; 3] = [Service::Uniform, Service::Exponential, Service::Lognormal];

    pub(super) fn draw(self, mean: f64, rng: &mut ChaCha8Rng) -> Duration {
        match self {
            Service::Uniform => seconds(mean * rng.random_range(0.8..1.2)),
            Service::Exponential => exponential(mean, rng),
            Service::Lognormal => seconds(mean * (standard_normal(rng) - 0.5).exp()),
        }
    }
}

/// A server and its clients. Each function takes the time in seconds.
pub(super) struct Scene<'a> {
    pub(super) way: Way,
    pub(super) clients: usize,
    /// The calls that arrive in a second, of all clients together.
    pub(super) rate: &'a dyn Fn(f64) -> f64,
    /// The most of them.
    pub(super) peak: f64,
    pub(super) slots: &'a dyn Fn(f64) -> usize,
    /// The server refuses what has no slot.
    pub(super) refuses: bool,
    pub(super) takes: &'a dyn Fn(f64, &mut ChaCha8Rng) -> Duration,
    pub(super) lasts: usize,
}

/// The figures of a run in each second.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// The mean limit of the clients.
    pub limit: Vec<f64>,
    pub(super) seconds: Vec<Second>,
    /// The answers of each client.
    pub(super) by_client: Vec<u32>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Second {
    pub(super) arrived: u32,
    pub(super) done: u32,
    /// The sum of the latencies of the answers in seconds.
    pub(super) latency: f64,
    /// The calls that the limiters have refused.
    pub(super) refused_here: u32,
    /// The attempts that the server has refused.
    pub(super) refused_there: u32,
}

enum Event {
    Arrives,
    /// The service of this call is done.
    Done(usize),
    Refused(usize),
}

struct Call<'a> {
    client: usize,
    entered: Option<Entered<'a>>,
}

/// The time until a refusal arrives.
const HOP: Duration = Duration::from_millis(1);

/// Runs the scene.
pub(super) fn run(scene: &Scene<'_>, seed: u64) -> Run {
    let timer = ManualTimer::with_seed(seed);
    let upstreams: Vec<_> = (0..scene.clients).map(|_| scene.way.upstream(&timer)).collect();
    let gate = |(upstream, at): (_, u64)| scene.way.gate(upstream, seed * 1_000 + at);
    let mut gates: Vec<Gate<'_>> = upstreams.iter().zip(0..).map(gate).collect();
    let (mut agenda, mut rng) = (Agenda::new(), seeded(seed));
    let mut calls: Vec<Call<'_>> = Vec::new();
    let (mut free, mut queue, mut busy) = (Vec::new(), VecDeque::new(), 0);
    let mut figures = Run {
        limit: Vec::new(),
        seconds: vec![Second::default(); scene.lasts],
        by_client: vec![0; scene.clients],
    };
    agenda.after(Duration::ZERO, Event::Arrives);
    while let Some(event) = agenda.next_before(Duration::from_secs(scene.lasts as u64)) {
        let now = agenda.now();
        let at = now.as_secs_f64();
        timer.advance(now.saturating_sub(timer.now()));
        while figures.limit.len() as u64 <= now.as_secs() {
            let all: f64 = gates.iter().map(Gate::limit).sum();
            figures.limit.push(all / scene.clients as f64);
        }
        let second = &mut figures.seconds[now.as_secs() as usize];
        match event {
            Event::Arrives => {
                agenda.after(exponential(1.0 / scene.peak, &mut rng), Event::Arrives);
                let rate = (scene.rate)(at);
                // Thins the arrivals from the peak rate to the current rate.
                if rate < scene.peak && rng.random::<f64>() * scene.peak >= rate {
                    continue;
                }
                second.arrived += 1;
                let client =
                    if scene.clients == 1 { 0 } else { rng.random_range(0..scene.clients) };
                let Some(entered) = gates[client].enter(now) else {
                    second.refused_here += 1;
                    continue;
                };
                let call = Call { client, entered: Some(entered) };
                let id = free.pop().unwrap_or(calls.len());
                if id < calls.len() {
                    calls[id] = call;
                } else {
                    calls.push(call);
                }
                if scene.refuses && busy >= (scene.slots)(at) {
                    agenda.after(HOP, Event::Refused(id));
                } else {
                    queue.push_back(id);
                }
            }
            Event::Done(id) => {
                let Call { client, entered } = &mut calls[id];
                let took = gates[*client].succeeded(entered.take().unwrap(), now);
                figures.by_client[*client] += 1;
                second.done += 1;
                second.latency += took.as_secs_f64();
                free.push(id);
                busy -= 1;
            }
            Event::Refused(id) => {
                let Call { client, entered } = &mut calls[id];
                gates[*client].refused(entered.take().unwrap());
                second.refused_there += 1;
                free.push(id);
            }
        }
        while busy < (scene.slots)(at) {
            let Some(id) = queue.pop_front() else { break };
            busy += 1;
            agenda.after((scene.takes)(at, &mut rng), Event::Done(id));
        }
    }
    figures
}

impl Run {
    /// Returns the sum of a figure over some seconds.
    pub(super) fn sum(&self, over: Range<usize>, of: fn(&Second) -> f64) -> f64 {
        self.seconds[over].iter().map(of).sum()
    }

    /// Returns the answers in a second.
    pub(super) fn goodput(&self, over: Range<usize>) -> f64 {
        let length = over.len() as f64;
        self.sum(over, |second| f64::from(second.done)) / length
    }

    /// Returns the mean latency of the answers in seconds.
    pub(super) fn latency(&self, over: Range<usize>) -> f64 {
        let done = self.sum(over.clone(), |second| f64::from(second.done));
        self.sum(over, |second| second.latency) / done.max(1.0)
    }

    /// Returns the lowest and the highest limit: means of ten seconds.
    pub(super) fn range(&self, over: Range<usize>) -> (f64, f64) {
        self.limit[over]
            .chunks_exact(10)
            .map(|some| some.iter().sum::<f64>() / 10.0)
            .fold((f64::MAX, 0.0), |(low, high), ten| (ten.min(low), ten.max(high)))
    }
}
