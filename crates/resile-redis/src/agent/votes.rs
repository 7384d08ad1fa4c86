use std::time::Duration;

use resile::breaker::{Snapshot, State};

use super::job::Job;
use crate::member::Tally;
use crate::scripts::{ProbeStep, VoteReply};

/// The votes of the breakers. Pure: the breaker and the time are arguments.
#[derive(Debug, Default)]
pub(super) struct Votes {
    asked_at: Option<Duration>,
    /// The own vote and all votes, as last counted.
    counted: Option<(bool, Tally)>,
    /// The ids of the members that vote for "open", as last counted: the first eight.
    open: Vec<String>,
    suspicion: Suspicion,
}

/// The suspicion of the members against the upstream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Suspicion {
    /// Too few vote for "open".
    #[default]
    None,
    /// It began while this breaker was open. When this breaker closes first, the votes of the others
    /// are the end of one outage and not the begin of another one.
    Quiet,
    /// Operators know of it.
    Told,
}

/// The time between two votes.
const INTERVAL: Duration = Duration::from_millis(500);
/// The time after which a vote or a permission of a silent process no longer counts.
pub(super) const TTL: Duration = Duration::from_secs(2);
/// The least number of members with calls whose votes count.
pub(super) const QUORUM: u64 = 3;

/// Says what operators are told of a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Count {
    /// The votes are those of before, or none was and none is for open.
    Same,
    /// A vote is another one, or a member has come or gone.
    Changed,
    /// The votes now change when the breaker of this process opens, or they no longer do. They change
    /// nothing for a breaker that is not closed or has just closed.
    Decided,
}

impl Votes {
    pub(super) fn due_at(&self) -> Duration {
        self.asked_at.map_or(Duration::ZERO, |at| at + INTERVAL)
    }

    /// Returns the vote if it is due.
    pub(super) fn due(&mut self, breaker: &Snapshot, now: Duration) -> Option<Job> {
        if now < self.due_at() {
            return None;
        }
        self.asked_at = Some(now);
        let (calls, failures) = (breaker.calls, breaker.failures);
        let is_open = matches!(breaker.state, State::Open | State::HalfOpen);
        // A refusal is not a call, so an open breaker votes although its window is empty.
        let calls = if is_open { calls.max(1) } else { calls };
        Some(Job::Vote { calls, failures, is_open, ttl: TTL })
    }

    /// Returns the exchanges of a member that leaves.
    pub(super) fn leaving() -> [Job; 2] {
        let vote = Job::Vote { calls: 0, failures: 0, is_open: false, ttl: Duration::ZERO };
        [vote, Job::Probe { step: ProbeStep::Release, ttl: TTL }]
    }

    /// Counts the votes, of which `is_open` is the own one. Half of at least three members with calls
    /// make the others suspicious.
    pub(super) fn count(&mut self, is_open: bool, votes: VoteReply) -> Count {
        let VoteReply { members, open, ids } = votes;
        let needed = (members >= QUORUM).then(|| members.div_ceil(2));
        let tally = Tally { open, needed, members };
        let before = self.counted.replace((is_open, tally));
        let are_same = std::mem::replace(&mut self.open, ids) == self.open;
        let next = match self.suspicion {
            // The end is told when this breaker has closed, because it means nothing for an open one.
            Suspicion::Told if is_open => Suspicion::Told,
            _ if !self.is_suspect() => Suspicion::None,
            Suspicion::None if is_open => Suspicion::Quiet,
            Suspicion::None => Suspicion::Told,
            before => before,
        };
        let has_been_told = std::mem::replace(&mut self.suspicion, next) == Suspicion::Told;
        // Votes of closed breakers are no line before the first one for open.
        let was_open = before.is_some_and(|(_, tally)| tally.open > 0);
        match before {
            _ if has_been_told != (next == Suspicion::Told) => Count::Decided,
            Some(before) if before == (is_open, tally) && are_same => Count::Same,
            _ if open == 0 && !was_open => Count::Same,
            _ => Count::Changed,
        }
    }

    /// Returns the votes as last counted.
    pub(super) fn tally(&self) -> Option<Tally> {
        self.counted.map(|(_, tally)| tally)
    }

