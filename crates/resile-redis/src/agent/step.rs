use std::time::Duration;

use resile::Budget;
use resile::breaker::Snapshot;
use resile::cooldown::Hold;
use resile::fleet::State;
use resile::quota::{Dimension, Waiting};
use resile::time::Timer;
use resile::upstream::{Resource, Shared};

use super::census::Census;
use super::churn::Churn;
use super::faults::Faults;
use super::holds::Holds;
use super::job::Job;
use super::learned::Own;
use super::notices::Notices;
use super::pace::Pace;
use super::probing::Probing;
use super::silences::{Reason, Silences};
use super::votes::Votes;
use super::{Context, Plan};
use crate::alarm::Alarm;
use crate::lease::{Lease, TTL};
use crate::meter::Meter;
use crate::mode::Mode;
use crate::scale::Scale;
use crate::scripts::SetLimit;

/// The steps of the task between two waits.
pub(super) struct Agent<'a, M: Timer> {
    pub(super) shared: &'a Shared<'a, M>,
    pub(super) plan: &'a Plan,
    id: &'a str,
    pub(super) leases: Vec<(Lease, String)>,
    /// The budget that the process had before it joined.
    tokens: i64,
    pub(super) holds: Holds,
    pub(super) votes: Votes,
    pub(super) probing: Probing,
    /// The state of the exchanges without a lease.
    pub(super) presence: Mode,
    pub(super) census: Census,
    pub(super) churn: Churn,
    pub(super) renewed_at: Option<Duration>,
    renews_every: Duration,
    /// True while the upstream has no calls. Then only the membership is renewed, and seldom.
    pub(super) rests: bool,
    /// The generation of the connection that has the subscription.
    pub(super) subscribed: Option<u64>,
    pub(super) exchanges: u64,
    pub(super) failures: u64,
    pub(super) last_error: Option<String>,
    pub(super) faults: Faults,
    /// The time of the last failure.
    pub(super) failed_at: Option<Duration>,
    /// The number of steps back of the server's clock, and the time of the last one.
    pub(super) clock_steps: u64,
    pub(super) stepped_at: Option<Duration>,
    pub(super) pace: Pace,
    pub(super) notices: Notices,
    /// The members in the state that operators see.
    pub(super) members: u32,
    /// True if the server has counted the members since the process joined or an outage was told.
    pub(super) is_counted: bool,
    /// The time of the last answer.
    pub(super) answered_at: Option<Duration>,
    /// The time of the first failed exchange since the process shared last.
    pub(super) fails_since: Option<Duration>,
    /// The reason of an outage, from the time at which operators were told of it until they are told its end.
    pub(super) outage: Option<Reason>,
    /// The silences of the store since the process shared last.
    pub(super) silences: Silences,
    /// The time since which the limits work.
    pub(super) works_since: Option<Duration>,
    /// One for each limit of the quota.
    pub(super) owns: Vec<Own>,
    /// The limits that were set at run time, as the store had them last.
    pub(super) set: Vec<SetLimit>,
    /// One for each lease.
    pub(super) alarms: Vec<Alarm>,
    /// True while a part of the upstream is under strain, or its calls fail in a surge.
    pub(super) is_strained: bool,
    /// The longest time without a grant of all alarms that are on.
    pub(super) starves_for: Option<Duration>,
    pub(super) meter: &'a Meter,
}

/// The time between two renewals of the membership, without the spread.
pub(super) const RENEWAL: Duration = Duration::from_secs(1);
/// The time after which a silent member no longer counts.
pub(super) const MEMBER_TTL: Duration = Duration::from_secs(3);
/// The factor of both times while the member rests.
const REST: u32 = 30;
/// The longest time between two additions of the share in safe mode.
const TICK: Duration = Duration::from_millis(20);

