use std::fmt;
use std::ops::RangeInclusive;
use std::task::{Context, Poll};
use std::time::Duration;

use super::Upstream;
use crate::budget::Budget;
use crate::cooldown::{Cooldown, Hold};
use crate::fleet::{State, Status};
use crate::observe::{Event, EventKind};
use crate::quota::{Dimension, Learned, Quota, Rate, Waiting};
use crate::signal::Signal;
use crate::time::{Timer, nanos};

/// A limit of an upstream that members lease from a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Resource {
    /// A dimension of the quota, in its units.
    Quota(Dimension),
    /// The budget, in millionths of a token.
    Budget,
}

/// An upstream in the role of a member of a fleet. Made by [`Upstream::share`].
///
/// This is the interface for crates that share upstreams between processes, such as
/// `resile-redis`. Programs need it only with a store of their own.
///
/// While it lives, the quota does not refill by time. It has the units that the store has granted,
/// and none after the end of the lease. It begins with no units. A debt stays. Units that earlier
/// calls give back belong to the lease. A call that waits ends at its deadline and not before: a
/// lease can grow at any time.
///
/// The budget keeps what it has, and deposits count as before.
///
/// Dropping it ends every lease. The limits are those of one process again. The quota refills from
/// the units that it still has. After the end of a lease these are none. Observers get an event with
/// [`State::Left`], except while a panic unwinds.
///
/// # Examples
///
/// ```
/// use resile::Upstream;
/// use resile::quota::{Dimension, Rate};
/// use resile::Quota;
/// use resile::upstream::Resource;
/// use std::time::Duration;
///
/// static MODEL: Upstream = Upstream::new("model")
///     .with_quota(Quota::new().with_requests(Rate::per_minute(500)));
///
/// let shared = MODEL.share().expect("nothing else shares it");
/// let requests = Resource::Quota(Dimension::Requests);
/// assert_eq!(shared.balance(requests), Some(0));
///
/// shared.adjust(requests, 20);
/// shared.extend(requests, Duration::from_secs(1));
/// assert_eq!(MODEL.quota_level(Dimension::Requests), Some(20));
/// ```
#[must_use = "dropping it ends every lease"]
pub struct Shared<'a, M: Timer> {
    upstream: &'a Upstream<M>,
}

impl<M: Timer> Upstream<M> {
    /// Lets a store share this upstream between processes. `None` if it is shared already.
    #[must_use]
    pub fn share(&self) -> Option<Shared<'_, M>> {
        if !self.parts.fleet.join() {
            return None;
        }
        if let Some(quota) = self.quota() {
            quota.begin_lease(self.now());
        }
        Some(Shared { upstream: self })
    }

    /// Returns the status of an upstream that many processes share. After this process has left, its state is
    /// [`Left`](State::Left). `None` if it has never joined.
    #[must_use]
    pub fn fleet(&self) -> Option<crate::fleet::Status> {
        let fleet = &self.parts.fleet;
        fleet.status(|| self.now()).or_else(|| fleet.left())
    }
}

