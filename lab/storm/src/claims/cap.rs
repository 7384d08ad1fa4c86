//! Jitter spreads delays even at the cap. Formulas that clip at the cap make most delays equal to
//! the cap, so clients that failed together come back together.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::ChaCha8Rng;
use resile::{Backoff, Jitter};

use super::Published::{AtMost, Below, Between};
use super::sim::{on_all_cores, seeded};
use super::{Check, Progress, Size};

pub const CAP: Duration = Duration::from_secs(30);
pub const CLIENTS: usize = 1_000;
const RETRY: u32 = 12;
const BACKOFF: Backoff = Backoff::exponential(Duration::from_secs(1)).with_cap(CAP);

/// The delays before the twelfth retry of clients that failed every time.
#[derive(Debug)]
pub struct Spread {
    pub name: &'static str,
    pub delays: Vec<Duration>,
}

/// A formula for a delay.
#[derive(Clone, Copy)]
enum Formula {
    /// The formula of the crate.
    Ours(Jitter),
    /// The formula of textbooks: proportional jitter of one half, then a clip at the cap.
    Clipped,
}

const FORMULAS: [(&str, Formula); 6] = [
    ("no jitter", Formula::Ours(Jitter::None)),
    ("clipped after jitter (textbook)", Formula::Clipped),
    ("full", Formula::Ours(Jitter::Full)),
    ("equal", Formula::Ours(Jitter::Equal)),
    ("proportional, 0.5", Formula::Ours(Jitter::Proportional(0.5))),
    ("decorrelated", Formula::Ours(Jitter::Decorrelated)),
];

impl Formula {
    /// Draws the delay before the twelfth retry.
    fn last_delay(self, rng: &mut ChaCha8Rng) -> Duration {
        match self {
            Self::Ours(jitter) => {
                let backoff = BACKOFF.with_jitter(jitter);
                (1..=RETRY).fold(Duration::ZERO, |previous, retry| {
                    backoff.delay(retry, previous, |range| rng.random_range(range))
                })
            }
            Self::Clipped => {
                Duration::from_secs(1 << (RETRY - 1)).mul_f64(rng.random_range(0.5..=1.5)).min(CAP)
            }
        }
    }
}

/// Counts the delays in each tenth of a second up to the cap. The last slot begins at the cap.
pub fn slots(delays: &[Duration]) -> Vec<u32> {
    let mut slots = vec![0; (CAP.as_millis() / 100) as usize + 1];
    for delay in delays {
        let last = slots.len() - 1;
        slots[((delay.as_millis() / 100) as usize).min(last)] += 1;
    }
    slots
}

pub fn measure(size: Size, progress: Progress<'_>) -> Vec<Spread> {
    let draws = size.pick(10_000, 100_000);
    on_all_cores(FORMULAS.len(), progress, |job| {
        let ((name, formula), mut rng) = (FORMULAS[job], seeded(job as u64));
        Spread { name, delays: (0..draws).map(|_| formula.last_delay(&mut rng)).collect() }
    })
}

pub fn checks(spreads: &[Spread]) -> Vec<Check> {
    let mut checks = Vec::new();
    for (Spread { name, delays }, (_, formula)) in spreads.iter().zip(FORMULAS) {
        let fullest =
            delays.chunks_exact(CLIENTS).filter_map(|crowd| slots(crowd).into_iter().max()).max();
        let fullest = (f64::from(fullest.unwrap_or(u32::MAX)), 0, " of 1000");
        let what = format!("{name}: most in 0.1 s");
        if matches!(formula, Formula::Ours(Jitter::None) | Formula::Clipped) {
            checks.push(Check::new(what, Between(999.0, 1000.0), fullest));
            continue;
        }
        let longest = delays.iter().max().copied().unwrap_or_default();
        let at_cap =
            delays.iter().filter(|&&delay| delay == CAP).count() as f64 / delays.len() as f64;
        checks.push(Check::new(what, AtMost(25.0, 0.0), fullest));
        let what = format!("{name}: longest delay");
        checks.push(Check::new(
            what,
            AtMost(CAP.as_secs_f64(), 0.0),
            (longest.as_secs_f64(), 3, " s"),
        ));
        checks.push(Check::new(
            format!("{name}: share at the cap"),
            Below(0.1),
            (100.0 * at_cap, 3, " %"),
        ));
    }
    checks
}
