mod ask;
#[cfg(test)]
mod burst;
#[cfg(test)]
mod fairness;
mod idle;
#[cfg(test)]
mod laws;
#[cfg(test)]
mod outage;
#[cfg(test)]
mod world;

use std::time::Duration;

use resile::fleet::State;
use resile::quota::Waiting;
use resile::upstream::Resource;

use crate::demand::Demand;
use crate::mode::Mode;
use crate::scale::Scale;
use crate::scripts::LeaseReply;
pub(crate) use ask::Ask;
use idle::Idle;

/// The account of one lease of this process. Pure: the balance and the time are arguments.
///
/// Both sides count sums that only this process changes: the units that it was ever granted, and
/// the units that it ever spent. So an exchange whose answer is lost, late or repeated does no
/// harm. The next answer has the right sum.
#[derive(Clone, Debug)]
pub(crate) struct Lease {
    pub(crate) resource: Resource,
    pub(crate) scale: Scale,
    pub(crate) mode: Mode,
    /// All units that were ever put into the balance.
    granted: i64,
    /// The least sum of spent units that was sent since the last answer, with that one.
    base: i64,
    /// The level that the server last reported, and the units that this process had then.
    level: Option<i64>,
    held: i64,
    /// The units that the fleet had room for then.
    room: i64,
    /// The units that calls were refused since the last exchange because they do not wait.
    refused: i64,
    /// The lowest level that the provider has reported and the server does not know.
    told: Option<u64>,
    /// The latest time at which a level was reported, or from which on the limit refills after a refusal.
    resumes_at: Duration,
    demand: Demand,
    asked_at: Option<Duration>,
    answered_at: Option<Duration>,
    /// The pause that the last answer asks for.
    pause: Duration,
    /// The units that calls waited for or were refused when the last exchange began.
    needed: i64,
    /// The time of the first of the latest answers that granted less than calls needed. In safe mode the time
    /// since which calls wait.
    lacks_since: Option<Duration>,
    /// The time that an exchange takes, in seconds.
    lag: f64,
    /// The factor of the demand while calls wait.
    boost: f64,
    /// The units that a process always wants: the price of a retry, or 0.
    pub(crate) floor: i64,
    /// The time up to which the share of the limit was added, in safe mode.
    shared_until: Option<Duration>,
    /// The part of a unit that the share has left.
    fraction: f64,
    /// The units of the share that the server does not know.
    own: i64,
    /// The number of members by which the limit was divided since the last answer, or 0.
    away: u32,
    idle: Idle,
}

/// The shortest time between two exchanges of one lease.
pub(crate) const INTERVAL: Duration = Duration::from_millis(100);
/// The longest time between two exchanges while calls wait or units are held.
const RENEWAL: Duration = Duration::from_secs(1);
/// The time of a lack that operators are told.
const LATE: Duration = Duration::from_millis(250);
/// The time after which the lease of a silent process ends. What arrives in it counts as spent.
pub(crate) const TTL: Duration = Duration::from_secs(2);
/// The demand that a lease covers, in seconds.
const COVERED: f64 = 0.1;
/// The demand that a lease covers beyond this if the fleet has enough, in seconds. Half of a lease
/// then lasts from a question without an answer to the begin of safe mode.
const SPARE: f64 = 0.55;
/// The further retries that a process can pay for if the fleet has plenty: calls that fail together
/// do so within one exchange.
const RETRIES: i64 = 3;
/// The most by which the demand may be larger than the use that the process was allowed.
const MOST_BOOST: f64 = 8.0;

impl Lease {
    /// Creates the account of a process that always wants `floor` units.
    pub(crate) const fn new(resource: Resource, scale: Scale, floor: i64) -> Self {
        Self {
            resource,
            scale,
            mode: Mode::new(),
            granted: 0,
            base: 0,
            level: None,
            held: 0,
            room: 0,
            refused: 0,
            told: None,
            resumes_at: Duration::ZERO,
            demand: Demand::NEW,
            asked_at: None,
            answered_at: None,
            pause: INTERVAL,
            needed: 0,
            lacks_since: None,
            lag: 0.0,
            boost: 1.0,
            floor,
            shared_until: None,
            fraction: 0.0,
            own: 0,
            away: 0,
            idle: Idle::NEW,
        }
    }
}

