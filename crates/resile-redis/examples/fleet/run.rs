//! One run: the provider, the processes and, if asked for, the outage of Redis.

use std::time::Duration;

use tokio::time::sleep_until;

use crate::crew::{Crew, Told};
use crate::plan::Plan;
use crate::provider::{Provider, SLOT, Slot};
use crate::store::Store;
use crate::worker::Job;

/// The result of a run.
pub(crate) struct Outcome {
    pub(crate) plan: Plan,
    pub(crate) slots: Vec<Slot>,
    pub(crate) told: Vec<Told>,
    /// The scripts that Redis has run. `None` if the server does not tell.
    pub(crate) scripts: Option<u64>,
}

/// Makes one run.
///
/// # Errors
///
/// Returns an error if a process does not start or fails.
pub(crate) async fn run(plan: &Plan, store: &mut Store) -> anyhow::Result<Outcome> {
    let provider = Provider::start().await?;
    let prefix = format!("resile-example:{}:{}", std::process::id(), plan.scheme.word());
    let crew = Crew::start(|process| Job {
        process,
        scheme: plan.scheme,
        length: plan.length,
        provider: provider.url(),
        redis: store.url().to_owned(),
        prefix: prefix.clone(),
    });
    let crew = crew.await?;
    let before = store.scripts();
    let began = provider.begin();
    let outage = async {
        if let Some((from, to)) = plan.outage {
            sleep_until((began + from).into()).await;
            store.kill();
            sleep_until((began + to).into()).await;
            store.restart()?;
        }
        anyhow::Ok(())
    };
    let (told, ()) = tokio::try_join!(crew.work(began, plan.length), outage)?;
    let scripts = store.scripts().zip(before).map(|(after, before)| after.saturating_sub(before));
    Ok(Outcome { plan: *plan, slots: provider.slots(plan.length), told, scripts })
}

impl Outcome {
    /// Returns the times of an outage and its effect in words.
    pub(crate) fn story(&self) -> Vec<String> {
        let Some((from, to)) = self.plan.outage else { return Vec::new() };
        let mut lines = vec![format!(
            "Redis was killed at {:.1} s and started again at {:.1} s. Of the 8 processes:",
            from.as_secs_f64(),
            to.as_secs_f64()
        )];
        for (word, since) in [("coasting", from), ("safe", from), ("learning", to), ("shared", to)]
        {
            let mut times: Vec<_> =
                self.told.iter().filter_map(|told| first(told, word, since)).collect();
            times.sort();
            let (Some(one), Some(last)) = (times.first(), times.last()) else { continue };
            lines.push(format!(
                "  {} {word}, from {:.2} s to {:.2} s",
                times.len(),
                one.as_secs_f64(),
                last.as_secs_f64()
            ));
        }
        let slots = (1.0 / SLOT.as_secs_f64()).round() as usize;
        let seconds = self.slots.chunks_exact(slots);
        let accepted = seconds.map(|slots| slots.iter().map(Slot::all_accepted).sum::<u32>());
        let words: Vec<_> = accepted.map(|accepted| accepted.to_string()).collect();
        lines.push(format!("  accepted in each second: {}", words.join(" ")));
        lines
    }
}

/// Returns the time at which a process first told that state, not before `since`.
fn first(told: &Told, word: &str, since: Duration) -> Option<Duration> {
    let of = |(at, state): &&(Duration, String)| *at >= since && state == word;
    told.states.iter().find(of).map(|(at, _)| *at)
}
