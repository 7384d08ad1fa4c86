use std::time::Duration;

use resile::breaker::{Advice, Snapshot, State, TripReason};

use super::job::Job;
use crate::member::Tally;
use crate::scripts::{ProbeReply, ProbeStep, VoteReply};

/// The votes of the breakers, the permission to probe, and the results of probes. Pure: the breaker
/// and the time are arguments.
#[derive(Debug, Default)]
pub(super) struct Votes {
    asked_at: Option<Duration>,
    /// The own vote and all votes, as last counted.
    counted: Option<(bool, Tally)>,
    /// The ids of the members that vote for "open", as last counted: the first eight.
    open: Vec<String>,
    /// True while this process has the permission to probe.
    may_probe: bool,
    /// The end of the permission of another process, or of the pause after a failed probe.
    others_until: Duration,
    /// The openings of the breaker, and the time at which the last one was seen.
    opened: (u32, Duration),
    /// True if a probe passed since the breaker opened, until the breaker is told.
    has_passed: bool,
    /// The time before which this process leaves the permission to others, because it made no use
    /// of it.
    yields_until: Duration,
    suspicion: Suspicion,
    /// The id of the member whose probe failed, if that holds the breakers open.
    failed_by: Option<String>,
    /// The id of another member that has the permission to probe.
    prober: Option<String>,
    /// The end of the latest pause that operators know.
    told_until: Duration,
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
const TTL: Duration = Duration::from_secs(2);
/// The time before the end of the open time from which on a process asks for the permission.
const AHEAD: Duration = Duration::from_secs(1);
/// The least number of members with calls whose votes count.
pub(super) const QUORUM: u64 = 3;

/// Says what operators are told of a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Count {
    /// The votes are those of before.
    Same,
    /// A vote is another one, or a member has come or gone.
    Changed,
    /// The votes now change when the breaker of this process opens, or they no longer do. They change
    /// nothing for a breaker that is open or has just closed.
    Decided,
}

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
        // A refusal is not a call, so an open breaker votes although its window is empty.
        let calls = if is_open { calls.max(1) } else { calls };
        let vote = Job::Vote { calls, failures, is_open, ttl: TTL };
        let probe = self.probe(breaker, now).map(|(step, ttl)| Job::Probe { step, ttl });
        [Some(vote), probe].into_iter().flatten().collect()
    }

    /// Returns the step with the permission to probe.
    fn probe(&mut self, breaker: &Snapshot, now: Duration) -> Option<(ProbeStep, Duration)> {
        let (trips, rest) = (breaker.trips, breaker.retry_after.unwrap_or_default());
        let has_opened = trips != self.opened.0;
        if has_opened {
            self.opened = (trips, now);
        }
        let step = match breaker.state {
            // The pause of this process is that of all.
            State::Open if has_opened && breaker.reason == Some(TripReason::Probes) => {
                return Some((ProbeStep::Failed, rest));
            }
            // Without a call it does not renew the permission, so another member may try.
            State::Open if rest > AHEAD || self.may_probe || now < self.yields_until => {
                ProbeStep::Look
            }
            State::Open => ProbeStep::Acquire,
            // Without a probe in flight another member may try.
            State::HalfOpen if self.may_probe && breaker.probes > 0 => ProbeStep::Acquire,
            State::Closed if self.may_probe => ProbeStep::Passed,
            _ => return None,
        };
        Some((step, TTL))
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
            _ if !self.is_suspect() => Suspicion::None,
            Suspicion::None if is_open => Suspicion::Quiet,
            Suspicion::None => Suspicion::Told,
            before => before,
        };
        let has_been_told = std::mem::replace(&mut self.suspicion, next) == Suspicion::Told;
        match before {
            _ if has_been_told != (next == Suspicion::Told) => Count::Decided,
            Some(before) if before == (is_open, tally) && are_same => Count::Same,
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

    /// Returns the pause of another process that holds this breaker open for longer than `rest`, once.
    /// Nobody has a permission for so long, so a probe has failed.
    pub(super) fn prolonged(
        &mut self,
        step: ProbeStep,
        rest: Duration,
        now: Duration,
    ) -> Option<Duration> {
        let until = self.others_until;
        let is_own = step == ProbeStep::Failed;
        let is_news = until > self.told_until.max(now + rest) + AHEAD;
        let is_told = !is_own && is_news && until > now + TTL + AHEAD;
        if is_own || is_told {
            self.told_until = until;
        }
        is_told.then(|| until.saturating_sub(now))
    }

    /// Returns the id of the member whose failed probe holds the breakers open, if it is known.
    pub(super) fn failed_by(&self) -> Option<&str> {
        self.failed_by.as_deref()
    }

    /// Returns the id of another member that has the permission to probe, if it is known.
    pub(super) fn prober(&self) -> Option<&str> {
        self.prober.as_deref()
    }

    /// Notes who may probe, and whether a probe of any member passed. Returns whether another member now
    /// has the permission.
    pub(super) fn permit(&mut self, step: ProbeStep, reply: &ProbeReply, now: Duration) -> bool {
        if self.may_probe && !reply.held && step == ProbeStep::Look {
            self.yields_until = now + AHEAD;
        }
        self.may_probe = reply.held;
        self.others_until = now + reply.remaining;
        if self.failed_by != reply.failed_by {
            self.failed_by.clone_from(&reply.failed_by);
        }
        let passed_at = reply.passed.map(|ago| now.saturating_sub(ago));
        self.has_passed = passed_at.is_some_and(|at| at > self.opened.1);
        let is_other = self.prober != reply.prober;
        if is_other {
            self.prober.clone_from(&reply.prober);
        }
        is_other && self.prober.is_some()
    }

    /// Forgets the other members, because the server does not answer.
    pub(super) fn forget(&mut self) {
        (self.may_probe, self.has_passed, self.counted) = (false, false, None);
        self.suspicion = Suspicion::None;
        (self.failed_by, self.prober) = (None, None);
        self.open.clear();
        self.others_until = Duration::ZERO;
    }

    /// Returns the advice to the breaker.
    pub(super) fn advice(&mut self, now: Duration) -> Advice {
        Advice::new()
            .with_suspicion(self.is_suspect())
            .without_probe_for(self.others_until.saturating_sub(now))
            .with_prober(self.prober.is_some())
            .with_probe(std::mem::take(&mut self.has_passed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const PERMITTED: ProbeReply = ProbeReply {
        held: true,
        remaining: Duration::ZERO,
        passed: None,
        failed_by: None,
        prober: None,
    };

    fn breaker(state: State, trips: u32, rest: Duration) -> Snapshot {
        let breaker = resile::Upstream::new("probed").with_breaker(resile::Breaker::new());
        let mut snapshot = breaker.snapshot().unwrap();
        (snapshot.state, snapshot.trips, snapshot.retry_after) = (state, trips, Some(rest));
        snapshot.reason = (trips > 1).then_some(TripReason::Probes);
        snapshot
    }

    #[test]
    fn a_count_is_told_when_it_changes_and_when_it_decides() {
        let mut votes = Votes::default();
        let mut count = |is_open, open, members| {
            let ids = (0..open).map(|id| id.to_string()).collect();
            let told = votes.count(is_open, VoteReply { members, open, ids });
            (told, votes.is_suspect(), votes.tally().unwrap().needed)
        };
        assert_eq!(count(false, 0, 1), (Count::Changed, false, None));
        assert_eq!(count(false, 0, 1), (Count::Same, false, None));
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
        votes.forget();
        assert_eq!((votes.tally(), votes.open()), (None, &[][..]));
        let ids = |ids: [&str; 2]| ids.map(ToOwned::to_owned).into();
        let two = |ids| VoteReply { members: 4, open: 2, ids };
        assert_eq!(votes.count(false, two(ids(["a", "b"]))), Count::Decided);
        assert_eq!(votes.count(false, two(ids(["a", "b"]))), Count::Same);
        assert_eq!(votes.count(false, two(ids(["a", "c"]))), Count::Changed, "another member");
        assert_eq!(votes.open(), ["a", "c"]);
    }

    #[test]
    fn a_failed_probe_is_told_once_with_its_pause() {
        let mut votes = Votes::default();
        assert_eq!(
            votes.probe(&breaker(State::Open, 1, SECOND / 2), SECOND),
            Some((ProbeStep::Acquire, TTL))
        );
        votes.permit(ProbeStep::Acquire, &PERMITTED, SECOND);
        let failed = breaker(State::Open, 2, 4 * SECOND);
        assert_eq!(votes.probe(&failed, 2 * SECOND), Some((ProbeStep::Failed, 4 * SECOND)));
        let remaining = 4 * SECOND;
        let reply = ProbeReply { held: false, remaining, ..PERMITTED };
        votes.permit(ProbeStep::Failed, &reply, 2 * SECOND);
        assert_eq!(votes.probe(&failed, 3 * SECOND), Some((ProbeStep::Look, TTL)));
        assert_eq!(votes.advice(3 * SECOND), Advice::new().without_probe_for(3 * SECOND));
    }

    #[test]
    fn the_pause_of_another_process_is_told_once_and_the_own_one_never() {
        let mut votes = Votes::default();
        let mut told = |step, pause, rest, now| {
            votes.permit(step, &ProbeReply { held: false, remaining: pause, ..PERMITTED }, now);
            votes.prolonged(step, rest, now)
        };
        let look = ProbeStep::Look;
        assert_eq!(told(look, 2 * SECOND, SECOND, SECOND), None, "another process probes");
        assert_eq!(told(look, 9 * SECOND, SECOND, 2 * SECOND), Some(9 * SECOND));
        assert_eq!(told(look, 8 * SECOND, SECOND, 3 * SECOND), None);
        assert_eq!(told(look, 20 * SECOND, SECOND, 9 * SECOND), Some(20 * SECOND));
        assert_eq!(told(ProbeStep::Failed, 40 * SECOND, 40 * SECOND, 30 * SECOND), None);
        assert_eq!(
            told(look, 39 * SECOND, Duration::ZERO, 31 * SECOND),
            None,
            "its own probe failed"
        );
        assert_eq!(told(look, 39 * SECOND, 60 * SECOND, 90 * SECOND), None, "it waits for longer");
    }

    #[test]
    fn another_prober_is_told_once_and_its_end_is_not_known() {
        let mut votes = Votes::default();
        let mut permit = |prober: Option<&str>, now| {
            let prober = prober.map(ToOwned::to_owned);
            let reply = ProbeReply { held: false, remaining: 2 * SECOND, prober, ..PERMITTED };
            (votes.permit(ProbeStep::Look, &reply, now), votes.advice(now))
        };
        let pause = Advice::new().without_probe_for(2 * SECOND);
        assert_eq!(permit(None, SECOND), (false, pause));
        assert_eq!(permit(Some("web-2"), SECOND), (true, pause.with_prober(true)));
        assert_eq!(permit(Some("web-2"), 2 * SECOND), (false, pause.with_prober(true)));
        assert_eq!(permit(Some("web-3"), 3 * SECOND), (true, pause.with_prober(true)));
        assert_eq!(permit(None, 4 * SECOND), (false, pause));
        votes.prober = Some("web-2".to_owned());
        votes.forget();
        assert_eq!(votes.prober(), None);
    }

    #[test]
    fn a_probe_that_passed_after_the_opening_lets_a_breaker_probe_once() {
        let mut votes = Votes::default();
        votes.probe(&breaker(State::Open, 1, 9 * SECOND), 2 * SECOND);
        let passed = |ago| ProbeReply { held: false, passed: Some(ago), ..PERMITTED };
        votes.permit(ProbeStep::Look, &passed(2 * SECOND), 3 * SECOND);
        assert_eq!(votes.advice(3 * SECOND), Advice::new(), "it passed before the opening");
        votes.permit(ProbeStep::Look, &passed(SECOND / 10), 4 * SECOND);
        assert_eq!(votes.advice(4 * SECOND), Advice::new().with_probe(true));
        assert_eq!(votes.advice(4 * SECOND), Advice::new());
    }

    #[test]
    fn a_member_without_calls_leaves_the_permission_to_others() {
        let mut votes = Votes::default();
        let open = breaker(State::Open, 1, Duration::ZERO);
        assert_eq!(votes.probe(&open, SECOND), Some((ProbeStep::Acquire, TTL)));
        votes.permit(ProbeStep::Acquire, &PERMITTED, SECOND);
        assert_eq!(votes.probe(&open, 2 * SECOND), Some((ProbeStep::Look, TTL)));
        votes.permit(ProbeStep::Look, &ProbeReply { held: false, ..PERMITTED }, 3 * SECOND);
        assert_eq!(votes.probe(&open, 3 * SECOND), Some((ProbeStep::Look, TTL)));
        assert_eq!(votes.probe(&open, 4 * SECOND), Some((ProbeStep::Acquire, TTL)));
    }
}