impl Lease {
    /// Returns the sum of all units that this process has spent. `balance` is what it has left.
    const fn spent(&self, balance: i64) -> i64 {
        self.granted.saturating_sub(balance)
    }

    /// Returns the level of the whole fleet as the server last reported it.
    pub(crate) const fn level(&self) -> Option<i64> {
        self.level
    }

    /// Counts units that a call was refused.
    pub(crate) fn refuse(&mut self, units: u64) {
        self.refused = self.refused.max(signed(units));
        self.demand.wants(signed(units));
    }

    /// Keeps the lowest level that the provider has reported. After a refusal it refills from `at` on.
    pub(crate) fn learn(&mut self, told: Option<u64>, at: Duration) {
        if let Some(units) = told {
            self.told = Some(self.told.map_or(units, |before| before.min(units)));
            self.resumes_at = self.resumes_at.max(at);
        }
    }

    /// Keeps what an exchange without an answer has told, as of a second before it began.
    pub(crate) fn lost(&mut self, ask: &Ask) {
        self.learn(ask.told, self.asked_at.unwrap_or_default().saturating_sub(RENEWAL));
    }

    /// Takes the lowest level that the provider has reported. If that was more than a second ago, because the
    /// store was away, what has arrived since belongs to it.
    fn take_told(&mut self, now: Duration) -> Option<u64> {
        let late = now.saturating_sub(self.resumes_at.saturating_add(RENEWAL)).as_secs_f64();
        let arrived = floor(self.scale.per_second * late).max(0).unsigned_abs();
        self.told.take().map(|units| units.saturating_add(arrived))
    }

    /// Counts the demand.
    pub(crate) fn observe(&mut self, balance: i64, waiting: Waiting, now: Duration) {
        let spent = self.spent(balance);
        self.demand.observe(spent, now);
        self.demand.wants(signed(waiting.first));
        self.idle.observe(spent, waiting.all > 0 || self.refused > 0, now);
        self.mode.tick(now);
    }

    /// Returns the units that this process wants to have.
    ///
    /// It wants what it needs in a tenth of a second, and what its waiting calls need. It wants
    /// more only if the fleet has plenty: then a call of a quiet process finds units at once, and
    /// failures that come together find the tokens of their retries.
    pub(crate) fn want(&self, waiting: Waiting, members: u32) -> i64 {
        if self.idle.rests() {
            return self.floor.min(self.scale.most);
        }
        let need = units(self.demand.per_second() * (COVERED + self.lag) * self.boost);
        let spare = units(self.demand.per_second() * SPARE + 2.0 * self.demand.at_once()).max(1);
        // After a silence the last level says nothing.
        let level = self.level.filter(|_| matches!(self.mode.state(), State::Shared));
        let level = level.unwrap_or(0).max(0);
        let members = i64::from(members.max(1));
        let (spare, plenty) = if self.floor > 0 {
            // What is with this process already belongs to its part. A part of a price pays nothing.
            let own = (self.held - self.floor).clamp(0, level);
            let part = level.saturating_add(own) / (members + 1);
            (spare.max(self.floor.saturating_mul(RETRIES)), part - part % self.floor)
        } else {
            (spare, level / (2 * members))
        };
        self.floor
            .saturating_add(need)
            .saturating_add(signed(waiting.all))
            .saturating_add(self.refused)
            .saturating_add(spare.min(plenty))
            .min(self.scale.most)
    }

    /// Returns the number of units below which the process asks for more.
    pub(crate) fn low(&self, waiting: Waiting, members: u32) -> i64 {
        // With less than its floor a process cannot pay for a single retry.
        (self.want(waiting, members).saturating_add(1) / 2).max(self.floor)
    }

    /// Returns the time of the next exchange. `None` if none is needed.
    pub(crate) fn due_at(&self, balance: i64, waiting: Waiting, members: u32) -> Option<Duration> {
        if let Some(at) = self.mode.retry_at() {
            return Some(at);
        }
        let Some(asked_at) = self.asked_at else { return Some(Duration::ZERO) };
        if self.told.is_some() {
            return Some(asked_at + INTERVAL);
        }
        if self.idle.rests() {
            // The server takes the floor back after the lease. Its use is charged later.
            let is_settled = balance <= self.floor && self.spent(balance) == self.base;
            return (!is_settled).then_some(asked_at + RENEWAL);
        }
        let want = self.want(waiting, members);
        let lacks = waiting.all > 0 || balance < self.low(waiting, members) || balance < 0;
        if lacks {
            return Some(asked_at + self.pause.clamp(INTERVAL, RENEWAL));
        }
        // At least half of its units are too many.
        if balance > want.saturating_mul(2).max(self.floor) {
            return Some(asked_at + 2 * INTERVAL);
        }
        let is_idle = balance == 0 && self.spent(balance) == self.base;
        (!is_idle).then_some(asked_at + RENEWAL)
    }

