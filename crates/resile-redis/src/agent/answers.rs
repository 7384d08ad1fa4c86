use std::time::Duration;

use resile::cooldown::Hold;
use resile::time::Timer;

use super::job::{Answer, Job};
use super::pace::SHORTEST;
use super::round::{Failure, Outcome};
use super::step::{Agent, adjust};
use super::tell::is_away;
use crate::lease::TTL;
use crate::meter::word;
use crate::name;
use crate::scripts::{HoldNotice, JoinNotice, LeaveNotice, SilenceNotice};

/// The least step of a clock that is worth a line in the log.
const LEAST_STEP: Duration = Duration::from_millis(500);
/// The time in which all keys tell one step.
const ONE_STEP: Duration = Duration::from_secs(5);

/// The answers of the server.
impl<M: Timer> Agent<'_, M> {
    /// Continues a hold of another member, counts one less that has left, or notes one that has
    /// joined or is silent.
    pub(super) fn hear(&mut self, message: &str, now: Duration) {
        if let Some(LeaveNotice { id, members }) = LeaveNotice::parse(message) {
            if id != self.id() {
                self.census.left(members);
                self.churn.left(id);
            }
        } else if let Some(JoinNotice { id }) = JoinNotice::parse(message) {
            if id != self.id() {
                self.churn.joined(id, now);
            }
        } else if let Some(SilenceNotice { id }) = SilenceNotice::parse(message) {
            if id != self.id() {
                self.churn.fell_silent(id, now);
            }
        } else if let Some(HoldNotice { id, remaining, elapsed, hint }) = HoldNotice::parse(message)
        {
            if id != self.id() {
                self.join(Hold { elapsed, remaining, hint }, Some(id), now);
            }
        }
    }

    /// Continues a hold of the fleet, whose end the member `by` has set if that is known. One that begins here is told,
    /// because it has no other sign while the calls wait for the quota. One soon after another is of the
    /// same strain, whose end is a line of the core.
    fn join(&mut self, hold: Hold, by: Option<&str>, now: Duration) {
        if hold.remaining.is_zero() {
            return;
        }
        let rest = || self.shared.hold().map(|hold| hold.remaining).unwrap_or_default();
        let is_new = rest().is_zero();
        self.shared.hold_as(hold);
        self.holds.knows(hold.remaining, now);
        let rest = rest();
        let is_of_strain = self.holds.is_of_strain(rest, now);
        self.holds.set_by(by);
        let upstream = self.shared.upstream().name();
        let by = by.map(name::of_id);
        let who = name::in_words(by);
        if is_new && is_of_strain {
            tracing::debug!(
                target: "resile", upstream, by,
                "{upstream}: fleet: cooldown: all calls wait {rest:.1?} again, those with less time \
                 left end at once, {who} was asked to wait"
            );
        } else if is_new {
            tracing::info!(
                target: "resile", upstream, by,
                "{upstream}: fleet: cooldown: all calls wait {rest:.1?}, those with less time left \
                 end at once, {who} was asked to wait"
            );
        }
    }

    /// Applies the answers of a round.
    pub(super) fn apply(&mut self, outcomes: Vec<Outcome>, now: Duration) {
        let mut presence = None;
        let is_answered =
            |(_, answer, _): &Outcome| answer.as_ref().map_or_else(Failure::is_answer, |_| true);
        if outcomes.iter().any(is_answered) {
            self.silences.answered(now);
        } else if !outcomes.is_empty() {
            self.silences.failed();
        }
        // The next try comes no later because this one took long.
        let waited = self.pace.limit().saturating_sub(SHORTEST);
        let is_late = |(_, answer, _): &Outcome| matches!(answer, Err(Failure::Timeout(_)));
        if outcomes.iter().any(is_late) {
            self.pace.missed();
        }
        for (job, answer, took) in outcomes {
            // Without messages the hold is read once a second.
            if !matches!(job, Job::Lease { .. } | Job::Subscribe) {
                presence = Some(presence.unwrap_or(true) && answer.is_ok());
            }
            match answer {
                Ok(answer) => {
                    self.exchanges += 1;
                    self.faults.answered(self.word_of(&job));
                    self.pace.answered(took);
                    self.answered_at = Some(now);
                    self.accept(&job, answer, now);
                }
                Err(failure) => self.fail(&job, &failure, waited, now),
            }
        }
        let upstream = self.shared.upstream().name();
        for (exchange, words) in self.faults.news() {
            tracing::debug!(
                target: "resile", upstream, exchange,
                "{upstream}: fleet: an exchange failed ({exchange}): {words}"
            );
        }
        match presence {
            Some(true) => self.presence.answered(now, false, TTL),
            Some(false) => self.presence.failed(now, waited),
            None => {}
        }
        // While operators see that the store is away, they see the time of that silence.
        if !is_away(self.notices.told()) && self.answered_at == Some(now) {
            self.shared.answered();
        }
    }

    fn accept(&mut self, job: &Job, answer: Answer, now: Duration) {
        match (job, answer) {
            (_, Answer::Subscribed(generation)) => self.subscribed = Some(generation),
            (_, Answer::Members(reply)) => {
                self.census.count(u32::try_from(reply.members).unwrap_or(u32::MAX), now);
                self.is_counted = true;
                self.notice_step(reply.stepped, now);
            }
            (_, Answer::Hold(reply)) => {
                let (elapsed, remaining, hint) = (reply.elapsed, reply.remaining, reply.hint);
                let is_known = !(elapsed.is_zero() && remaining.is_zero());
                self.holds.stored(is_known.then_some(remaining), now);
                self.join(Hold { elapsed, remaining, hint }, reply.by.as_deref(), now);
            }
            (Job::Lease { index, ask, .. }, Answer::Lease(reply)) => {
                self.notice_step(reply.stepped, now);
                if let Some((lease, _)) = self.leases.get_mut(*index) {
                    let was_spent = lease.is_spent();
                    let change = lease.answered(ask, &reply, now);
                    if change > 0 {
                        self.alarms[*index].granted(now);
                    }
                    adjust(self.shared, lease, change, now);
                    self.shared.extend(lease.resource, lease.ends_at().saturating_sub(now));
                    self.shared.set_ceiling(lease.resource, lease.most());
                    self.shared.set_usable(lease.resource, lease.usable());
                    let has_token = || self.shared.balance(lease.resource) >= Some(lease.floor);
                    if was_spent && !lease.is_spent() && change == 0 && has_token() {
                        // The process has earned its token by itself. The store has tokens again.
                        self.shared.adjust(lease.resource, 0);
                    }
                }
            }
            (_, Answer::Limits(limits)) => self.limit(limits),
            (Job::Learn(reports), Answer::Learned(known)) => self.learn(reports, &known, now),
            (Job::Vote { is_open, .. }, Answer::Votes(votes)) => {
                let count = self.votes.count(*is_open, votes);
                self.tell_votes(*is_open, count);
            }
            (Job::Probe { step, .. }, Answer::Probe(reply)) => {
                if self.probing.permit(*step, &reply, &self.votes, now) {
                    self.tell_prober();
                }
                self.tell_pause(*step, now);
            }
            (_, Answer::Lease(_) | Answer::Learned(_) | Answer::Votes(_) | Answer::Probe(_)) => {}
        }
    }

    /// Logs that the clock of the server ran back. Each of its keys tells it to one member.
    fn notice_step(&mut self, stepped: Duration, now: Duration) {
        if stepped < LEAST_STEP {
            return;
        }
        let is_told = self.stepped_at.is_some_and(|at| now.saturating_sub(at) < ONE_STEP);
        self.stepped_at = Some(now);
        if !is_told {
            self.clock_steps += 1;
            let upstream = self.shared.upstream().name();
            tracing::warn!(
                target: "resile",
                upstream,
                "{upstream}: fleet: the clock of the server ran back by {stepped:.1?}, and the \
                 limits go on"
            );
        }
    }

    /// Returns the word for what a job exchanges: that of a limit, or that of another key.
    fn word_of(&self, job: &Job) -> &'static str {
        match job {
            Job::Lease { index, .. } => {
                self.leases.get(*index).map_or("lease", |(lease, _)| word(lease.resource))
            }
            Job::Subscribe => "messages",
            Job::Renew(_) => "members",
            Job::Hold(_) => "hold",
            Job::Limits(_) => "limits",
            Job::Learn(_) => "learned",
            Job::Vote { .. } => "votes",
            Job::Probe { .. } => "probe",
        }
    }

    fn fail(&mut self, job: &Job, failure: &Failure, waited: Duration, now: Duration) {
        self.failures += 1;
        self.failed_at = Some(now);
        self.fails_since.get_or_insert(now);
        let is_late = matches!(failure, Failure::Timeout(_));
        let waited = if is_late { waited } else { Duration::ZERO };
        let words = failure.to_string();
        let kind = if is_late { "no answer" } else { &*words }; // the time grows from try to try
        self.faults.failed(self.word_of(job), kind, &words);
        if self.last_error.as_ref() != Some(&words) {
            self.last_error = Some(words);
        }
        if let Job::Learn(reports) = job {
            self.keep(reports);
        }
        match job {
            Job::Lease { index, ask, .. } => {
                if let Some((lease, _)) = self.leases.get_mut(*index) {
                    lease.mode.failed(now, waited);
                    lease.lost(ask);
                    self.shared.set_usable(lease.resource, lease.floor.unsigned_abs());
                }
            }
            // A server that is silent here is soon asked for each lease too.
            _ if is_late => {
                for (lease, _) in &mut self.leases {
                    lease.mode.doubt(now);
                }
            }
            _ => {}
        }
    }
}
