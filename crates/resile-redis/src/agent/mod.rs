//! The task that exchanges with the server for one upstream.

mod answers;
mod apart;
mod census;
mod churn;
mod faults;
mod holds;
mod job;
mod learned;
mod limits;
mod notices;
mod pace;
mod part;
mod probing;
mod rest;
mod round;
#[cfg(test)]
mod scenes;
mod silences;
mod step;
mod strains;
mod tell;
#[cfg(test)]
mod tokens;
#[cfg(test)]
mod turns;
mod votes;
mod watch;
#[cfg(test)]
mod world;

use std::future::poll_fn;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use resile::Upstream;
use resile::breaker::Advice;
use resile::time::Timer;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::fail_mode::FailMode;
use crate::keys::Keys;
use crate::member::Seat;
use crate::meter::Meter;
use crate::store::Store;
use job::Desk;
use round::Round;
use step::Agent;

/// The settings of a fleet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) fail_mode: FailMode,
    pub(crate) least_members: u32,
    /// The fixed time of an exchange. `None` follows the round trips.
    pub(crate) timeout: Option<Duration>,
    pub(crate) shares_budget: bool,
    pub(crate) votes: bool,
    pub(crate) weight: u32,
}

impl Plan {
    pub(crate) const fn new() -> Self {
        Self {
            fail_mode: FailMode::Safe,
            least_members: 1,
            timeout: None,
            shares_budget: true,
            votes: false,
            weight: 1,
        }
    }
}

/// The longest time for which [`Member::leave`](crate::Member::leave) waits for the calls.
const DRAIN: Duration = Duration::from_secs(10);
/// The time between two looks at the calls of a member that leaves.
const LOOK: Duration = Duration::from_millis(10);
/// The shortest time between two steps that calls cause.
const LEAST_PAUSE: Duration = Duration::from_millis(2);

/// All that the task of one upstream needs.
pub(crate) struct Context {
    pub(crate) store: Store,
    pub(crate) plan: Plan,
    pub(crate) keys: Keys,
    pub(crate) id: Arc<str>,
    pub(crate) meter: Meter,
}

/// Shares an upstream until its member leaves.
///
/// One round of exchanges runs at a time. The task does not wait for it: meanwhile it hears the
/// holds of other members and adds the share of the limits in safe mode.
pub(crate) async fn run<U, M>(upstream: U, context: Context, mut seat: Seat)
where
    U: Deref<Target = Upstream<M>>,
    M: Timer,
{
    let Some(shared) = upstream.share() else { return };
    let channel = context.keys.holds();
    let mut holds_of_others = context.store.listen(&channel);
    let desk = Desk::new(&context);
    let began = Instant::now();
    let mut agent = Agent::new(&shared, &context);
    agent.tell_parts();
    let mut round = Round::none();
    let mut listens_at = began;
    let mut leaves_since = None;
    loop {
        let now = began.elapsed();
        agent.step(now);
        // Who reads the status of the upstream and then the snapshot finds no older state there.
        seat.update(|snapshot| agent.describe(snapshot, now));
        agent.report(now);
        if leaves_since.is_some() && agent.is_drained() {
            break;
        }
        if leaves_since.is_some_and(|since| now >= since + DRAIN) {
            seat.release();
        }
        if round.is_idle() {
            let jobs = agent.due(context.store.generation(), now);
            round.begin(&desk, jobs, agent.pace.limit());
        }
        seat.update(|snapshot| agent.describe(snapshot, now));
        let mut wakes_at = agent.wakes_at(round.is_idle(), began.elapsed());
        if leaves_since.is_some() {
            wakes_at = wakes_at.min(now + LOOK); // the end of a wait is not a change
        }
        // Many calls may need units at once: one step serves all.
        let changed = async {
            sleep_until(listens_at).await;
            poll_fn(|context| shared.poll_changed(context)).await;
        };
        tokio::select! {
            biased;
            answers = round.end() => agent.apply(answers, began.elapsed()),
            () = changed => listens_at = Instant::now() + LEAST_PAUSE,
            Some(message) = holds_of_others.recv() => agent.hear(&message, began.elapsed()),
            () = seat.leaves(), if leaves_since.is_none() => leaves_since = Some(began.elapsed()),
            () = sleep_until(began + wakes_at) => {}
        }
    }
    let jobs = agent.leaving();
    upstream.advise(Advice::new());
    round.begin(&desk, jobs, agent.pace.limit());
    // A silent server takes no longer than the time that is left.
    let ends_at = began + leaves_since.unwrap_or_default() + DRAIN;
    let outcomes = if let Ok(outcomes) = timeout_at(ends_at, round.end()).await {
        outcomes
    } else {
        seat.release();
        round.end().await
    };
    agent.tell_strains();
    let remaining = agent.tell_leave(&outcomes);
    seat.update(|snapshot| {
        snapshot.members = remaining.unwrap_or(snapshot.members);
    });
}