impl<'a, M: Timer> Agent<'a, M> {
    pub(super) fn new(shared: &'a Shared<'a, M>, context: &'a Context) -> Self {
        let Context { plan, keys, id, meter, .. } = context;
        let upstream = shared.upstream();
        let (mut leases, mut owns) = (Vec::new(), Vec::new());
        let mut tokens = 0;
        for dimension in Dimension::ALL {
            if let Some(rate) = upstream.quota().and_then(|quota| quota.rate(dimension)) {
                let resource = Resource::Quota(dimension);
                leases.push(Lease::new(resource, Scale::of_rate(&rate), 0));
                owns.push(Own::new(dimension, rate, false));
            }
        }
        // A budget whose retries cost nothing has nothing to lease.
        let has_price = |budget: &&Budget| plan.shares_budget && Scale::cost_of(budget) > 0;
        if let Some(budget) = upstream.budget().filter(has_price) {
            let scale = Scale::of_budget(budget);
            // The tokens are those of the fleet. A process wants the cost of its next retry.
            tokens = shared.balance(Resource::Budget).unwrap_or(0);
            shared.adjust(Resource::Budget, tokens.saturating_neg());
            shared.set_usable(Resource::Budget, 0);
            leases.push(Lease::new(Resource::Budget, scale, Scale::cost_of(budget)));
        }
        let alarms = vec![Alarm::default(); leases.len()];
        let leases = leases.into_iter().map(|lease| {
            let key = keys.lease(lease.resource);
            (lease, key)
        });
        Self {
            shared,
            plan,
            id,
            leases: leases.collect(),
            tokens,
            holds: Holds::default(),
            votes: Votes::default(),
            probing: Probing::default(),
            presence: Mode::new(),
            census: Census::new(),
            churn: Churn::default(),
            renewed_at: None,
            renews_every: spread(RENEWAL, shared),
            rests: false,
            subscribed: None,
            exchanges: 0,
            failures: 0,
            last_error: None,
            faults: Faults::default(),
            failed_at: None,
            clock_steps: 0,
            stepped_at: None,
            pace: Pace::new(plan.timeout),
            notices: Notices::new(),
            members: 1,
            is_counted: false,
            answered_at: None,
            fails_since: None,
            outage: None,
            silences: Silences::default(),
            works_since: None,
            owns,
            set: Vec::new(),
            alarms,
            is_strained: false,
            starves_for: None,
            meter,
        }
    }

    /// Counts the demand and adds the share of the limits in safe mode.
    pub(super) fn step(&mut self, now: Duration) {
        self.presence.tick(now);
        let accounts = self.count_demand(now);
        self.look_for_rest(now);
        let members = self.divisor();
        let share = self.plan.fail_mode.share(members);
        for ((lease, _), (balance, waiting)) in self.leases.iter_mut().zip(accounts) {
            if lease.mode.is_safe() {
                let own =
                    self.owns.iter().find(|own| Resource::Quota(own.dimension) == lease.resource);
                let part = share * own.map_or(1.0, Own::found_apart);
                let change = lease.share(balance, waiting, part, members, now);
                self.shared.extend(lease.resource, TTL);
                adjust(self.shared, lease, change, now);
                let ceiling = lease.ceiling(share);
                self.shared.set_ceiling(lease.resource, ceiling);
                self.shared.set_usable(lease.resource, ceiling);
            }
            let low = lease.low(waiting, members).max(0);
            self.shared.set_low(lease.resource, low.unsigned_abs());
        }
        if self.presence.is_safe() {
            self.probing.forget(&self.votes, now);
            self.votes.forget();
        }
        if self.votes_count() {
            self.shared.upstream().advise(self.probing.advice(&self.votes, now));
        }
    }

    /// Reports the state, and looks at the strains and at the calls that wait.
    pub(super) fn report(&mut self, now: Duration) {
        self.tell(now);
        self.tell_quiet();
        self.watch(now);
    }

    pub(super) const fn id(&self) -> &str {
        self.id
    }