    /// Returns the ids of the first eight members that vote for "open", as last counted.
    pub(super) fn open(&self) -> &[String] {
        &self.open
    }

    pub(super) fn is_suspect(&self) -> bool {
        let is_enough = |tally: Tally| tally.needed.is_some_and(|needed| tally.open >= needed);
        self.tally().is_some_and(is_enough)
    }

    /// Returns whether the breakers of most members are closed. Then the upstream is there, and a failed probe tells of the way
    /// of its process. So each breaker probes for itself.
    pub(super) fn are_closed(&self) -> bool {
        let is_too_few = |tally: Tally| tally.needed.is_some_and(|needed| tally.open < needed);
        self.tally().is_some_and(is_too_few)
    }

    /// Forgets the other members, because the server does not answer.
    pub(super) fn forget(&mut self) {
        (self.counted, self.suspicion) = (None, Suspicion::None);
        self.open.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_told_when_it_changes_and_when_it_decides() {
        let mut votes = Votes::default();
        let mut count = |is_open, open, members| {
            let ids = (0..open).map(|id| id.to_string()).collect();
            let told = votes.count(is_open, VoteReply { members, open, ids });
            (told, votes.is_suspect(), votes.tally().unwrap().needed)
        };
        assert_eq!(count(false, 0, 1), (Count::Same, false, None), "none is for open");
        assert_eq!(count(false, 0, 2), (Count::Same, false, None));
        assert_eq!(count(false, 2, 2), (Count::Changed, false, None), "two are too few");
        assert_eq!(count(false, 2, 5), (Count::Changed, false, Some(3)));
        assert_eq!(count(true, 2, 5), (Count::Changed, false, Some(3)), "another own vote");
        assert_eq!(count(true, 3, 5), (Count::Changed, true, Some(3)), "its breaker is open");
        assert_eq!(count(true, 2, 5), (Count::Changed, false, Some(3)));
        assert_eq!(count(true, 3, 5), (Count::Changed, true, Some(3)));
        assert_eq!(count(false, 3, 5), (Count::Changed, true, Some(3)), "it has closed first");
        assert_eq!(count(false, 4, 5), (Count::Changed, true, Some(3)), "and the others follow");
        assert_eq!(count(false, 2, 5), (Count::Changed, false, Some(3)));
        assert_eq!(count(false, 3, 5), (Count::Decided, true, Some(3)), "another outage");
        assert_eq!(count(true, 4, 5), (Count::Changed, true, Some(3)));
        assert_eq!(count(false, 4, 5), (Count::Changed, true, Some(3)), "operators know");
        assert_eq!(count(false, 2, 5), (Count::Decided, false, Some(3)));
        assert_eq!(count(false, 3, 5), (Count::Decided, true, Some(3)));
        assert_eq!(count(true, 4, 5), (Count::Changed, true, Some(3)));
        assert_eq!(count(true, 2, 5), (Count::Changed, false, Some(3)), "its breaker is open");
        assert_eq!(count(true, 3, 5), (Count::Changed, true, Some(3)), "operators know");
        assert_eq!(count(true, 1, 5), (Count::Changed, false, Some(3)));
        assert_eq!(count(false, 0, 5), (Count::Decided, false, Some(3)), "it has closed");
        assert_eq!(count(false, 0, 4), (Count::Same, false, Some(2)), "nobody is open");
        assert_eq!(count(false, 1, 4), (Count::Changed, false, Some(2)));
        assert_eq!(count(false, 0, 4), (Count::Changed, false, Some(2)), "the last one has closed");
        votes.forget();
        assert_eq!((votes.tally(), votes.open()), (None, &[][..]));
        let ids = |ids: [&str; 2]| ids.map(ToOwned::to_owned).into();
        let two = |ids| VoteReply { members: 4, open: 2, ids };
        assert_eq!(votes.count(false, two(ids(["a", "b"]))), Count::Decided);
        assert_eq!(votes.count(false, two(ids(["a", "b"]))), Count::Same);
        assert_eq!(votes.count(false, two(ids(["a", "c"]))), Count::Changed, "another member");
        assert_eq!(votes.open(), ["a", "c"]);
    }
}
