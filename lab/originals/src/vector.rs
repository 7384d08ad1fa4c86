use std::time::Duration;

use resile::breaker::State;
use resile::call::Admission;
use resile::time::ManualTimer;
use resile::{Backoff, Breaker, Never, Upstream, Verdict};
use serde::Deserialize;

use crate::script::{Difference, same};

/// A scenario that an original has published: what its breaker says to each step.
///
/// The breaker opens at 50 % of at least five calls in 20 s, failed or longer than 4 s, for 5 s. At
/// 50 % of four probes it opens again. A step has the seconds before it, and `s` for a success, `f` for
/// a failure or `b` for a call that stays in flight, with the seconds that the call takes.
#[derive(Deserialize)]
pub(crate) struct Vector {
    pub(crate) original: String,
    name: String,
    steps: Vec<(u64, String)>,
    says: Vec<String>,
    /// The reason for which the crate differs, if it does.
    #[serde(default)]
    pub(crate) why: Option<String>,
}

type Store = Upstream<ManualTimer>;

impl Vector {
    pub(crate) fn compare(&self) -> Result<(), Difference> {
        let timer = ManualTimer::new();
        let breaker = Breaker::new()
            .without_consecutive()
            .with_failure_rate(0.5, 5)
            .with_slow_rate(Duration::from_secs(4), 0.5, 5)
            .with_window(Duration::from_secs(20))
            .with_open_time(Backoff::fixed(Duration::from_secs(5)))
            .with_probes(0.75, 4);
        let store = Upstream::new("store").with_breaker(breaker).with_timer(timer.clone());
        let mut in_flight = Vec::new();
        let ours: Vec<_> = self
            .steps
            .iter()
            .map(|(later, step)| {
                timer.advance(Duration::from_secs(*later));
                said(&store, &timer, step, &mut in_flight)
            })
            .collect();
        same(&ours, &self.says, &self.name)
    }
}

/// Makes a step. Returns the state of the breaker after it, or that the call was refused.
fn said<'s>(
    store: &'s Store,
    timer: &ManualTimer,
    step: &str,
    in_flight: &mut Vec<Admission<&'s Store, Never>>,
) -> String {
    let Ok(admission) = store.try_admit() else { return "refused".to_owned() };
    let takes = step.get(1..).and_then(|seconds| seconds.parse().ok()).unwrap_or(0);
    timer.advance(Duration::from_secs(takes));
    match step.as_bytes().first() {
        Some(b's') => admission.succeeded(),
        Some(b'f') => admission.settle(&Verdict::transient()),
        _ => in_flight.push(admission),
    }
    match store.state() {
        Some(State::Closed) => "closed",
        Some(State::Open) => "open",
        Some(State::HalfOpen) => "half-open",
        _ => "another state",
    }
    .to_owned()
}
