//! A server that refuses what is above a cap that nobody knows: 32 calls in the first hour, 16 in
//! the second, 48 in the third. 128 workers make calls of ten seconds.

use std::time::Duration;

use rand::RngExt;
use resile::call::Admission;
use resile::time::{ManualTimer, Timer};
use resile::{Bulkhead, Upstream, Verdict};

use super::sim::{Agenda, seeded};
use super::slots::Service;

#[derive(Debug)]
pub(super) struct Hidden {
    pub(super) used: f64,
    pub(super) refused: f64,
}

enum Step {
    Wants,
    Done(usize),
    Refused(usize),
}

type Permit<'a> = Option<Admission<&'a Upstream<ManualTimer>>>;

fn take<'a>(calls: &mut [Permit<'a>], id: usize) -> Admission<&'a Upstream<ManualTimer>> {
    calls[id].take().expect("a call ends once")
}

pub(super) fn run(seed: u64) -> Hidden {
    const HOUR: u64 = 3_600;
    let cap = |at: Duration| [32, 16, 48][(at.as_secs() / HOUR).min(2) as usize];
    let timer = ManualTimer::with_seed(seed);
    let upstream = Upstream::new("provider")
        .with_bulkhead(Bulkhead::learned(200).with_queue(0))
        .with_observer(&())
        .with_timer(timer.clone());
    let (mut agenda, mut rng) = (Agenda::new(), seeded(seed));
    let mut calls = Vec::new();
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
                take(&mut calls, id).succeeded();
            }
            Step::Refused(id) => {
                refused += 1;
                take(&mut calls, id).settle(&Verdict::throttled());
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
                agenda.after(Service::Lognormal.draw(10.0, &mut rng), Step::Done(id));
            } else {
                agenda.after(Duration::from_millis(100), Step::Refused(id));
            }
        }
    }
    Hidden { used: used / all, refused: f64::from(refused) / f64::from(done) }
}
