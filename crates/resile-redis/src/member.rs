use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use std::{fmt, mem};

use resile::fleet::State;
use resile::upstream::Resource;
use tokio::sync::watch;

use crate::meter::Meter;

/// A handle to an upstream that has joined a [`Fleet`](crate::Fleet). Made by
/// [`Fleet::join`](crate::Fleet::join).
///
/// `Debug` prints the names and the state.
#[derive(Clone)]
pub struct Member {
    name: Arc<str>,
    id: Arc<str>,
    snapshot: Arc<Mutex<Snapshot>>,
    leaving: watch::Sender<bool>,
}

/// The state of a member.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Snapshot {
    /// True until the member leaves or its runtime ends. Then the state is [`State::Left`], the leases, the
    /// votes and the names are empty, and all other fields have their last values.
    pub is_joined: bool,
    /// The worst state of all exchanges, or [`State::Left`].
    pub state: State,
    /// True while the limits are shared and something else is not: a key of the members, the hold
    /// or the votes fails. [`last_error`](Self::last_error) says why.
    pub is_partial: bool,
    /// True while the upstream has had no call for ten seconds. The member then holds no units, and
    /// asks the server about twice a minute.
    pub rests: bool,
    /// The number of members that the server counted last, with this one unless it has left. While it
    /// counts anew after a loss of its data, the limits are divided by the larger number before. It is 1
    /// until the first renewal of the presence has an answer.
    pub members: u32,
    /// The time since the server last answered. `None` before the first answer.
    pub age: Option<Duration>,
    /// The leases.
    pub leases: Vec<Leased>,
    /// The votes of the breakers as last counted, at most about half a second ago. `None` without
    /// [`Fleet::with_votes`](crate::Fleet::with_votes), without a breaker, and while the server does
    /// not answer.
    pub votes: Option<Tally>,
    /// The names of the processes whose breakers vote for "open", with this one, in the order of the
    /// names. At most eight, so there may be fewer than votes.
    pub open_voters: Vec<String>,
    /// The name of the process that was asked for the hold of the cooldown that all calls obey now. It
    /// may be this one. `None` without a hold.
    pub held_by: Option<String>,
    /// The number of scripts that the server has run for this member.
    pub exchanges: u64,
    /// The number of scripts that failed or had no answer in time.
    pub failures: u64,
    /// The number of times that the clock of the server ran back by half a second or more, as this
    /// process was told. One member is told of a step.
    pub clock_steps: u64,
    /// The duration of the last exchange with an answer.
    pub latency: Option<Duration>,
    /// The time for which calls lack units and nothing was granted, although the server answers.
    /// `None` until it is 5 s, and for a slow limit until it is 5 s and twice the time in which one
    /// of the members gets these units.
    pub starves_for: Option<Duration>,
    /// The last failure, in words. Without secrets. It stays after the next answer.
    pub last_error: Option<String>,
    /// The time since the last failure. `None` before the first one.
    pub last_error_age: Option<Duration>,
}

/// The state of one lease.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Leased {
    /// The limit.
    pub resource: Resource,
    /// The units that this process has: requests or tokens of the quota, or tokens of the budget, of which
    /// there are parts. A debt is negative.
    pub balance: f64,
    /// The level of the whole fleet as last reported, in the same units. The units that processes have
    /// do not belong to it.
    pub level: Option<f64>,
}

/// The votes of the breakers of a fleet.
///
/// A member votes once in half a second, for "open" while its breaker is open or half-open. With at
/// least as many votes for "open" as needed, the other breakers open at half of their thresholds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tally {
    /// The number of votes for "open", with that of this member.
    pub open: u64,
    /// The number of votes for "open" that is needed: half of the members, rounded up. `None` while
    /// fewer than three members vote, because then the votes change nothing.
    pub needed: Option<u64>,
    /// The number of members that vote, with this one: those whose breaker has calls in its window
    /// or is not closed.
    pub members: u64,
}

/// The side of the task.
pub(crate) struct Seat {
    snapshot: Arc<Mutex<Snapshot>>,
    /// `None` when nobody waits any more for the end of the membership.
    leaving: Option<watch::Receiver<bool>>,
    meter: Meter,
}

impl Member {
    pub(crate) fn new(name: &str, id: Arc<str>, meter: Meter) -> (Self, Seat) {
        let snapshot = Arc::new(Mutex::new(Snapshot {
            is_joined: true,
            state: State::Joining,
            is_partial: false,
            rests: false,
            members: 1,
            age: None,
            leases: Vec::new(),
            votes: None,
            open_voters: Vec::new(),
            held_by: None,
            exchanges: 0,
            failures: 0,
            clock_steps: 0,
            latency: None,
            starves_for: None,
            last_error: None,
            last_error_age: None,
        }));
        let (leaving, receiver) = watch::channel(false);
        let seat = Seat { snapshot: Arc::clone(&snapshot), leaving: Some(receiver), meter };
        (Self { name: Arc::from(name), id, snapshot, leaving }, seat)
    }

    /// Returns the name of the upstream.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the name by which the server tells this member apart from others: the name of the
    /// process (see [`Fleet::with_member_name`](crate::Fleet::with_member_name)) and a random number.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the state as of the last step of the task.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.snapshot.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Leaves the fleet when no call waits for the quota any more: gives all leases back and ends
    /// the task. The limits are those of one process then.
    ///
    /// While calls wait, the process is a member and has its part of the limit. So make no new
    /// calls before you leave. Calls that go on to come keep the process in the fleet. The future
    /// completes when the member has left, and after 10 s at the latest. Dropping it does not stop
    /// the task from leaving.
    ///
    /// It does not wait for attempts in flight or for pauses before retries. So wait for the tasks of
    /// your calls before you leave and exit. A retry after the end of the membership uses the limit of
    /// one process.
    pub async fn leave(&self) {
        self.leaving.send_replace(true);
        self.leaving.closed().await;
    }
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Member")
            .field("name", &self.name)
            .field("id", &self.id)
            .field("state", &self.snapshot().state)
            .finish_non_exhaustive()
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut leases = Vec::new();
        self.update(|snapshot| {
            snapshot.is_joined = false;
            snapshot.state = State::Left;
            leases = mem::take(&mut snapshot.leases);
            snapshot.votes = None;
            snapshot.open_voters.clear();
            snapshot.held_by = None;
        });
        self.meter.left(&leases);
    }
}

impl Seat {
    /// Completes when the member wants to leave.
    pub(crate) async fn leaves(&mut self) {
        if let Some(leaving) = &mut self.leaving {
            if leaving.wait_for(|leaves| *leaves).await.is_ok() {
                return;
            }
        }
        // All handles are gone: the member stays.
        std::future::pending::<()>().await;
    }

    /// Lets [`Member::leave`] complete although the member has not left.
    pub(crate) fn release(&mut self) {
        self.leaving = None;
    }

    pub(crate) fn update(&self, change: impl FnOnce(&mut Snapshot)) {
        change(&mut self.snapshot.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_printed_without_its_locks() {
        let (member, seat) = Member::new("model", Arc::from("web-1-0"), Meter::new("model"));
        let words =
            |state| format!(r#"Member {{ name: "model", id: "web-1-0", state: {state}, .. }}"#);
        assert_eq!(format!("{member:?}"), words("Joining"));
        drop(seat);
        assert_eq!(format!("{member:?}"), words("Left"));
    }
}
