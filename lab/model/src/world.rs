//! Members, a store and a network, in steps of which each may come in any order.

use std::fmt::Write as _;
use std::hash::{Hash, Hasher};
use std::time::Duration;

use resile::quota::{Dimension, Rate, Waiting};
use resile::upstream::Resource;

use crate::event::Event;
use crate::lease::{Ask, Lease, TTL};
use crate::scale::Scale;
use crate::scripts::model::{Account, Model as _, Record};
use crate::scripts::{LeaseReply, LeaseRequest};

/// The step of the time. An exchange that takes longer has no answer.
pub(crate) const TICK: Duration = Duration::from_millis(500);
/// The time after which a member knows that an answer does not come.
const TIMEOUT: Duration = Duration::from_millis(50);
const START: Duration = Duration::from_secs(1_000);
/// The step of a clock: longer than a lease.
const STEP: i128 = 3_000_000;
/// The limit: units a tick, and the burst.
pub(crate) const REFILL: i64 = 4;
pub(crate) const BURST: i64 = 16;
/// The calls that always wait.
const HUNGER: u64 = 8;
/// The most units of one lease.
const LEASE: i64 = HUNGER.cast_signed();
const NAMES: [&str; 3] = ["a", "b", "c"];

/// The rules of the protocol: the right ones, or one of them broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rules {
    Right,
    /// A member reports what it spent since its last report, and not the sum.
    Deltas,
    /// The server takes the time from the member that asks. The clocks differ by 10 s.
    LocalClocks,
    /// After an outage the server grants before all members can have reported.
    GrantsFirst,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Life {
    Runs,
    Stopped,
    Gone,
}

#[derive(Clone, Debug)]
struct Member {
    lease: Lease,
    balance: i64,
    /// The end of the time in which calls may use the balance.
    ends_at: Duration,
    life: Life,
    /// The exchange that runs.
    pending: Option<Ask>,
    /// The sum that was reported last.
    reported: i64,
}

/// A request on its way.
#[derive(Clone, Debug)]
struct Message {
    who: usize,
    ask: Ask,
    ttl: Duration,
    /// The units spent since the report before.
    delta: i64,
}

/// A request that the store has answered, by the model of the script.
pub(crate) struct Exchange<'a> {
    /// The time of the server in microseconds.
    pub(crate) now: i128,
    pub(crate) request: LeaseRequest<'a>,
    pub(crate) reply: LeaseReply,
    /// The account after it.
    pub(crate) store: &'a Account,
}

#[derive(Clone, Debug)]
pub(crate) struct World {
    now: Duration,
    members: Vec<Member>,
    net: Vec<Message>,
    store: Account,
    /// The states of the store at the last tick and at the one before.
    copies: [Account; 2],
    /// The distance of the server's clock from the true time, in microseconds.
    clock: i128,
    is_away: bool,
    /// The faults that may still come.
    faults: u32,
    /// The units that calls have used, and those that members gave themselves.
    used: i64,
    own: i64,
    /// The units that the faults so far may cost.
    allowed: i64,
}

fn scale() -> Scale {
    let count = u32::try_from(2 * REFILL).unwrap_or(u32::MAX);
    let burst = u32::try_from(BURST).unwrap_or(u32::MAX);
    Scale::of_rate(&Rate::per_second(count.into()).with_burst(burst.into()))
}

/// Returns the calls that wait behind the units that a member has.
fn waiting(balance: i64) -> Waiting {
    let mut waiting = Waiting::default();
    waiting.all = HUNGER.saturating_sub(balance.max(0).unsigned_abs());
    waiting.first = waiting.all.min(1);
    waiting
}

impl World {
    pub(crate) fn new(members: usize, faults: u32) -> Self {
        let member = || Member {
            lease: Lease::new(Resource::Quota(Dimension::Requests), scale(), 0),
            balance: 0,
            ends_at: Duration::ZERO,
            life: Life::Runs,
            pending: None,
            reported: 0,
        };
        Self {
            now: START,
            members: (0..members).map(|_| member()).collect(),
            net: Vec::new(),
            store: Account::default(),
            copies: [Account::default(), Account::default()],
            clock: 0,
            is_away: false,
            faults,
            used: 0,
            own: 0,
            allowed: 0,
        }
    }

    /// Returns the number of ticks so far.
    pub(crate) fn ticks(&self) -> i64 {
        let ticks = self.now.saturating_sub(START).as_millis() / TICK.as_millis();
        i64::try_from(ticks).unwrap_or(i64::MAX)
    }

    /// Returns the units that calls used or may use now, beyond the limit and its burst.
    pub(crate) fn excess(&self) -> i64 {
        let usable = |member: &&Member| member.life != Life::Gone && member.is_usable(self.now);
        let held: i64 =
            self.members.iter().filter(usable).map(|member| member.balance.max(0)).sum();
        self.used + held - BURST - REFILL * self.ticks()
    }

