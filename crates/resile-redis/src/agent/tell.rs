use std::time::Duration;

use resile::breaker;
use resile::fleet::State;
use resile::time::Timer;
use resile::upstream::Resource;

use super::churn::{Churn, list, processes};
use super::job::Answer;
use super::notices::Partial;
use super::part::{assumed, part, question, units};
use super::round::Outcome;
use super::silences::Reason;
use super::step::Agent;
use super::votes::{Count, QUORUM};
use crate::member::{self, Leased, Tally};
use crate::mode::GRACE;
use crate::name;
use crate::scale::{TOKEN, counted_burst};
use crate::scripts::ProbeStep;

/// The longest time for which a process that shares waits for the number of members before it tells operators.
/// The members may fail for as long as a rule of the server forbids a command.
const UNCOUNTED: Duration = Duration::from_secs(10);

/// Returns whether the store does not answer in this state.
pub(super) const fn is_away(state: State) -> bool {
    matches!(state, State::Coasting | State::Safe)
}

/// Tells operators and programs of the state.
impl<M: Timer> Agent<'_, M> {
    /// Warns of a membership that shares nothing, or no votes although they are on, and tells of small bursts. Called
    /// once.
    pub(super) fn tell_parts(&self) {
        self.tell_bursts();
        let upstream = self.shared.upstream().name();
        let (has_breaker, votes) = (self.shared.upstream().breaker().is_some(), self.has_votes());
        if self.shares_nothing() {
            let hint = if has_breaker { ": `with_votes(true)` shares its breaker" } else { "" };
            tracing::warn!(
                target: "resile", upstream,
                "{upstream}: fleet: nothing to share: the upstream has no quota, no cooldown, no \
                 budget that is shared and no breaker that votes{hint}"
            );
        } else if votes && !has_breaker {
            tracing::warn!(
                target: "resile", upstream,
                "{upstream}: fleet: votes need a breaker, and the upstream has none: add one or \
                 leave `with_votes` out"
            );
        }
    }

    /// Tells of each burst that counts as a larger one.
    fn tell_bursts(&self) {
        let upstream = self.shared.upstream().name();
        for own in &self.owns {
            let (rate, noun) = (own.rate, units(own.dimension));
            let Some(counted) = counted_burst(&rate) else { continue };
            tracing::info!(
                target: "resile", upstream,
                "{upstream}: fleet: the burst of {} {noun} counts as {counted}, which is 0.25 s of the limit \
                 of {} per {:?}",
                rate.burst(),
                rate.count(),
                rate.period(),
            );
        }
    }

    fn shares_nothing(&self) -> bool {
        let has_part = !self.leases.is_empty() || self.shared.upstream().cooldown().is_some();
        !has_part && !self.votes_count()
    }

    /// Reports a state that lasts, and logs the reason of a bad one.
    pub(super) fn tell(&mut self, now: Duration) {
        let upstream = self.shared.upstream().name();
        let before = self.notices.told();
        let state = self.state();
        let told = self.notices.tell(state, now);
        if is_away(before) && !is_away(told) {
            self.shared.answered();
        }
        self.works_since = if is_away(state) { None } else { self.works_since.or(Some(now)) };
        if is_away(state) && is_away(told) {
            self.is_counted = false;
        }
        if told == state {
            self.members = self.census.known(); // as of the state that is told, and no later
        }
        self.observed(|| self.shared.report(told, self.members));
        self.tell_outage(told, now);
        if self.outage.is_none() && state == State::Shared {
            let _ = self.silences.take(); // too short for a line
            self.fails_since = None;
        }
        let members = self.members;
        let number = self.has_number(now).then_some(members);
        if let Some(before) = self.notices.count(number, now) {
            let words = self.churn.tell(members, before);
            let before = Some(before).filter(|before| *before > 0);
            if !self.shares_nothing() {
                tracing::info!(
                    target: "resile", upstream, members, before,
                    "{upstream}: fleet: shared by {words}"
                );
            }
        } else if !self.notices.has_news() && told == state {
            self.churn.settle(now);
        }
        let error = self.last_error.as_deref().unwrap_or_default();
        match self.notices.note_partial(self.is_partial(), now) {
            Some(Partial::Begins) => tracing::warn!(
                target: "resile",
                upstream,
                "{upstream}: fleet: the limits are shared, but the members, the hold or the votes \
                 fail: {error}"
            ),
            Some(Partial::Ends) => {
                tracing::info!(
                    target: "resile", upstream,
                    "{upstream}: fleet: all parts are shared again"
                );
            }
            None => {}
        }
    }

    /// Logs the begin of an outage with its reason, and its end. The core has the state at DEBUG only,
    /// because it does not know the reason.
    fn tell_outage(&mut self, told: State, now: Duration) {
        if self.shares_nothing() {
            return; // the line of its start says so
        }
        let upstream = self.shared.upstream().name();
        match (told, self.outage) {
            (State::Safe, None) => {
                let silence = self.silence(now);
                self.outage = Some(silence.map_or(Reason::Refusal, |_| Reason::Silence));
                self.tell_safe_mode(silence);
            }
            (State::Safe, Some(Reason::Silence)) if self.refuses(now) => {
                self.outage = Some(Reason::Refusal);
                let error = self.last_error.as_deref().unwrap_or_default();
                tracing::warn!(
                    target: "resile",
                    upstream,
                    members = self.members,
                    "{upstream}: fleet: still in safe mode: the store answers again, but exchanges \
                     with it fail: {error}"
                );
            }
            (State::Shared, Some(_)) if self.has_number(now) => {
                self.outage = None;
                let past = self.silences.take();
                let works_since = self.works_since.unwrap_or(now);
                let since = self.fails_since.take().unwrap_or(works_since);
                let failed = works_since.saturating_sub(since);
                let elapsed = past.elapsed(failed);
                let silences = past.in_words(failed);
                let members = self.members;
                let before = Some(self.notices.told_members(members));
                let before = before.filter(|before| *before > 0 && *before != members);
                // A member that joined is unknown: all join a store again that has lost its data.
                self.churn = Churn::default();
                let words = match before {
                    Some(before) => format!("{}, {before} before,", processes(members)),
                    None => processes(members),
                };
                tracing::info!(
                    target: "resile",
                    upstream,
                    members,
                    before,
                    silences = past.count,
                    silent_ms = millis(past.silent),
                    elapsed_ms = millis(elapsed),
                    "{upstream}: fleet: shared by {words} after {silences}"
                );
            }
            _ => {}
        }
    }

    /// Returns whether the number of members is worth a line: the server has counted them since exchanges succeed, or
    /// it does not count them for long.
    fn has_number(&self, now: Duration) -> bool {
        let is_late = |since| now.saturating_sub(since) >= UNCOUNTED;
        self.is_counted || self.works_since.is_some_and(is_late)
    }

    /// Returns the length of a silence that is the reason of an outage. A shorter one is not.
    fn silence(&self, now: Duration) -> Option<Duration> {
        self.silences.lasts(now).filter(|silence| *silence >= GRACE)
    }

    /// Returns whether the store has answered for a second after a silence, and exchanges go on to fail.
    fn refuses(&self, now: Duration) -> bool {
        const LONG: Duration = Duration::from_secs(1);
        let failed_at = self.failed_at.filter(|at| now.saturating_sub(*at) < LONG);
        let answers = self.silences.ended_at();
        answers.is_some_and(|since| {
            now.saturating_sub(since) >= LONG && failed_at.is_some_and(|at| at > since)
        })
    }

    /// Warns that the process uses its part alone, with the reason.
    fn tell_safe_mode(&self, silence: Option<Duration>) {
        let upstream = self.shared.upstream().name();
        let error = self.last_error.as_deref().unwrap_or_default();
        let (divisor, members) = (self.divisor(), self.census.known());
        let (known, mode) = (processes(members), self.plan.fail_mode);
        let assumed = assumed(mode, members, divisor);
        let part = part(mode, divisor, &self.owns, self.alone());
        let first = format!("{part}{}", question(mode));
        match (self.answered_at, silence) {
            (None, _) if self.leases.is_empty() => tracing::warn!(
                target: "resile",
                upstream,
                members = divisor,
                "{upstream}: fleet: no exchange with the store has succeeded yet, so nothing is \
                 shared: {error}"
            ),
            (None, _) => tracing::warn!(
                target: "resile",
                upstream,
                members = divisor,
                "{upstream}: fleet: no exchange with the store has succeeded yet, so this \
                 process uses {first}: {error}"
            ),
            (_, Some(silence)) if self.leases.is_empty() => tracing::warn!(
                target: "resile",
                upstream,
                members,
                elapsed_ms = millis(silence),
                "{upstream}: fleet: safe mode: no answer of the store for \
                 {silence:.1?}, {known} known last, so nothing is shared: {error}"
            ),
            (_, Some(silence)) => tracing::warn!(
                target: "resile",
                upstream,
                members,
                elapsed_ms = millis(silence),
                "{upstream}: fleet: safe mode: no answer of the store for \
                 {silence:.1?}, {known} known last{assumed}, so this process uses \
                 {part}: {error}"
            ),
            (_, None) if self.leases.is_empty() => tracing::warn!(
                target: "resile",
                upstream,
                members,
                "{upstream}: fleet: safe mode: exchanges with the store fail, {known} \
                 known last, so nothing is shared: {error}"
            ),
            (_, None) => tracing::warn!(
                target: "resile",
                upstream,
                members,
                "{upstream}: fleet: safe mode: exchanges with the store fail, {known} \
                 known last{assumed}, so this process uses {part}: {error}"
            ),
        }
    }

    /// Names what stays in this process while the store is away, beside its part of the limits.
    fn alone(&self) -> &'static str {
        match (self.shared.upstream().cooldown().is_some(), self.votes_count()) {
            (true, true) => "; holds and votes stay in this process",
            (true, false) => "; holds stay in this process",
            (false, true) => "; votes stay in this process",
            (false, false) => "",
        }
    }

    /// Logs that the member has left. `outcomes` are the answers to its last exchanges. Returns the number
    /// of members that remain, if the store has told it.
    pub(super) fn tell_leave(&self, outcomes: &[Outcome]) -> Option<u32> {
        let (upstream, member) = (self.shared.upstream().name(), name::of_id(self.id()));
        let members = outcomes.iter().find_map(|(_, answer, _)| match answer {
            Ok(Answer::Members(reply)) => u32::try_from(reply.members).ok(),
            _ => None,
        });
        let words = match members {
            Some(members) => {
                format!("{} remain{}", processes(members), if members == 1 { "s" } else { "" })
            }
            None => "the store did not answer".to_owned(),
        };
        tracing::info!(
            target: "resile", upstream, member, members,
            "{upstream}: fleet: left, {words}"
        );
        members
    }

    /// Logs the votes of the breakers when they change. `is_open` is the own vote.
    pub(super) fn tell_votes(&self, is_open: bool, count: Count) {
        let tally = self.votes.tally().filter(|_| count != Count::Same);
        let Some(Tally { open, needed, members }) = tally else { return };
        let (upstream, member) = (self.shared.upstream().name(), name::of_id(self.id()));
        let vote = if is_open { "open" } else { "closed" };
        let least = match needed {
            Some(needed) => format!("{needed} are needed"),
            None => format!("at least {QUORUM} members must vote"),
        };
        let who = voters(self.votes.open(), open);
        let words = format!("{open} of {members}{who}, {least}");
        match count {
            Count::Same | Count::Changed => tracing::debug!(
                target: "resile", upstream, member, vote, votes = open, needed, members,
                "{upstream}: fleet: votes for open: {words}"
            ),
            Count::Decided => {
                let decision = if self.votes.is_suspect() {
                    "this breaker opens at half of its thresholds"
                } else {
                    "this breaker opens at its full thresholds again"
                };
                tracing::info!(
                    target: "resile", upstream, member, vote, votes = open, needed, members,
                    "{upstream}: fleet: votes for open: {words}: {decision}"
                );
            }
        }
    }

    /// Logs that the failed probe of another process keeps the breaker open, because its own line named
    /// a shorter time.
    pub(super) fn tell_pause(&mut self, step: ProbeStep, now: Duration) {
        let upstream = self.shared.upstream();
        let Some(breaker) = upstream.snapshot() else { return };
        let rest = breaker.retry_after.unwrap_or_default();
        if let Some(pause) = self.probing.prolonged(step, rest, &self.votes, now) {
            let by = self.probing.failed_by().map(name::of_id);
            let who = name::in_words(by);
            let upstream = upstream.name();
            tracing::info!(
                target: "resile", upstream, by, delay_ms = millis(pause),
                "{upstream}: fleet: breaker stays open for {pause:.1?}: the probe of {who} failed"
            );
        }
    }

    /// Logs that the breaker of this process waits for the probe of another one, which has its turn up to a
    /// second before. Nobody knows how long.
    pub(super) fn tell_prober(&self) {
        let upstream = self.shared.upstream();
        let is_open = upstream.snapshot().is_some_and(|it| it.state == breaker::State::Open);
        if let Some(by) = self.probing.prober().map(name::of_id).filter(|_| is_open) {
            let (upstream, who) = (upstream.name(), name::in_words(Some(by)));
            tracing::debug!(
                target: "resile", upstream, by,
                "{upstream}: fleet: {who} has the turn to probe, this breaker waits for it"
            );
        }
    }

    /// Returns whether the limits work, and the members, the hold or the votes do not. A failure
    /// from before counts for nothing: the next try may come a second later.
    fn is_partial(&self) -> bool {
        let has_failed = |since| self.presence.failed_at() > since;
        self.presence.is_safe() && self.works_since.is_some_and(has_failed)
    }

    pub(super) fn describe(&self, snapshot: &mut member::Snapshot, now: Duration) {
        snapshot.state = self.state();
        snapshot.members = self.census.last();
        snapshot.age = self.answered_at.map(|at| now.saturating_sub(at));
        let is_news = (snapshot.exchanges, snapshot.failures, snapshot.votes)
            != (self.exchanges, self.failures, self.votes.tally());
        snapshot.latency = self.meter.latency();
        snapshot.starves_for = self.starves_for;
        snapshot.exchanges = self.exchanges;
        snapshot.failures = self.failures;
        snapshot.clock_steps = self.clock_steps;
        snapshot.is_partial = self.is_partial();
        snapshot.rests = self.rests;
        if snapshot.last_error != self.last_error {
            snapshot.last_error.clone_from(&self.last_error);
        }
        snapshot.last_error_age = self.failed_at.map(|at| now.saturating_sub(at));
        snapshot.leases.clear();
        snapshot.leases.extend(self.leases.iter().map(|(lease, _)| {
            let resource = lease.resource;
            let balance = self.shared.balance(resource).unwrap_or(0);
            let level = lease.level().map(|level| in_units(resource, level));
            Leased { resource, balance: in_units(resource, balance), level }
        }));
        snapshot.votes = self.votes.tally();
        let open = self.votes.open().iter().map(|id| name::of_id(id));
        if !open.clone().eq(snapshot.open_voters.iter().map(String::as_str)) {
            snapshot.open_voters = open.map(ToOwned::to_owned).collect();
        }
        let hold = self.shared.hold();
        let by = hold.as_ref().and_then(|hold| self.holds.by(hold, self.id(), now));
        let by = by.map(name::of_id);
        if snapshot.held_by.as_deref() != by {
            snapshot.held_by = by.map(ToOwned::to_owned);
        }
        if is_news {
            self.meter.publish(snapshot);
        }
    }
}

/// Returns an amount of a lease in the units that people count: whole tokens for the budget.
#[expect(clippy::cast_precision_loss, reason = "an amount is below 2^53")]
fn in_units(resource: Resource, amount: i64) -> f64 {
    let unit = if resource == Resource::Budget { TOKEN } else { 1 };
    amount as f64 / unit as f64
}

/// Names the members that vote for "open", of which the ids of some are known: " (a, b and 2 more)".
fn voters(ids: &[String], open: u64) -> String {
    if ids.is_empty() {
        return String::new();
    }
    let names: Vec<_> = ids.iter().map(|id| name::of_id(id)).collect();
    format!(" ({})", list(&names, open))
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn voters_have_their_names_and_the_others_a_number() {
        let ids = ["web-1-0123456789abcdef", "web-2"].map(ToOwned::to_owned);
        assert_eq!(voters(&ids[..0], 0), "");
        assert_eq!(voters(&ids[..1], 1), " (web-1)");
        assert_eq!(voters(&ids, 2), " (web-1, web-2)");
        assert_eq!(voters(&ids, 9), " (web-1, web-2 and 7 more)");
    }
}
