//! The client-side throttle of "Site Reliability Engineering" (Beyer et al. 2016), chapter 21.
//!
//! A server accepts 100 requests a second and refuses the others. By the law of the chapter, with
//! requests `r` and accepts `a` of two minutes, a client refuses itself with the chance
//! `(r − 2 a) / (r + 1)`. So the server gets the demand or twice what it accepts, whichever is less. The crate
//! sends at least a tenth of the demand. Without refusals nothing is refused, whatever else fails.

use std::time::Duration;

use rand::RngExt;
use resile::time::{ManualTimer, Timer};
use resile::{Throttle, Upstream, Verdict};

use super::Published::{AtMost, Percent};
use super::sim::{exponential, on_all_cores, seconds, seeded};
use super::{Check, Progress, Size};

/// The requests that the server accepts in a second.
const ACCEPTS: f64 = 100.0;
/// The demands as multiples of it.
const DEMANDS: [f64; 5] = [0.5, 1.5, 4.0, 8.0, 40.0];
/// The seconds that do not count: two windows.
const WARM: f64 = 240.0;
/// The share of requests that fail for another reason, where they do.
const FAILING: f64 = 0.8;

/// A demand and what was sent of it, both as multiples of what the server accepts.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    demand: f64,
    sent: f64,
}

/// The outcomes with each demand, and the share that was sent to a server that fails without overload.
#[derive(Debug)]
pub struct Measured {
    lines: Vec<Line>,
    failing: f64,
}

/// Returns the requests that were sent in a second.
fn run(demand: f64, is_overload: bool, lasts: f64, seed: u64) -> f64 {
    let timer = ManualTimer::with_seed(seed);
    let upstream = Upstream::new("server")
        .with_throttle(Throttle::new())
        .with_observer(&())
        .with_timer(timer.clone());
    let mut rng = seeded(seed);
    let (mut sent, mut counted, mut free_at) = (0_u32, 0.0_f64, Duration::ZERO);
    while timer.now() < seconds(lasts) {
        timer.advance(exponential(1.0 / (demand * ACCEPTS), &mut rng));
        let now = timer.now();
        let counts = now.as_secs_f64() >= WARM;
        counted += f64::from(u8::from(counts));
        let Ok(admission) = upstream.try_admit() else { continue };
        sent += u32::from(counts);
        // The server has room for a second's requests.
        let room = now + Duration::from_secs(1);
        if !is_overload && rng.random::<f64>() < FAILING {
            admission.settle(&Verdict::transient());
        } else if is_overload && free_at > room {
            admission.settle(&Verdict::throttled());
        } else {
            free_at = free_at.max(now) + seconds(1.0 / ACCEPTS);
            admission.succeeded();
        }
    }
    let demanded = demand * ACCEPTS * (lasts - WARM);
    f64::from(sent) / counted * demanded / (lasts - WARM)
}

pub fn measure(size: Size, progress: Progress<'_>) -> Measured {
    let lasts = size.pick(300.0, 840.0);
    let sent = on_all_cores(DEMANDS.len() + 1, progress, |job| {
        let demand = DEMANDS.get(job).copied();
        run(demand.unwrap_or(4.0), demand.is_some(), lasts, job as u64)
    });
    let line = |(&demand, sent): (&f64, &f64)| Line { demand, sent: sent / ACCEPTS };
    Measured {
        lines: DEMANDS.iter().zip(&sent).map(line).collect(),
        failing: 1.0 - sent[DEMANDS.len()] / ACCEPTS / 4.0,
    }
}

pub fn checks(measured: &Measured) -> Vec<Check> {
    let mut checks: Vec<_> = measured
        .lines
        .iter()
        .map(|&Line { demand, sent }| {
            let name = format!("demand of {demand} x what it accepts: sent");
            let law = demand.min(2.0);
            if demand / 10.0 > law {
                Check::new(name, Percent(demand / 10.0, 10.0), (sent, 2, " x")).ours()
            } else {
                Check::new(name, Percent(law, 10.0), (sent, 2, " x"))
            }
        })
        .collect();
    checks.push(
        Check::new(
            "80 % fail, none by overload: refused here",
            AtMost(0.0, 0.0),
            (100.0 * measured.failing, 1, " %"),
        )
        .ours(),
    );
    checks
}
