use super::outer::{self, Entered};
use super::{Figure, Observe, Report};

/// Publishes what happens through the `metrics` facade. Attach it beside what else observes:
/// `.with_observer((Standard, Metrics::new("weather")))`.
///
/// Each series has the label `name`: what [`new`](Self::new) was given.
///
/// | series | kind | labels | counts |
/// |---|---|---|---|
/// | `resile_attempts_total` | counter | `outcome`: `ok`, `transient`, `throttled`, `permanent` | attempts that ended by themselves, of a retry, a run, a stream or a hedge |
/// | `resile_retries_total` | counter | `cause`: `transient`, `throttled` | retries that were decided on |
/// | `resile_calls_total` | counter | `outcome`: `ok`, or why it was given up, as [`Stop::as_str`](crate::Stop::as_str) | calls that ended, of a retry, a run, a stream, a hedge or a fallback |
/// | `resile_wait_seconds` | histogram | | delays before retries, and holds by a cooldown |
/// | `resile_holds_total` | counter | `by`: `cooldown` | attempts that a cooldown held |
/// | `resile_budget_tokens` | gauge | | retries that the budget could pay, as last seen by a failing call |
/// | `resile_breaker_state` | gauge | | 0 closed, 1 half-open, 2 open, 3 isolated |
/// | `resile_breaker_trips_total` | counter | `why`: as [`Trip::as_str`](crate::breaker::Trip::as_str) | openings of the breaker |
/// | `resile_nested_total` | counter | `where`: `attempt` | calls made within another one's attempt |
/// | `resile_hedges_total` | counter | `event`: `started`, `won`, `lost`, `denied` | extra attempts of a hedged call |
/// | `resile_fallbacks_total` | counter | `outcome`: `failed`, `first`, `later`, or why none answered | alternatives that failed, and calls that ended: by the first alternative, a later one, or none |
///
/// Each event costs a look-up in the recorder that the program installed; without one, next to nothing.
///
/// # Calls within calls
///
/// A call that runs within an attempt of another call of the same name is a part of that call. `resile_calls_total`
/// counts the outer one alone. So its sum over all outcomes is the number of calls that the program made under that
/// name, whether it retries a hedge, hedges a retry, or has a fallback over retries. `resile_attempts_total` counts the
/// attempts of the outer one alone; a fallback has no attempts, so those of the calls within it count. The other series
/// count what happens at every level.
///
/// Calls of another name count under that name, wherever they run. Give each level a name of its own to see what each
/// does.
///
/// That a call runs within another is known while an attempt of the other one is polled. So a call counts by itself
///
/// * in a task that an attempt spawns;
/// * in the closure that makes an attempt, ahead of the future that it returns;
/// * as a stream that is read after the attempt which returned it;
/// * in an attempt of a [`Run`](crate::Run) by hand (`again`, `blocking_again`, `success`), which nobody polls for the
///   run;
/// * if the outer call's observer is a closure that hands its events on to a `Metrics`: it does not hand on
///   [`within`](Observe::within).
///
/// Two `Metrics` of the same name on one call count it twice, and a [`Run`](crate::Run) that is used after it gave up
/// counts again. A call that is dropped is not counted.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use resile::observe::{Metrics, Standard};
/// use resile::{Never, RetryPolicy, retry};
///
/// let policy = RetryPolicy::new();
/// let call = retry(|_| async { Ok::<_, &str>("sunny") }, &policy, Never);
/// call.with_observer((Standard, Metrics::new("weather"))).await.unwrap();
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metrics {
    name: &'static str,
}

impl Metrics {
    /// Publishes under that name: of the peer, of the call, of the breaker.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self { name }
    }
}

impl<Ev: Report + ?Sized> Observe<Ev> for Metrics {
    fn within<T>(&self, counted: &'static [&'static str], poll: impl FnOnce() -> T) -> T {
        let _entered = Entered::new(self.name, counted);
        poll()
    }

    fn observe(&self, event: &Ev) {
        event.figures(&mut |figure| match figure {
            Figure::Count { name, .. } if outer::counts(self.name, name) => {}
            Figure::Count { name, key, value } => {
                ::metrics::counter!(name, "name" => self.name, key => value).increment(1);
            }
            Figure::Level { name, value } => ::metrics::gauge!(name, "name" => self.name).set(value),
            Figure::Time { name, value } => {
                ::metrics::histogram!(name, "name" => self.name).record(value.as_secs_f64());
            }
        });
    }
}