impl<'a, M: Timer> Shared<'a, M> {
    /// Returns the upstream.
    pub const fn upstream(&self) -> &'a Upstream<M> {
        self.upstream
    }

    /// Returns ready if something has changed since the last call, and otherwise registers the
    /// waker. It may also be ready without a change. There is one listener at a time.
    ///
    /// The changes are: a hold begins or becomes longer, a call does not get its units at once, or
    /// the units fall below [`set_low`](Self::set_low). A call is reported once. While it waits,
    /// look at [`waiting`](Self::waiting). The listener may miss the last units of a lease, so it
    /// must also look from time to time.
    pub fn poll_changed(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut changed = Poll::Pending;
        for signal in self.signals() {
            if signal.poll(context.waker()).is_ready() {
                changed = Poll::Ready(());
            }
        }
        changed
    }

    /// Returns a uniform random number from `range`, [drawn](Timer::draw) from the timer of the
    /// upstream. The exchanges of members with a store must not come at one instant.
    #[must_use]
    pub fn draw_within(&self, range: RangeInclusive<u64>) -> u64 {
        self.upstream.timer().draw_within(range)
    }

    fn signals(&self) -> impl Iterator<Item = &Signal> {
        let parts = &self.upstream.parts;
        let signals = [
            parts.quota.as_ref().map(Quota::signal),
            parts.cooldown.as_ref().map(Cooldown::signal),
            parts.budget.as_ref().map(Budget::signal),
        ];
        signals.into_iter().flatten()
    }

    /// Reports the state of the fleet to observers and to [`Upstream::fleet`]. A new state is an
    /// event, which the log has at DEBUG: the caller knows the reason and warns operators.
    pub fn report(&self, state: State, members: u32) {
        let upstream = self.upstream;
        let is_new = upstream.parts.fleet.set(state, members, || upstream.now());
        if !is_new || !upstream.parts.observer.get().is_enabled() {
            return;
        }
        if let Some(status) = upstream.fleet() {
            self.tell(status);
        }
    }

    fn tell(&self, status: Status) {
        let upstream = self.upstream;
        let gauges = upstream.parts.gauges(|| upstream.now());
        let (name, kind) = (Some(upstream.name()), EventKind::Fleet(status));
        let event = Event { upstream: name, call: None, kind, gauges, place: None, kinds: None };
        upstream.parts.observer.get().observe(&event);
    }

    /// Tells observers that the process has left, unless a panic ends it: a second one would end the program.
    fn tell_left(&self) {
        if self.upstream.parts.observer.get().is_enabled() && !std::thread::panicking() {
            self.tell(Status::LEFT);
        }
    }

    /// Ends the strains of all parts: each is an event with its numbers, as
    /// [`Relieved`](EventKind::Relieved) after a quiet time. A process that leaves calls it last, because
    /// it may have no later call whose report would tell the end. A call that waits afterwards begins
    /// another strain.
    pub fn end_strains(&self) {
        super::limits::cut(self.upstream, &self.upstream.parts);
    }

    /// Ends the strains and the surge of failures that have been quiet for ten seconds, as the report of the next
    /// attempt does: each is an event with its numbers. A surge goes on while the breaker is not closed. Returns whether
    /// one goes on. The task of a store calls it from time to time, because a process may report no attempt for long,
    /// such as while its breaker is open.
    #[must_use]
    pub fn end_quiet_strains(&self) -> bool {
        let (upstream, parts) = (self.upstream, &self.upstream.parts);
        if parts.strains.is_any() {
            super::limits::relieve(upstream, parts, None);
        }
        parts.strains.goes_on_any()
    }

    /// Notes that the store answers now. The age of the status counts from here.
    pub fn answered(&self) {
        self.upstream.parts.fleet.answered(self.upstream.now());
    }
}

/// The cooldown.
impl<M: Timer> Shared<'_, M> {
    /// Returns the current hold. `None` without one.
    #[must_use]
    pub fn hold(&self) -> Option<Hold> {
        let cooldown = self.upstream.cooldown().filter(|cooldown| !cooldown.is_free())?;
        cooldown.current(self.upstream.now())
    }

    /// Holds calls as another member does. A hold never becomes shorter. The cooldown's cap limits
    /// the remaining time.
    ///
    /// The observer gets no event, because the member tells its operators of the hold. It gets
    /// [`EventKind::Limiting`] when the hold makes a call of this process wait.
    pub fn hold_as(&self, hold: Hold) {
        if let Some(cooldown) = self.upstream.cooldown() {
            let now = self.upstream.now();
            let end = || cooldown.remaining(now).map(|rest| now.saturating_add(nanos(rest)));
            let (before, is_by_hand) = (end(), cooldown.is_by_hand());
            cooldown.join(now, hold);
            let after = end();
            super::limits::note_joined(&self.upstream.parts, now, after);
            if let Some(end) = after.filter(|end| Some(*end) > before) {
                self.upstream.parts.fleet.joins_hold(before, end, now, is_by_hand);
            }
        }
    }
}