    /// Returns the excess that neither the faults nor the shares of members explain.
    pub(crate) fn unexplained(&self) -> i64 {
        self.excess() - self.own - self.allowed
    }

    /// Lists what may happen. `faults` are the kinds of faults of the scenario. Greedy calls use all
    /// units that there are.
    pub(crate) fn events(&self, is_greedy: bool, faults: &[Event], events: &mut Vec<Event>) {
        let stopped = |who: &usize| self.members[*who].life == Life::Stopped;
        events.extend((0..self.members.len()).filter(stopped).map(Event::Continue));
        // Members ask in time and in one order, because a question changes only its member.
        let asks = (0..self.members.len()).find(|who| self.is_due(*who));
        for is_spent in [true, false].into_iter().filter(|is_spent| *is_spent || !is_greedy) {
            events.extend(asks.map(|who| Event::Ask(who, is_spent)));
            let requests = (0..self.net.len()).filter(|request| self.is_first(*request));
            events.extend(requests.map(|request| Event::Serve(request, is_spent)));
        }
        // A delay is a fault too.
        if asks.is_none() && (self.is_away || self.net.len() <= self.faults as usize) {
            events.push(Event::Tick);
        }
        if self.is_away {
            events.push(Event::ComeBack);
        }
        if self.faults == 0 {
            return;
        }
        for fault in faults {
            let members =
                (0..self.members.len()).filter(|who| self.members[*who].life == Life::Runs);
            let requests = (0..self.net.len()).filter(|request| self.is_first(*request));
            let late = (0..self.net.len()).filter(|request| !self.is_first(*request));
            match fault {
                Event::Overtake(_) => events.extend(late.map(Event::Overtake)),
                Event::Repeat(_) => events.extend(requests.map(Event::Repeat)),
                Event::LoseRequest(_) => events.extend(requests.map(Event::LoseRequest)),
                Event::LoseReply(_) => events.extend(requests.map(Event::LoseReply)),
                Event::Die(_) => events.extend(members.map(Event::Die)),
                Event::Stop(_) => events.extend(members.map(Event::Stop)),
                Event::Leave(_) => events.extend(members.map(Event::Leave)),
                Event::GoAway if self.is_away => {}
                _ => events.push(*fault),
            }
        }
    }

    /// Returns whether no earlier request of the same member is on its way.
    fn is_first(&self, request: usize) -> bool {
        let who = self.net[request].who;
        self.net[..request].iter().all(|earlier| earlier.who != who)
    }

    fn is_due(&self, who: usize) -> bool {
        let member = &self.members[who];
        let due = member.lease.due_at(member.balance, waiting(member.balance), self.count());
        let may_ask = member.life == Life::Runs && member.pending.is_none();
        may_ask && due.is_some_and(|at| at <= self.now)
    }

    /// Lets calls use what a member has.
    fn spend(&mut self, who: usize) {
        let member = &mut self.members[who];
        if member.life == Life::Runs && member.balance > 0 && member.is_usable(self.now) {
            self.used += std::mem::take(&mut member.balance);
        }
    }

    fn count(&self) -> u32 {
        u32::try_from(self.members.len()).unwrap_or(u32::MAX)
    }

