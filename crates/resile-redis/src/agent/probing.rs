use std::time::Duration;

use resile::breaker::{Advice, Snapshot, State, TripReason};

use super::votes::{TTL, Votes};
use crate::scripts::{ProbeReply, ProbeStep};

/// The permission to probe, and the results of the probes of all members. Pure: the breaker, the votes and
/// the time are arguments.
#[derive(Debug, Default)]
pub(super) struct Probing {
    /// True while this process has the permission to probe.
    may_probe: bool,
    /// The end of the permission of another process, or of the pause after a failed probe.
    others_until: Duration,
    /// The end of the pause after a failed probe.
    paused_until: Duration,
    /// The openings of the breaker, and the time at which the last one was seen.
    opened: (u32, Duration),
    /// True if a probe passed since the breaker opened, until the breaker is told.
    has_passed: bool,
    /// The time before which this process leaves the permission to others, because it made no use
    /// of it.
    yields_until: Duration,
    /// The id of the member whose probe failed, if that holds the breakers open.
    failed_by: Option<String>,
    /// The id of another member that has the permission to probe, or whose turn comes first.
    prober: Option<String>,
    /// The end of the latest pause that operators know.
    told_until: Duration,
    /// The end of the pause of this process that is one of the fleet, and whether the fleet knows it.
    own: (Duration, bool),
    /// True while the server does not answer, from safe mode on.
    is_cut_off: bool,
}

/// The time before the end of the open time from which on a process asks for the permission.
const AHEAD: Duration = Duration::from_secs(1);