/// The leases.
impl<M: Timer> Shared<'_, M> {
    /// Returns the units of a resource that this process has, for a budget in millionths of a token.
    /// Negative units are a debt. `None` if the upstream has no such limit.
    #[must_use]
    pub fn balance(&self, resource: Resource) -> Option<i64> {
        match resource {
            Resource::Quota(dimension) => self.upstream.quota()?.leased(dimension),
            Resource::Budget => Some(self.upstream.budget()?.balance()),
        }
    }

    /// Adds units, or takes them if `units` is negative. Calls that wait for units are woken.
    /// A budget never goes below zero.
    ///
    /// Adding nothing says that the store has nothing left. So add nothing only after an answer, and only if the process
    /// wanted more. Then a call that waits for units of a quota is a strain for operators for a second and a half, and a
    /// retry that a spent budget refuses is one of the fleet. Adding nothing to a budget that can pay for a retry takes
    /// this word back.
    /// Without that word the call is a strain only when it has waited for 250 ms and the store
    /// [has answered](Self::answered) meanwhile, and the retry is one of
    /// this process, whose line has other words.
    pub fn adjust(&self, resource: Resource, units: i64) {
        match (resource, self.upstream.quota(), self.upstream.budget()) {
            (Resource::Quota(_), Some(_), _) if units == 0 => {
                self.upstream.parts.fleet.is_short(self.upstream.now());
            }
            (Resource::Quota(dimension), Some(quota), _) => quota.adjust(dimension, units),
            (Resource::Budget, _, Some(budget)) => {
                budget.adjust(units);
                self.upstream.parts.fleet.note_tokens(units != 0 || !budget.is_spent());
            }
            _ => {}
        }
    }

    /// Sets the end of a lease to `after` from now. The units of a quota cannot be used after it.
    /// The first call that waits is woken. A budget has no end.
    pub fn extend(&self, resource: Resource, after: Duration) {
        if let (Resource::Quota(dimension), Some(quota)) = (resource, self.upstream.quota()) {
            let end = self.upstream.now().saturating_add(nanos(after));
            self.upstream.parts.fleet.leased_until(end);
            quota.lease_until(dimension, end);
        }
    }

    /// Sets the number of units below which [`poll_changed`](Self::poll_changed) is ready.
    pub fn set_low(&self, resource: Resource, units: u64) {
        match (resource, self.upstream.quota(), self.upstream.budget()) {
            (Resource::Quota(dimension), Some(quota), _) => quota.set_low(dimension, units),
            (Resource::Budget, _, Some(budget)) => budget.set_low(units),
            _ => {}
        }
    }

    /// Sets the number of units above which deposits into the budget are lost. It is at most the
    /// capacity. Does nothing for a quota.
    pub fn set_ceiling(&self, resource: Resource, units: u64) {
        if let (Resource::Budget, Some(budget)) = (resource, self.upstream.budget()) {
            budget.set_ceiling(units);
        }
    }

    /// Sets the number of units above which deposits into the budget wait for the store. They belong to
    /// the [`balance`](Self::balance) but pay for no retry until this number is higher, because other
    /// members may hold the tokens that are missing here. It is the capacity at first. Does nothing for a
    /// quota.
    pub fn set_usable(&self, resource: Resource, units: u64) {
        if let (Resource::Budget, Some(budget)) = (resource, self.upstream.budget()) {
            budget.set_usable(units);
        }
    }

    /// Returns the amounts of the calls that wait for a resource. No call waits for a budget.
    #[must_use]
    pub fn waiting(&self, resource: Resource) -> Waiting {
        match (resource, self.upstream.quota()) {
            (Resource::Quota(dimension), Some(quota)) => quota.waiting_for(dimension),
            _ => Waiting::default(),
        }
    }

    /// Takes the largest amount that was refused since the last call to a call that does not wait,
    /// such as [`Upstream::try_admit`].
    #[must_use]
    pub fn refused(&self, resource: Resource) -> u64 {
        match (resource, self.upstream.quota()) {
            (Resource::Quota(dimension), Some(quota)) => quota.refused(dimension),
            _ => 0,
        }
    }

    /// Takes the lowest level that the provider has reported since the last call. The output that
    /// calls in flight have reserved is subtracted: the provider has not charged it yet. It is the
    /// level of all members together. It is 0 after a refusal without a level.
    #[must_use]
    pub fn reported_level(&self, resource: Resource) -> Option<u64> {
        match (resource, self.upstream.quota()) {
            (Resource::Quota(dimension), Some(quota)) => quota.told(dimension),
            _ => None,
        }
    }

    /// Returns the time for which nothing refills after a refusal: the rest of the hold that its call has
    /// asked for. The provider counts nothing in it that could be used after it, so the members too begin
    /// with the [reported level](Self::reported_level) only then. Zero otherwise, and for a budget.
    #[must_use]
    pub fn resumes_in(&self, resource: Resource) -> Duration {
        match (resource, self.upstream.quota()) {
            (Resource::Quota(dimension), Some(quota)) => {
                let at = quota.resumes_at(dimension);
                Duration::from_nanos(at.saturating_sub(self.upstream.now()))
            }
            _ => Duration::ZERO,
        }
    }
}