    /// Returns the worst state of all leases.
    pub(super) fn state(&self) -> State {
        let states = self.leases.iter().map(|(lease, _)| lease.mode.state());
        let worst = states.max_by_key(|state| Mode::badness(*state));
        worst.unwrap_or(self.presence.state()) // without a lease the others count
    }

    /// Returns the number by which safe mode divides a limit.
    pub(super) fn divisor(&self) -> u32 {
        self.census.known().max(self.plan.least_members)
    }

    /// Returns the exchanges that are due.
    pub(super) fn due(&mut self, generation: u64, now: Duration) -> Vec<Job> {
        let mut jobs = Vec::new();
        let retry_at = self.presence.retry_at().unwrap_or(Duration::ZERO);
        let renews = self.renews_at() <= now;
        let has_cooldown = self.shared.upstream().cooldown().is_some();
        if renews {
            let factor = if self.rests { REST } else { 1 };
            self.renewed_at = Some(now);
            self.renews_every = spread(RENEWAL * factor, self.shared);
            jobs.push(Job::Renew(MEMBER_TTL * factor));
            // A member that rests keeps what the server may lose.
            if self.has_quota() && (!self.rests || !self.set.is_empty()) {
                jobs.push(Job::Limits(self.set.clone()));
            }
            if self.has_quota() && !self.rests {
                jobs.push(Job::Learn(self.reports(now)));
            }
            if self.subscribed != Some(generation) {
                jobs.push(Job::Subscribe);
            }
        }
        let may_publish = retry_at <= now && self.holds.publish_at() <= now;
        let news = self.news(now).filter(|_| may_publish);
        // The hold is read with each renewal, because a message or the data may be lost.
        let reads = renews && (!self.rests || self.shared.hold().is_some());
        if has_cooldown && (reads || news.is_some()) {
            self.holds.asks(now);
            if news.is_some() {
                self.holds.publishes(now);
            }
            jobs.push(Job::Hold(news));
        }
        if let Some(breaker) = self.voter().filter(|_| retry_at <= now) {
            if let Some(vote) = self.votes.due(&breaker, now) {
                jobs.push(vote);
                let step = self.probing.step(&breaker, &self.votes, now);
                jobs.extend(step.map(|(step, ttl)| Job::Probe { step, ttl }));
            }
        }
        let members = self.divisor();
        for (index, (lease, key)) in self.leases.iter_mut().enumerate() {
            let (balance, waiting) = account(self.shared, lease.resource);
            if lease.due_at(balance, waiting, members).is_some_and(|at| at <= now) {
                // Successes from here on are of the next exchange, so they pay for nothing before its answer.
                self.shared.set_usable(lease.resource, 0);
                let balance = self.shared.balance(lease.resource).unwrap_or(balance);
                let (ask, surplus) = lease.ask(balance, waiting, members, now);
                if surplus != 0 {
                    self.shared.adjust(lease.resource, surplus.saturating_neg());
                }
                let (key, scale) = (key.clone(), lease.scale);
                jobs.push(Job::Lease { index, key, scale, ask, ttl: TTL });
            }
        }
        jobs
    }

    /// Returns whether the fleet has votes.
    pub(super) const fn has_votes(&self) -> bool {
        self.plan.votes
    }

    /// Returns whether the upstream has a breaker that votes.
    pub(super) fn votes_count(&self) -> bool {
        self.plan.votes && self.shared.upstream().breaker().is_some()
    }

    /// Returns the breaker if it votes.
    fn voter(&self) -> Option<Snapshot> {
        if self.votes_count() { self.shared.upstream().snapshot() } else { None }
    }

    /// Returns the current hold if the fleet does not know it.
    fn news(&self, now: Duration) -> Option<Hold> {
        self.shared.hold().filter(|hold| self.holds.is_news(hold, now))
    }

