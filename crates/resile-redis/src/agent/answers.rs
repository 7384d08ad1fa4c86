use std::time::Duration;

use resile::cooldown::Hold;
use resile::time::Timer;

use super::job::{Answer, Job};
use super::round::{Failure, Outcome};
use super::step::Agent;
use crate::lease::{Lease, TTL};
use crate::scripts::{HoldNotice, LeaseReply};

/// The answers of the server.
impl<M: Timer> Agent<'_, M> {
    /// Continues a hold of another member.
    pub(super) fn hear(&mut self, message: &str, now: Duration) {
        if let Some(HoldNotice { id, remaining, elapsed, hint }) = HoldNotice::parse(message) {
            if id != self.id() {
                self.join(Hold { elapsed, remaining, hint }, now);
            }
        }
    }

    fn join(&mut self, hold: Hold, now: Duration) {
        if hold.remaining > Duration::ZERO {
            self.shared.hold_as(hold);
            self.holds.knows(hold.remaining, now);
        }
    }

    /// Applies the answers of a round.
    pub(super) fn apply(&mut self, outcomes: Vec<Outcome>, now: Duration) {
        let mut presence = None;
        for (job, answer) in outcomes {
            // Without messages the hold is read once a second.
            if !matches!(job, Job::Lease { .. } | Job::Subscribe) {
                presence = Some(presence.unwrap_or(true) && answer.is_ok());
            }
            match answer {
                Ok(answer) => {
                    self.exchanges += 1;
                    self.shared.answered();
                    self.accept(&job, answer, now);
                }
                Err(failure) => self.fail(&job, &failure, now),
            }
        }
        match presence {
            Some(true) => self.presence.answered(now, false, TTL),
            Some(false) => self.presence.failed(now),
            None => {}
        }
    }

    fn accept(&mut self, job: &Job, answer: Answer, now: Duration) {
        match (job, answer) {
            (_, Answer::Subscribed(generation)) => self.subscribed = Some(generation),
            (_, Answer::Members(members)) => self.census.count(members, now),
            (_, Answer::Hold(reply)) => {
                let (elapsed, remaining, hint) = (reply.elapsed, reply.remaining, reply.hint);
                self.join(Hold { elapsed, remaining, hint }, now);
            }
            (Job::Lease { index, ask, .. }, Answer::Lease(reply)) => {
                if let Some((lease, _)) = self.leases.get_mut(*index) {
                    let change = lease.answered(ask, &reply, now);
                    if change > 0 {
                        self.alarms[*index].granted(now);
                    }
                    self.shared.adjust(lease.resource, change);
                    self.shared.extend(lease.resource, lease.ends_at().saturating_sub(now));
                    let ceiling = ceiling(lease, &reply, ask.want);
                    self.shared.set_ceiling(lease.resource, ceiling);
                }
            }
            (_, Answer::Limits(limits)) => self.limit(&limits),
            (_, Answer::Votes(votes)) => self.votes.count(votes),
            (_, Answer::Probe(reply)) => self.votes.permit(&reply, now),
            (_, Answer::Lease(_)) => {}
        }
    }

    fn fail(&mut self, job: &Job, failure: &Failure, now: Duration) {
        self.failures += 1;
        let words = failure.to_string();
        let upstream = self.shared.upstream().name();
        tracing::debug!(target: "resile", upstream, "fleet: an exchange failed: {words}");
        if self.last_error.as_ref() != Some(&words) {
            self.last_error = Some(words);
        }
        match job {
            Job::Lease { index, ask, .. } => {
                if let Some((lease, _)) = self.leases.get_mut(*index) {
                    lease.mode.failed(now);
                    lease.learn(ask.told);
                }
            }
            // A server that is silent here is soon asked for each lease too.
            _ if matches!(failure, Failure::Timeout(_)) => {
                for (lease, _) in &mut self.leases {
                    lease.mode.doubt(now);
                }
            }
            _ => {}
        }
    }
}

/// Returns the units above which deposits are lost. A full fleet needs no more of them.
fn ceiling(lease: &Lease, reply: &LeaseReply, want: i64) -> u64 {
    let is_full = reply.level >= lease.scale.most;
    if is_full { want.max(0).unsigned_abs() } else { u64::MAX }
}