    /// Begins an exchange. Returns it with the units to take from the balance before: the server
    /// takes back what is not wanted, also if its answer is lost.
    pub(crate) fn ask(
        &mut self,
        balance: i64,
        waiting: Waiting,
        members: u32,
        now: Duration,
    ) -> (Ask, i64) {
        self.asked_at = Some(now);
        // Calls that wait say that the use so far is less than the demand.
        let is_short = waiting.all > 0 && !matches!(self.mode.state(), State::Safe);
        let factor = if is_short { 2.0 } else { 0.5 };
        self.boost = (self.boost * factor).clamp(1.0, MOST_BOOST);
        let want = self.want(waiting, members);
        let spent = self.spent(balance);
        let surplus = balance.saturating_sub(want).max(0);
        self.granted = self.granted.saturating_sub(surplus);
        let ask = Ask {
            base: self.base,
            spent,
            least: signed(waiting.first).min(self.scale.most),
            want,
            memory: Some(self.memory(balance, members, now)),
            told: self.take_told(now),
            pause: self.resumes_at.saturating_sub(now),
            own: self.own,
            away: self.away,
            floor: self.floor,
        };
        self.base = self.base.min(spent);
        self.needed = signed(waiting.all).max(self.refused);
        self.refused = 0;
        (ask, surplus)
    }

    /// Begins the last exchange: the process wants nothing any more.
    pub(crate) const fn leave(&self, balance: i64) -> Ask {
        Ask {
            base: self.base,
            spent: self.spent(balance),
            least: 0,
            want: 0,
            memory: None,
            told: None,
            pause: Duration::ZERO,
            own: self.own,
            away: self.away,
            floor: self.floor,
        }
    }

    /// Returns the highest level that the fleet can have now, as far as this process knows. A new
    /// fleet begins with a burst. The tokens of a budget that processes hold come back to a lost account,
    /// and all hold about as many.
    fn memory(&self, balance: i64, members: u32, now: Duration) -> i64 {
        let (Some(level), Some(at)) = (self.level, self.answered_at) else {
            return self.scale.burst;
        };
        let refill = floor(self.scale.per_second * now.saturating_sub(at).as_secs_f64());
        let own = if self.floor > 0 { self.held.min(balance).max(0) } else { 0 };
        let leased = own.saturating_mul(members.into());
        level.saturating_add(refill).saturating_add(leased).min(self.scale.most)
    }

    /// Returns the end of the lease that the last exchange began. The server counts from a later
    /// moment, so it ends the lease after this time only.
    pub(crate) fn ends_at(&self) -> Duration {
        self.asked_at.unwrap_or_default() + TTL
    }

    /// Ends an exchange. Returns the units to add to the balance.
    pub(crate) fn answered(&mut self, ask: &Ask, reply: &LeaseReply, now: Duration) -> i64 {
        // After a longer silence it is right that the server has forgotten this process.
        let is_recent = self.answered_at.is_some_and(|at| now.saturating_sub(at) < TTL / 2);
        self.answered_at = Some(now);
        let lag = now.saturating_sub(self.asked_at.unwrap_or(now)).as_secs_f64();
        self.lag += (lag - self.lag) / 4.0;
        let has_lost_data = reply.is_new && is_recent;
        self.mode.answered(now, has_lost_data, TTL);
        self.base = ask.spent;
        self.own = self.own.saturating_sub(ask.own);
        self.away = 0;
        self.level = Some(reply.level);
        self.held = reply.granted.saturating_sub(ask.spent);
        self.room = reply.room;
        self.pause = reply.wait.unwrap_or(RENEWAL);
        let lacks = self.held < self.needed && matches!(self.mode.state(), State::Shared);
        self.lacks_since = lacks.then(|| self.lacks_since.unwrap_or(now));
        self.shared_until = None;
        let change = reply.granted.saturating_sub(self.granted);
        self.granted = reply.granted;
        change
    }