/// The limits that the members have learned.
impl<M: Timer> Shared<'_, M> {
    /// Takes what this process has learned of a limit since the last call. `None` without a limit.
    ///
    /// The store adds the changes of all members to one share. A change that makes the share larger
    /// is divided by the number of members, because all of them grow at the same time.
    #[must_use]
    pub fn learned(&self, dimension: Dimension) -> Option<Learned> {
        self.upstream.quota()?.take_learned(dimension)
    }

    /// Sets the limit that all members have instead of the configured one, which `None` gives back. So does the end of
    /// the leases. The units of the lease follow from what the store grants, and the burst of a call from the
    /// configured limit. [`Upstream::quota_rate`] and the log tell this limit, and limits that the provider reports are
    /// compared with it. Does nothing without a limit in the code.
    pub fn use_limit(&self, dimension: Dimension, limit: Option<Rate>) {
        if let Some(quota) = self.upstream.quota() {
            quota.use_limit(dimension, limit);
        }
    }

    /// Sets the share of the limit that all members use, and the most that they may use. It is a share of the
    /// configured limit, or of that of [`use_limit`](Self::use_limit).
    /// A member with a larger limit in its code than others may use less than all of it.
    ///
    /// Returns true if this process has logged since the last call that the limit is lower, while the store did not
    /// answer and so told nobody. If the members use more than this process did, this line needs an end.
    #[expect(clippy::must_use_candidate, reason = "it sets the share")]
    pub fn use_share(&self, dimension: Dimension, share: f64, most: f64) -> bool {
        let quota = self.upstream.quota();
        quota.is_some_and(|quota| quota.use_share(dimension, share, most, self.upstream.now()))
    }
}

impl<M: Timer> Drop for Shared<'_, M> {
    fn drop(&mut self) {
        if let Some(budget) = self.upstream.budget() {
            budget.end_lease();
        }
        if let Some(quota) = self.upstream.quota() {
            quota.end_lease(self.upstream.now());
        }
        self.signals().for_each(Signal::forget);
        self.upstream.parts.fleet.leave();
        // Come last: a waker and an observer may panic.
        if let Some(quota) = self.upstream.quota() {
            quota.wake_first();
        }
        self.tell_left();
    }
}

impl<M: Timer> fmt::Debug for Shared<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("upstream", &self.upstream.name())
            .field("status", &self.upstream.fleet())
            .finish_non_exhaustive()
    }
}
