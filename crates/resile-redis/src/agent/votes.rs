use std::time::Duration;

use resile::breaker::{Advice, Snapshot, State};

use super::job::Job;
use crate::scripts::{ProbeReply, ProbeStep, VoteReply};

/// The votes of the breakers, and the permission to probe. Pure: the breaker and the time are
/// arguments.
#[derive(Debug, Default)]
pub(super) struct Votes {
    asked_at: Option<Duration>,
    is_suspect: bool,
    /// True while this process has the permission to probe.
    may_probe: bool,
    /// The end of the permission of another process.
    others_until: Duration,
}

/// The time between two votes.
const INTERVAL: Duration = Duration::from_millis(500);
/// The time after which a vote or a permission of a silent process no longer counts.
const TTL: Duration = Duration::from_secs(2);
/// The time before the end of the open time from which on a process asks for the permission.
const AHEAD: Duration = Duration::from_secs(1);
/// The least number of members with calls whose votes count.
const QUORUM: u64 = 3;

impl Votes {
    pub(super) fn due_at(&self) -> Duration {
        self.asked_at.map_or(Duration::ZERO, |at| at + INTERVAL)
    }

    /// Returns the exchanges that are due.
    pub(super) fn due(&mut self, breaker: &Snapshot, now: Duration) -> Vec<Job> {
        if now < self.due_at() {
            return Vec::new();
        }
        self.asked_at = Some(now);
        let (calls, failures) = (breaker.calls, breaker.failures);
        let is_open = matches!(breaker.state, State::Open | State::HalfOpen);
        // A refusal is no call, so an open breaker votes although its window is empty.
        let calls = if is_open { calls.max(1) } else { calls };
        let mut jobs = vec![Job::Vote { calls, failures, is_open, ttl: TTL }];
        let step = match breaker.state {
            State::Open if breaker.retry_after.is_none_or(|left| left <= AHEAD) => {
                Some(ProbeStep::Acquire)
            }
            // Without a probe in flight another member may try.
            State::HalfOpen if self.may_probe && breaker.probes > 0 => Some(ProbeStep::Acquire),
            State::Closed if self.may_probe => Some(ProbeStep::Release),
            _ => None,
        };
        jobs.extend(step.map(|step| Job::Probe { step, ttl: TTL }));
        jobs
    }

    /// Returns the exchanges of a member that leaves.
    pub(super) fn leaving() -> [Job; 2] {
        let vote = Job::Vote { calls: 0, failures: 0, is_open: false, ttl: Duration::ZERO };
        [vote, Job::Probe { step: ProbeStep::Release, ttl: TTL }]
    }

    /// Counts the votes. Half of at least three members with calls make the others suspicious.
    pub(super) fn count(&mut self, votes: VoteReply) {
        self.is_suspect = votes.members >= QUORUM && votes.open * 2 >= votes.members;
    }

    /// Notes who may probe.
    pub(super) fn permit(&mut self, reply: &ProbeReply, now: Duration) {
        self.may_probe = reply.held;
        self.others_until = if reply.held { Duration::ZERO } else { now + reply.remaining };
    }

    /// Forgets the other members, because the server does not answer.
    pub(super) fn forget(&mut self) {
        (self.is_suspect, self.may_probe, self.others_until) = (false, false, Duration::ZERO);
    }

    /// Returns the advice to the breaker.
    pub(super) fn advice(&self, now: Duration) -> Advice {
        Advice::new()
            .with_suspicion(self.is_suspect)
            .without_probe_for(self.others_until.saturating_sub(now))
    }
}