    /// Lets an event happen. `served` is told each exchange with the store.
    pub(crate) fn happen(
        &mut self,
        event: Event,
        rules: Rules,
        served: &mut dyn FnMut(Exchange<'_>),
    ) {
        self.faults -= u32::from(event.is_fault());
        match event {
            Event::Ask(who, is_spent) => {
                if is_spent {
                    self.spend(who);
                }
                self.ask(who);
            }
            Event::Serve(request, is_spent) => {
                let message = self.net.remove(request);
                if is_spent {
                    self.spend(message.who);
                }
                self.serve(&message, rules, served, true);
            }
            Event::Repeat(request) => {
                let message = self.net.remove(request);
                self.serve(&message, rules, served, true);
                self.serve(&message, rules, served, true);
            }
            Event::Overtake(request) => {
                // Until the next report the server takes back what calls have used.
                self.allowed += LEASE;
                let message = self.net.remove(request);
                self.serve(&message, rules, served, true);
            }
            Event::LoseRequest(request) => drop(self.net.remove(request)),
            Event::LoseReply(request) => {
                let message = self.net.remove(request);
                self.serve(&message, rules, served, false);
            }
            Event::Tick => self.tick(),
            Event::Die(who) => self.members[who].life = Life::Gone,
            Event::Stop(who) => self.members[who].life = Life::Stopped,
            Event::Continue(who) => self.members[who].life = Life::Runs,
            Event::Leave(who) => self.leave(who),
            Event::GoAway => self.is_away = true,
            Event::ComeBack => self.is_away = false,
            Event::Restart => self.lose(Account::default()),
            Event::FailOver => self.lose(self.copies[0].clone()),
            Event::StepBack => self.clock -= STEP,
            Event::StepForward => {
                self.clock += STEP;
                // The account is full, and all leases end.
                let held = i64::try_from(self.store.held()).unwrap_or(i64::MAX);
                self.allowed += BURST + held;
            }
        }
    }

    fn ask(&mut self, who: usize) {
        let members = self.count();
        let member = &mut self.members[who];
        let waiting = waiting(member.balance);
        member.lease.observe(member.balance, waiting, self.now);
        let (ask, surplus) = member.lease.ask(member.balance, waiting, members, self.now);
        member.balance -= surplus;
        member.pending = Some(ask);
        let delta = ask.spent - std::mem::replace(&mut member.reported, ask.spent);
        self.net.push(Message { who, ask, ttl: TTL, delta });
    }

    fn leave(&mut self, who: usize) {
        let member = &mut self.members[who];
        let ask = member.lease.leave(member.balance);
        member.life = Life::Gone;
        let delta = ask.spent - std::mem::replace(&mut member.reported, ask.spent);
        self.net.push(Message { who, ask, ttl: Duration::ZERO, delta });
    }

    /// Another server goes on with an older state, or with none.
    fn lose(&mut self, state: Account) {
        // Until the members report, what they were granted in the last second may be granted again,
        // and a lease that is known may end too early.
        let before = &self.copies[0].records;
        let granted = |(name, record): (&String, &Record)| {
            (record.granted - before.get(name).map_or(0, |before| before.granted)).max(0)
        };
        let granted: i128 = self.store.records.iter().map(granted).sum();
        let known = self.store.held().max(state.held());
        self.allowed += i64::try_from(granted + known).unwrap_or(i64::MAX);
        self.store = state;
        self.copies = [self.store.clone(), self.store.clone()];
    }

    /// The server runs the script. The answer arrives at once, or never.
    fn serve(
        &mut self,
        message: &Message,
        rules: Rules,
        served: &mut dyn FnMut(Exchange<'_>),
        arrives: bool,
    ) {
        if self.is_away {
            return;
        }
        let Message { who, mut ask, ttl, delta } = *message;
        let mut micros = self.now.as_micros().cast_signed() + self.clock;
        let mut shift = 0;
        match rules {
            Rules::Right => {}
            Rules::Deltas => {
                let known = self.store.records.get(NAMES[who]);
                let known = known.and_then(|record| i64::try_from(record.spent).ok());
                let spent = known.unwrap_or(ask.base) + delta;
                shift = ask.spent - spent;
                ask.spent = spent;
            }
            Rules::LocalClocks => micros += 10_000_000 * i128::try_from(who).unwrap_or(0),
            Rules::GrantsFirst => ask.away = 0,
        }
        let scale = scale();
        let request = ask.request(NAMES[who], &scale, ttl, 1);
        let mut reply = self.store.step(micros, &request);
        served(Exchange { now: micros, request, reply, store: &self.store });
        reply.granted += shift;
        let member = &mut self.members[who];
        let is_awaited = member.pending.as_ref() == Some(&message.ask);
        if arrives && is_awaited && member.life == Life::Runs {
            member.pending = None;
            member.balance += member.lease.answered(&message.ask, &reply, self.now);
            member.ends_at = member.lease.ends_at();
        }
    }

    fn tick(&mut self) {
        if self.is_away {
            self.net.clear();
        }
        // What is still on its way is late, and a fault.
        self.faults -= u32::try_from(self.net.len()).unwrap_or(u32::MAX).min(self.faults);
        let failed_at = self.now + TIMEOUT;
        self.now += TICK;
        let members = self.count();
        for member in &mut self.members {
            if member.life != Life::Runs {
                continue;
            }
            if member.pending.take().is_some() {
                member.lease.mode.failed(failed_at, Duration::ZERO);
            }
            member.lease.observe(member.balance, waiting(member.balance), self.now);
            if member.lease.mode.is_safe() {
                let share = 1.0 / f64::from(members);
                let waiting = waiting(member.balance);
                let change = member.lease.share(member.balance, waiting, share, members, self.now);
                member.balance += change;
                member.ends_at = self.now + TTL;
                self.own += change.max(0);
                if member.balance > 0 {
                    self.used += std::mem::take(&mut member.balance);
                }
            }
        }
        self.copies.swap(0, 1);
        self.copies[1] = self.store.clone();
    }
}

impl Member {
    fn is_usable(&self, now: Duration) -> bool {
        now < self.ends_at
    }
}

impl PartialEq for World {
    fn eq(&self, other: &Self) -> bool {
        format!("{self:?}") == format!("{other:?}")
    }
}

/// Two worlds are the same if their descriptions are: a lease has numbers that have no hash.
impl Hash for World {
    fn hash<H: Hasher>(&self, state: &mut H) {
        struct Into<'a, H>(&'a mut H);
        impl<H: Hasher> std::fmt::Write for Into<'_, H> {
            fn write_str(&mut self, text: &str) -> std::fmt::Result {
                self.0.write(text.as_bytes());
                Ok(())
            }
        }
        // The writer never fails.
        let _ = write!(Into(state), "{self:?}");
    }
}