    fn renews_at(&self) -> Duration {
        let next = || self.renewed_at.map_or(Duration::ZERO, |at| at + self.renews_every);
        self.presence.retry_at().unwrap_or_else(next)
    }

    /// Returns whether no call waits for units. Then nothing is lost if the member leaves.
    pub(super) fn is_drained(&self) -> bool {
        let waits = |(lease, _): &(Lease, String)| self.shared.waiting(lease.resource).all > 0;
        !self.leases.iter().any(waits)
    }

    /// Returns the exchanges of a member that leaves: it gives everything back.
    pub(super) fn leaving(&mut self) -> Vec<Job> {
        let mut jobs = vec![Job::Renew(Duration::ZERO)];
        if self.votes_count() {
            jobs.extend(Votes::leaving());
        }
        for (index, (lease, key)) in self.leases.iter_mut().enumerate() {
            let balance = self.shared.balance(lease.resource).unwrap_or(0);
            let ask = lease.leave(balance);
            self.shared.adjust(lease.resource, balance.max(0).saturating_neg());
            if lease.resource == Resource::Budget {
                self.shared.adjust(lease.resource, self.tokens); // the budget of one process
            }
            let (key, scale) = (key.clone(), lease.scale);
            jobs.push(Job::Lease { index, key, scale, ask, ttl: Duration::ZERO });
        }
        jobs
    }

    /// Returns the time of the next step.
    pub(super) fn wakes_at(&self, may_ask: bool, now: Duration) -> Duration {
        let mut at = self.renews_at();
        if !may_ask {
            at = now + RENEWAL; // the end of the round wakes the task
        }
        if self.is_strained {
            at = at.min(now + RENEWAL); // its end has a line, also of an upstream that rests
        }
        let members = self.divisor();
        for (lease, _) in &self.leases {
            at = lease.mode.changes_at().map_or(at, |changes_at| at.min(changes_at));
            if lease.mode.is_safe() {
                at = at.min(now + TICK);
            }
            let (balance, waiting) = account(self.shared, lease.resource);
            if let Some(due_at) = lease.due_at(balance, waiting, members).filter(|_| may_ask) {
                at = at.min(due_at);
            }
        }
        if let Some(hold) = self.shared.hold() {
            at = at.min(now + hold.remaining); // then the calls that wait need units
        }
        if self.votes_count() && may_ask {
            at = at.min(self.votes.due_at().max(self.presence.retry_at().unwrap_or_default()));
        }
        let changes = [self.presence.changes_at(), self.notices.changes_at()];
        at = changes.into_iter().flatten().fold(at, Duration::min);
        if may_ask && self.news(now).is_some() {
            at = at.min(self.holds.publish_at().max(self.presence.retry_at().unwrap_or_default()));
        }
        at.max(now + Duration::from_millis(1))
    }
}

/// Returns the units that the process has, and the amounts of the calls that wait for more. During
/// a hold these calls need nothing yet.
pub(super) fn account<M: Timer>(shared: &Shared<'_, M>, resource: Resource) -> (i64, Waiting) {
    let is_held = shared.hold().is_some();
    let waiting = if is_held { Waiting::default() } else { shared.waiting(resource) };
    (shared.balance(resource).unwrap_or(0), waiting)
}

/// Adds units to a lease. Says that there are no more if the process lacks them.
pub(super) fn adjust<M: Timer>(shared: &Shared<'_, M>, lease: &Lease, units: i64, now: Duration) {
    if units != 0 {
        shared.adjust(lease.resource, units);
    }
    if lease.is_short(now) || lease.is_spent() {
        shared.adjust(lease.resource, 0);
    }
}

/// Returns a duration that differs by up to a fifth in both directions.
fn spread<M: Timer>(duration: Duration, shared: &Shared<'_, M>) -> Duration {
    let thousandths = u32::try_from(shared.draw_within(800..=1_200)).unwrap_or(1_000);
    duration * thousandths / 1_000
}