    /// Returns whether the fleet has no units for calls of this process, as of the last answer: those for its
    /// first call come late, or its calls have got less than they need for a while. A group of calls empties
    /// the account of a fleet below its limit too, but only for a moment. The account of a fleet at its limit
    /// is always empty, also for a process that needs less than its part and gets it.
    ///
    /// In safe mode the share has no units if calls wait for a second. The calls that have waited for the
    /// silent store are through by then if they are fewer than the share pays for. While the process is
    /// between these states, a lack says nothing of the limit.
    pub(crate) fn is_short(&self, now: Duration) -> bool {
        let lasts = |time| self.lacks_since.is_some_and(|at| now.saturating_sub(at) >= time);
        match self.mode.state() {
            State::Shared => self.pause >= LATE && lasts(Duration::ZERO) || lasts(LATE),
            State::Safe => lasts(RENEWAL),
            _ => false,
        }
    }

    /// Returns whether the fleet has no token for a further retry, as of the last answer. A store that is away has
    /// said nothing.
    pub(crate) fn is_spent(&self) -> bool {
        self.floor > 0 && self.level.is_some_and(|level| level < self.floor)
    }

    /// Returns the units that calls may use, also of deposits that the server does not know: those that it
    /// counts for this process. The price of the next retry is earned by successes of the process itself.
    pub(crate) fn usable(&self) -> u64 {
        self.held.max(self.floor).max(0).unsigned_abs()
    }

    /// Returns the units above which deposits are lost. A full fleet needs no more of them.
    pub(crate) fn most(&self) -> u64 {
        self.usable().saturating_add(self.room.max(0).unsigned_abs())
    }

    /// Returns the units that this process may save in safe mode.
    pub(crate) fn ceiling(&self, share: f64) -> u64 {
        floor(real(self.scale.most) * share).max(self.floor).max(0).unsigned_abs()
    }

    /// Returns the units to add to the balance in safe mode. `share` is the part of the limit that
    /// this process may use, one of `members`.
    ///
    /// The balance never exceeds this part of the burst, unless a waiting call needs more.
    pub(crate) fn share(
        &mut self,
        balance: i64,
        waiting: Waiting,
        share: f64,
        members: u32,
        now: Duration,
    ) -> i64 {
        self.away = self.away.max(members);
        let lacks = waiting.all > 0 || self.refused > 0;
        let lacked_since = self.lacks_since.filter(|_| self.shared_until.is_some());
        self.lacks_since = lacks.then(|| lacked_since.unwrap_or(now));
        let Some(since) = self.shared_until.replace(now) else {
            // The server takes back what the lease has left, so it is not used.
            self.fraction = 0.0;
            let left = balance.saturating_sub(self.floor).max(0);
            // A budget does not refill by time. Without any answer so far it begins with its share.
            let is_first = self.answered_at.is_none() && self.scale.rate == 0;
            let first = if is_first { signed(self.ceiling(share)) } else { 0 };
            self.own = self.own.saturating_add(first);
            self.granted = self.granted.saturating_add(first - left);
            return first - left;
        };
        // Nothing arrives before the end of the hold after a refusal.
        let is_paused = now < self.resumes_at;
        let since = if is_paused { now } else { since };
        let seconds = now.saturating_sub(since).as_secs_f64();
        let units_now = self.scale.per_second.mul_add(share * seconds, self.fraction);
        let whole = floor(units_now);
        let most = floor(real(self.scale.most) * share).max(signed(waiting.first)).max(1);
        let added = whole.min(most.saturating_sub(balance).max(0));
        // Above the limit nothing is saved for later.
        self.fraction = if added < whole { 0.0 } else { units_now - real(whole) };
        self.granted = self.granted.saturating_add(added);
        self.own = self.own.saturating_add(added);
        added
    }
}

fn signed(units: u64) -> i64 {
    i64::try_from(units).unwrap_or(i64::MAX)
}

/// Rounds up.
#[expect(clippy::cast_possible_truncation, reason = "the cast saturates")]
fn units(amount: f64) -> i64 {
    amount.ceil() as i64
}

#[expect(clippy::cast_possible_truncation, reason = "the cast saturates")]
fn floor(amount: f64) -> i64 {
    amount.floor() as i64
}

#[expect(clippy::cast_precision_loss, reason = "units are far below 2^53")]
const fn real(units: i64) -> f64 {
    units as f64
}
