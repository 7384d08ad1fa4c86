//! At the cap jitter still spreads: formulas that clip at the cap make most delays *be* the cap, and clients that failed
//! together come back together.

use std::collections::HashMap;
use std::time::Duration;

use rand::rngs::ChaCha8Rng;
use resile::{Backoff, Jitter};

use crate::sim::seeded;

const CAP: Duration = Duration::from_secs(30);
const RETRY: u32 = 12;
const CLIENTS: usize = 1_000;

/// The delay before the twelfth retry of a client that failed all along.
fn last_delay(backoff: Backoff, rng: &mut ChaCha8Rng) -> Duration {
    (1..=RETRY).fold(Duration::ZERO, |previous, retry| backoff.delay(retry, previous, rng))
}

/// How many delays share the fullest tenth of a second.
fn fullest_slot(delays: &[Duration]) -> usize {
    let mut slots = HashMap::new();
    for delay in delays {
        *slots.entry(delay.as_millis() / 100).or_insert(0) += 1;
    }
    slots.into_values().max().unwrap_or(0)
}

fn spreads_at_the_cap(draws: usize) {
    let backoff = Backoff::exponential(Duration::from_secs(1)).with_cap(CAP);
    let mut rng = seeded(2);
    let together: Vec<_> = (0..CLIENTS).map(|_| last_delay(backoff.with_jitter(Jitter::None), &mut rng)).collect();
    assert_eq!(fullest_slot(&together), CLIENTS, "without jitter all come back at once");

    for jitter in [Jitter::Full, Jitter::Equal, Jitter::Proportional(0.5), Jitter::Decorrelated] {
        let delays: Vec<_> = (0..draws).map(|_| last_delay(backoff.with_jitter(jitter), &mut rng)).collect();
        let longest = delays.iter().max().copied().unwrap_or_default();
        let at_cap = delays.iter().filter(|delay| **delay == CAP).count();
        let fullest = delays.chunks_exact(CLIENTS).map(fullest_slot).max().unwrap_or(usize::MAX);
        println!("{jitter:?}: longest {longest:?}, at the cap {at_cap}, fullest slot {fullest}");
        assert!(longest <= CAP, "{jitter:?}: {longest:?}");
        assert!(at_cap * 1000 < draws, "{jitter:?}: {at_cap} of {draws} are the cap");
        assert!(fullest <= 25, "{jitter:?}: {fullest} of {CLIENTS} in a tenth of a second");
    }
}

#[test]
fn jitter_spreads_at_the_cap() {
    spreads_at_the_cap(10_000);
}

#[test]
#[ignore = "the claim in full"]
fn jitter_spreads_at_the_cap_in_full() {
    spreads_at_the_cap(100_000);
}