impl Probing {
    /// Returns the step with the permission to probe.
    pub(super) fn step(
        &mut self,
        breaker: &Snapshot,
        votes: &Votes,
        now: Duration,
    ) -> Option<(ProbeStep, Duration)> {
        let (trips, rest) = (breaker.trips, breaker.retry_after.unwrap_or_default());
        let has_opened = trips != self.opened.0;
        let is_alone = votes.are_closed();
        if has_opened || breaker.state != State::Open {
            let has_failed = breaker.state == State::Open
                && breaker.reason == Some(TripReason::Probes)
                && !is_alone;
            // Probes without a turn tell of this process alone.
            let is_of_fleet = has_opened && has_failed && (self.may_probe || !self.is_cut_off);
            self.own = (if is_of_fleet { now + rest } else { Duration::ZERO }, false);
        }
        if has_opened {
            self.opened = (trips, now);
            self.may_probe &= !self.is_cut_off; // a turn has one result
        }
        let step = match breaker.state {
            // The fault may be that of this process, so its probes are its own too.
            State::Open if is_alone && self.may_probe => ProbeStep::Release,
            State::Open if is_alone => ProbeStep::Look,
            State::HalfOpen if is_alone => return None,
            // The pause of this process is that of all, so it is told until they know it.
            State::Open if now < self.own.0 && !self.own.1 => {
                return Some((ProbeStep::Failed, self.own.0.saturating_sub(now)));
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

    /// Returns the pause of another process that holds this breaker open for longer than `rest` by [`AHEAD`],
    /// once.
    pub(super) fn prolonged(
        &mut self,
        step: ProbeStep,
        rest: Duration,
        votes: &Votes,
        now: Duration,
    ) -> Option<Duration> {
        if votes.are_closed() {
            return None;
        }
        let until = self.paused_until;
        let is_own = step == ProbeStep::Failed;
        let is_told = !is_own && until > self.told_until.max(now + rest) + AHEAD;
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
    pub(super) fn permit(
        &mut self,
        step: ProbeStep,
        reply: &ProbeReply,
        votes: &Votes,
        now: Duration,
    ) -> bool {
        if self.may_probe && !reply.held && step == ProbeStep::Look {
            self.yields_until = now + AHEAD;
        }
        self.may_probe = reply.held;
        let passed_at = reply.passed.map(|ago| now.saturating_sub(ago));
        self.has_passed = passed_at.is_some_and(|at| at > self.opened.1);
        // A server that has lost its data, or an outage within a turn, ends the pause early. Then the permission
        // must be asked for before the probes.
        let must_ask = step == ProbeStep::Look && !reply.held && !self.has_passed;
        let asks_until = if must_ask { self.others_until.min(now + AHEAD) } else { now };
        self.others_until = asks_until.max(now + reply.remaining);
        self.paused_until = now + reply.pause;
        if self.failed_by != reply.failed_by {
            self.failed_by.clone_from(&reply.failed_by);
        }
        // A pause never becomes shorter, so a server with a shorter one has lost its data.
        let knows_own = now + reply.remaining + AHEAD >= self.own.0;
        self.own.1 = step == ProbeStep::Failed || self.has_passed || self.own.1 && knows_own;
        self.is_cut_off = false;
        let is_other = self.prober != reply.prober;
        if is_other {
            self.prober.clone_from(&reply.prober);
        }
        is_other && self.is_probed(now) && !votes.are_closed()
    }

    /// Returns whether another member has the turn to probe at `now`. In the pause after a failed probe nobody
    /// has it before the last [`AHEAD`], and the end of the pause is known.
    fn is_probed(&self, now: Duration) -> bool {
        self.prober.is_some() && self.paused_until <= now + AHEAD
    }

    /// Forgets the other members, because the server does not answer. The pause or the turn that is known goes
    /// on: without it each of them would probe at once. `votes` are those known last.
    pub(super) fn forget(&mut self, votes: &Votes, now: Duration) {
        if votes.are_closed() {
            self.others_until = Duration::ZERO; // this breaker has not obeyed it
        } else if self.is_probed(now) {
            self.others_until = self.others_until.max(now + TTL); // a short outage may end before the turn does
        }
        (self.has_passed, self.is_cut_off) = (false, true);
        (self.failed_by, self.prober) = (None, None);
    }

    /// Returns the advice to the breaker.
    pub(super) fn advice(&mut self, votes: &Votes, now: Duration) -> Advice {
        let advice = Advice::new().with_probe(std::mem::take(&mut self.has_passed));
        if votes.are_closed() {
            return advice;
        }
        advice
            .with_suspicion(votes.is_suspect())
            .without_probe_for(self.others_until.saturating_sub(now))
            .with_prober(self.is_probed(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripts::VoteReply;

    const SECOND: Duration = Duration::from_secs(1);
    const PERMITTED: ProbeReply = ProbeReply {
        held: true,
        remaining: Duration::ZERO,
        passed: None,
        pause: Duration::ZERO,
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
    fn a_failed_probe_is_told_once_with_its_pause() {
        let (mut probing, votes) = (Probing::default(), Votes::default());
        assert_eq!(
            probing.step(&breaker(State::Open, 1, SECOND / 2), &votes, SECOND),
            Some((ProbeStep::Acquire, TTL))
        );
        probing.permit(ProbeStep::Acquire, &PERMITTED, &votes, SECOND);
        let failed = breaker(State::Open, 2, 4 * SECOND);
        assert_eq!(
            probing.step(&failed, &votes, 2 * SECOND),
            Some((ProbeStep::Failed, 4 * SECOND))
        );
        let (remaining, pause) = (4 * SECOND, 4 * SECOND);
        let reply = ProbeReply { held: false, remaining, pause, ..PERMITTED };
        probing.permit(ProbeStep::Failed, &reply, &votes, 2 * SECOND);
        assert_eq!(probing.step(&failed, &votes, 3 * SECOND), Some((ProbeStep::Look, TTL)));
        assert_eq!(probing.advice(&votes, 3 * SECOND), Advice::new().without_probe_for(3 * SECOND));
    }

    #[test]
    fn the_pause_of_another_process_is_told_once_and_the_own_one_never() {
        let (mut probing, votes) = (Probing::default(), Votes::default());
        let mut told = |step, pause, rest, now| {
            let reply = ProbeReply { held: false, remaining: pause, pause, ..PERMITTED };
            probing.permit(step, &reply, &votes, now);
            probing.prolonged(step, rest, &votes, now)
        };
        let look = ProbeStep::Look;
        assert_eq!(told(look, 2 * SECOND, SECOND, SECOND), None, "it is longer by a second only");
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
        assert_eq!(
            told(look, 2 * SECOND, SECOND / 2, 200 * SECOND),
            Some(2 * SECOND),
            "a short one"
        );
        probing.permit(
            look,
            &ProbeReply { held: false, remaining: 3 * SECOND, ..PERMITTED },
            &votes,
            300 * SECOND,
        );
        assert_eq!(probing.prolonged(look, Duration::ZERO, &votes, 300 * SECOND), None, "a turn");
    }

    #[test]
    fn another_prober_is_told_once_and_its_end_is_not_known() {
        let (mut probing, votes) = (Probing::default(), Votes::default());
        let mut permit = |prober: Option<&str>, now| {
            let prober = prober.map(ToOwned::to_owned);
            let reply = ProbeReply { held: false, remaining: 2 * SECOND, prober, ..PERMITTED };
            (probing.permit(ProbeStep::Look, &reply, &votes, now), probing.advice(&votes, now))
        };
        let pause = Advice::new().without_probe_for(2 * SECOND);
        assert_eq!(permit(None, SECOND), (false, pause));
        assert_eq!(permit(Some("web-2"), SECOND), (true, pause.with_prober(true)));
        assert_eq!(permit(Some("web-2"), 2 * SECOND), (false, pause.with_prober(true)));
        assert_eq!(permit(Some("web-3"), 3 * SECOND), (true, pause.with_prober(true)));
        assert_eq!(permit(None, 4 * SECOND), (false, pause));
        probing.prober = Some("web-2".to_owned());
        probing.forget(&votes, 4 * SECOND);
        assert_eq!(probing.prober(), None);
    }

    /// The next member has its turn after the pause, so nobody probes before, and the refusals tell the time.
    #[test]
    fn in_the_pause_after_a_failed_probe_nobody_has_the_turn() {
        let (mut probing, votes) = (Probing::default(), Votes::default());
        let mut permit = |prober: Option<&str>, remaining: Duration, now| {
            let [prober, failed_by] = [prober, Some("web-2")].map(|id| id.map(ToOwned::to_owned));
            let pause = (10 * SECOND).saturating_sub(now);
            let reply =
                ProbeReply { held: false, remaining, pause, prober, failed_by, ..PERMITTED };
            (probing.permit(ProbeStep::Acquire, &reply, &votes, now), probing.advice(&votes, now))
        };
        let pause = |length| Advice::new().without_probe_for(length);
        assert_eq!(permit(Some("web-3"), 9 * SECOND, SECOND), (false, pause(9 * SECOND)));
        assert_eq!(permit(Some("web-3"), 2 * SECOND, 8 * SECOND), (false, pause(2 * SECOND)));
        assert_eq!(permit(None, 3 * SECOND / 2, 8 * SECOND), (false, pause(3 * SECOND / 2)));
        let turn = pause(2 * SECOND).with_prober(true);
        assert_eq!(permit(Some("web-3"), 2 * SECOND, 9 * SECOND), (true, turn));
    }

    #[test]
    fn a_probe_that_passed_after_the_opening_lets_a_breaker_probe_once() {
        let (mut probing, votes) = (Probing::default(), Votes::default());
        probing.step(&breaker(State::Open, 1, 9 * SECOND), &votes, 2 * SECOND);
        let passed = |ago| ProbeReply { held: false, passed: Some(ago), ..PERMITTED };
        probing.permit(ProbeStep::Look, &passed(2 * SECOND), &votes, 3 * SECOND);
        assert_eq!(
            probing.advice(&votes, 3 * SECOND),
            Advice::new(),
            "it passed before the opening"
        );
        probing.permit(ProbeStep::Look, &passed(SECOND / 10), &votes, 4 * SECOND);
        assert_eq!(probing.advice(&votes, 4 * SECOND), Advice::new().with_probe(true));
        assert_eq!(probing.advice(&votes, 4 * SECOND), Advice::new());
    }

    #[test]
    fn a_breaker_probes_for_itself_while_most_others_are_closed() {
        let (mut probing, mut votes) = (Probing::default(), Votes::default());
        let pause = ProbeReply { held: false, remaining: 9 * SECOND, ..PERMITTED };
        let count = |open, members| VoteReply { members, open, ids: Vec::new() };
        let open = breaker(State::Open, 1, SECOND / 2);
        votes.count(true, count(2, 5));
        assert_eq!(probing.step(&open, &votes, SECOND), Some((ProbeStep::Look, TTL)));
        probing.permit(ProbeStep::Look, &pause, &votes, SECOND);
        assert_eq!(probing.advice(&votes, SECOND), Advice::new());
        assert_eq!(probing.prolonged(ProbeStep::Look, Duration::ZERO, &votes, SECOND), None);
        let failed = breaker(State::Open, 2, 4 * SECOND);
        assert_eq!(
            probing.step(&failed, &votes, 2 * SECOND),
            Some((ProbeStep::Look, TTL)),
            "its own pause"
        );
        for (open, members) in [(3, 5), (2, 4), (1, 2)] {
            votes.count(true, count(open, members));
            let advice = Advice::new().with_suspicion(members > 2);
            assert_eq!(probing.advice(&votes, 2 * SECOND), advice.without_probe_for(8 * SECOND));
        }
        assert_eq!(probing.step(&open, &votes, 3 * SECOND), Some((ProbeStep::Acquire, TTL)));
        probing.permit(ProbeStep::Acquire, &PERMITTED, &votes, 3 * SECOND);
        votes.count(true, count(2, 5));
        assert_eq!(probing.step(&open, &votes, 4 * SECOND), Some((ProbeStep::Release, TTL)));
    }

    #[test]
    fn a_member_without_calls_leaves_the_permission_to_others() {
        let (mut probing, votes) = (Probing::default(), Votes::default());
        let open = breaker(State::Open, 1, Duration::ZERO);
        assert_eq!(probing.step(&open, &votes, SECOND), Some((ProbeStep::Acquire, TTL)));
        probing.permit(ProbeStep::Acquire, &PERMITTED, &votes, SECOND);
        assert_eq!(probing.step(&open, &votes, 2 * SECOND), Some((ProbeStep::Look, TTL)));
        probing.permit(
            ProbeStep::Look,
            &ProbeReply { held: false, ..PERMITTED },
            &votes,
            3 * SECOND,
        );
        assert_eq!(probing.step(&open, &votes, 3 * SECOND), Some((ProbeStep::Look, TTL)));
        assert_eq!(probing.step(&open, &votes, 4 * SECOND), Some((ProbeStep::Acquire, TTL)));
    }
}
