use super::super::{LeaseReply, LeaseRequest};
use super::rivals::{Place, Record, Rivals};
use super::{MOST_PARTS, MOST_UNITS, Model, SECOND, Stored, Time, ceil, duration, id, micros};
use std::collections::BTreeMap;
use std::mem;

/// The leases after which a silent member is forgotten.
const REMEMBERED: i128 = 30;

/// The most that the sum of held units counts.
const MOST_HELD: i128 = 1 << 53;

/// The return of the members after an outage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Return {
    since: i128,
    /// The members, and those that have reported.
    fleet: i128,
    back: i128,
    /// The parts that are withheld for each member that has not reported.
    each: i128,
    till: i128,
}

/// The refill since the last exchange, in parts.
struct Refill {
    /// What the account saved, if nobody has exchanged for a while.
    saved: Option<i128>,
    arrived: i128,
    /// The part of what arrived that had no room.
    lost: i128,
}

impl Return {
    /// Withholds the part of each member of what arrived. Those that have not reported have used what was lost,
    /// so it is withheld no more.
    fn arrive(&mut self, arrived: i128, lost: i128) {
        self.each = (self.each + ceil(arrived, self.fleet)).min(MOST_PARTS);
        if self.back < self.fleet {
            self.each = (self.each - lost / (self.fleet - self.back)).max(0);
        }
    }

    /// Returns the parts that are withheld for the members that have not reported.
    const fn withheld(&self) -> i128 {
        self.each * (self.fleet - self.back)
    }
}

/// The account behind `lease.lua`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) known: bool,
    pub(crate) scarce_until: i128,
    pub(crate) top: i128,
    pub(crate) returning: Option<Return>,
    pub(crate) level: i128,
    /// The units that all members hold, up to 2^53.
    pub(crate) held: i128,
    pub(crate) time: Time,
    pub(crate) scale: i128,
    pub(crate) birth: i128,
    pub(crate) origin: i128,
    /// The end of a pause in which nothing arrives.
    pub(crate) resumes: i128,
    pub(crate) swept: i128,
    pub(crate) records: BTreeMap<String, Record>,
    life: i128,
}

impl Account {
    /// Returns the units that all members hold, with those of members that may return.
    pub(crate) fn held(&self) -> i128 {
        self.records.values().map(|record| record.held()).sum()
    }

    /// Brings the level to the present, in the scale of the request. `before` is the time of the
    /// last exchange.
    fn refill(&mut self, before: i128, capacity: i128, request: &LeaseRequest<'_>) -> Refill {
        let rate = i128::from(request.rate).clamp(0, MOST_PARTS);
        let scale = i128::from(request.scale).clamp(1, MOST_PARTS);
        let (ttl, now) = (micros(request.ttl), self.time.now);
        let bound = |level: i128| level.clamp(-capacity, capacity);
        let memory = request
            .memory
            .map(|units| bound(i128::from(units).clamp(-MOST_UNITS, MOST_UNITS) * scale));
        if !self.known {
            *self = Self {
                known: true,
                level: memory.unwrap_or(capacity),
                origin: memory.unwrap_or(capacity),
                time: self.time,
                birth: now,
                swept: now,
                scale,
                ..Self::default()
            };
            self.origin = self.level;
            return Refill { saved: Some(self.level.max(0)), arrived: 0, lost: 0 };
        }
        if self.scale != scale {
            for parts in [&mut self.level, &mut self.origin] {
                *parts = bound(parts.div_euclid(self.scale) * scale);
            }
            self.scale = scale;
        }
        let had = bound(self.level);
        let refill = (now - before.max(self.resumes)).max(0) * rate;
        self.level = bound(had + refill);
        let saved = (now - before >= ttl / 10).then_some(self.level - had);
        let arrived = refill.min(MOST_HELD);
        let lost = (arrived - (capacity - had)).max(0);
        let is_young = now - self.birth < ttl;
        let is_known = self.records.contains_key(request.id);
        if let Some(memory) = memory.filter(|_| is_young && !is_known) {
            self.level = bound(self.level - (self.origin - memory).max(0));
            self.origin = self.origin.min(memory);
        }
        Refill { saved, arrived, lost }
    }

    /// Takes from the level what an account and its members do not keep while no member lacks units: both
    /// together have at most the burst. Without a refill they never have more.
    fn calm(&mut self, request: &LeaseRequest<'_>, capacity: i128) {
        if self.time.now > self.scarce_until || request.rate <= 0 {
            let calm = i128::from(request.calm).clamp(0, capacity);
            self.level = self.level.min((calm - self.held * self.scale).max(0));
        }
    }

    /// Returns the units that a member holds after deposits, on an account without a refill: no more than
    /// the others leave, but at least its floor. `before` are those of its last exchange.
    fn deposited(
        &self,
        held: i128,
        before: i128,
        request: &LeaseRequest<'_>,
        capacity: i128,
    ) -> i128 {
        let others = (self.held - before).max(0);
        let room = i128::from(request.calm).clamp(0, capacity).div_euclid(self.scale);
        let floor = i128::from(request.floor).clamp(0, MOST_UNITS);
        held.min(floor.max(before).max(room - others))
    }

    /// Begins, goes on with or ends the return of the members. Returns the parts that are withheld, and the most
    /// that the account pays for the own units of this member.
    /// `cut` are those that a calm account does not keep.
    fn take_back(
        &mut self,
        refill: &Refill,
        cut: i128,
        request: &LeaseRequest<'_>,
    ) -> (i128, i128) {
        let (now, ttl) = (self.time.now, micros(request.ttl));
        let away = i128::from(request.away).min(1 << 20);
        self.returning = self.returning.filter(|returning| returning.till > now);
        let record = self.records.get(request.id);
        if let Some(returning) = &mut self.returning {
            returning.arrive(refill.arrived, (refill.lost + cut).min(MOST_HELD));
        }
        if let Some(saved) = refill.saved.filter(|_| self.returning.is_none() && away > 1) {
            let (each, till) = (saved.div_euclid(away), now + ttl);
            let mut returning = Return { since: now, fleet: away, back: 0, each, till };
            returning.arrive(0, cut);
            self.returning = Some(returning);
        }
        let Some(returning) = &mut self.returning else { return (0, i128::MAX) };
        let mut charged = i128::MAX;
        if record.map_or(away > 0, |record| record.expiry < returning.since + ttl) {
            returning.back = (returning.back + 1).min(returning.fleet);
            charged = returning.each;
        }
        (returning.withheld(), charged)
    }

    /// Ends the leases of the members that are gone. What arrives within a ttl counts as spent.
    fn sweep(&mut self, now: i128, ttl: i128, capacity: i128, rate: i128) {
        if ttl == 0 || 2 * (now - self.swept) < ttl {
            return;
        }
        self.swept = now;
        let lost = (ttl * rate).min(1 << 53).div_euclid(self.scale);
        let waiting = self.records.values().filter(|record| record.waits(now));
        let lowest = waiting.map(|record| record.tag).chain([self.top]).min().unwrap();
        self.top -= lowest;
        let gone = self.records.values_mut().filter(|record| record.expiry <= now);
        let back: i128 = gone
            .map(|record| {
                let back = (record.held() - lost).max(0);
                record.granted -= back;
                back
            })
            .sum();
        self.level = (self.level + back * self.scale).min(capacity);
        self.records.retain(|_, record| record.expiry + REMEMBERED * ttl > now);
        for record in self.records.values_mut() {
            record.tag = (record.tag - lowest).max(0);
        }
        let held = self.records.values().filter(|record| record.expiry > now);
        self.held = held.map(|record| record.held()).sum::<i128>().min(MOST_HELD);
    }

    /// Returns the units that the sum of all has for a member, and those that it holds. After a sweep has
    /// ended its lease the account has what it did not spend.
    fn hold(
        &mut self,
        held: i128,
        record: Option<Record>,
        rate: i128,
        capacity: i128,
    ) -> (i128, i128) {
        match record {
            Some(record) if record.expiry > self.swept => (record.held(), held),
            Some(_) if rate > 0 => {
                self.level = (self.level + held * self.scale).min(capacity);
                (0, 0)
            }
            _ => (0, held),
        }
    }

    /// Lowers the level to the one that the provider has reported. During the hold after a refusal nothing arrives,
    /// and what the other members hold is of that level. `before` are the units of this member.
    fn lower(&mut self, before: i128, request: &LeaseRequest<'_>, capacity: i128) {
        let Some(told) = request.told else { return };
        let pause = micros(request.pause);
        let is_paused = pause > 0 && request.rate > 0;
        let others = if is_paused { (self.held - before).clamp(0, MOST_UNITS) } else { 0 };
        let told = (i128::from(told).min(MOST_UNITS) - others) * self.scale;
        self.level = self.level.min(told.clamp(-capacity, capacity));
        self.resumes = self.resumes.max(self.time.now + pause);
    }

    /// Returns the time for which the account is kept without a request, in milliseconds.
    fn life_after(&self, rate: i128, capacity: i128, ttl: i128) -> i128 {
        let pause = (self.resumes - self.time.now).max(0);
        let life = match rate {
            0 => 3_600 * SECOND,
            _ => (ceil(capacity + (-self.level).max(0), rate) + pause).max(60 * SECOND),
        };
        ceil(life.max(10 * ttl).min(30 * 86_400 * SECOND), 1_000)
    }
}

impl Model<LeaseRequest<'_>> for Account {
    fn step(&mut self, now: i128, request: &LeaseRequest<'_>) -> LeaseReply {
        let before = self.time.now;
        let stepped = duration(self.time.follow(now));
        let now = self.time.now;
        let capacity = i128::from(request.capacity).clamp(0, MOST_PARTS);
        let rate = i128::from(request.rate).clamp(0, MOST_PARTS);
        let ttl = micros(request.ttl);
        let [base, spent] =
            [request.base, request.spent].map(|n| i128::from(n).clamp(-MOST_UNITS, MOST_UNITS));
        let [least, want] =
            [request.least, request.want].map(|n| i128::from(n).clamp(0, MOST_UNITS));
        let want = if ttl == 0 { 0 } else { want };

        let refill = self.refill(before, capacity, request);
        self.sweep(now, ttl, capacity, rate);
        let uncalmed = self.level;
        self.calm(request, capacity);
        let (withheld, charged) = self.take_back(&refill, uncalmed - self.level, request);

        let scale = self.scale;
        let room = capacity / scale;
        let record = self.records.get(request.id).copied();
        let granted = record.map_or(base, |record| record.granted);
        let debt = (spent - granted).max(0);
        let own = i128::from(request.own).clamp(0, MOST_UNITS).min(debt);
        self.level = (self.level - (debt - own) * scale).max(-capacity);
        self.level = (self.level - (own * scale).min(charged)).max(self.level.min(0));
        let (before, mut held) = self.hold((granted - spent).max(0), record, rate, capacity);
        if rate == 0 {
            held = self.deposited(held, before, request, capacity);
            let all = (self.held - before).clamp(0, MOST_HELD - held) + held;
            let all_before = mem::replace(&mut self.held, all);
            self.calm(request, capacity);
            self.held = all_before;
        }
        self.lower(before, request, capacity);

        let others = self.records.iter().filter(|(name, record)| {
            name.as_str() != request.id && record.waits(now) && now <= self.scarce_until
        });
        let rivals = Rivals(others.map(|(_, record)| *record).collect());
        let first = rivals.first();
        let (need, lack) = (least.min(want), want - held);
        let turn = need.max(1);
        let weight = i128::from(request.weight.clamp(1, 100));
        let step = ceil(turn.min(1 << 42) * 1_000, weight);
        let mut tag = record.map_or(0, |record| record.tag);
        if lack > 0 && record.is_none_or(|record| !record.waits(now)) {
            tag = tag.max(first.map_or(self.top, |first| first.tag + 1)).min(MOST_PARTS);
        }
        let pool = (self.level - withheld).div_euclid(scale).max(0);
        let change = if lack <= 0 {
            lack
        } else {
            let first_turn = if need > held { need - held } else { turn };
            let given = rivals.given(Place { lack, first_turn, turn, tag, step }, pool, room);
            if held + given >= need { given } else { 0 }
        };
        held += change;
        self.level = (self.level - change * scale).min(capacity);
        let turns = if change > 0 { ceil(change, turn) } else { -ceil(-change, turn) };
        tag = (tag + turns * step).clamp(0, MOST_PARTS);
        self.top = self.top.max(tag);
        self.held = (self.held - before).clamp(0, MOST_HELD - held) + held;
        self.calm(request, capacity);

        let goal = if least == 0 { want } else { need };
        let missing = (goal - held).max(0);
        let until_fit = if missing == 0 {
            Some(0)
        } else if rate == 0 || missing > room {
            None
        } else {
            let reserved = rivals.ahead_of(tag).min(room);
            let parts = (missing + reserved) * scale - self.level;
            let refill = ceil(parts.min(1 << 53), rate).max(0);
            Some(if refill > 0 { (refill + (self.resumes - now).max(0)).min(1 << 53) } else { 0 })
        };
        let expected = until_fit.unwrap_or(ttl / 2).min(ttl / 2);
        let till = now + expected + 3 * ttl / 20;
        let lack = want - held;
        if lack > 0 {
            self.scarce_until = self.scarce_until.max(till);
        }

        if ttl == 0 {
            self.records.remove(request.id);
        } else {
            let (granted, expiry) = (spent + held, now + ttl);
            let record = Record { granted, spent, expiry, lack, turn, tag, step, till };
            self.records.insert(request.id.to_owned(), record);
        }
        let calm = i128::from(request.calm).clamp(0, capacity);
        let room_left = (calm - self.level - self.held * scale).max(0).div_euclid(scale);
        self.life = self.life_after(rate, capacity, ttl);
        LeaseReply {
            granted: (spent + held).try_into().unwrap(),
            level: self.level.div_euclid(scale).try_into().unwrap(),
            wait: until_fit.map(duration),
            is_new: record.is_none(),
            stepped,
            room: room_left.try_into().unwrap(),
        }
    }

    fn stored(&self) -> Stored {
        let mut stored = Stored::new();
        if !self.known {
            return stored;
        }
        let Self { level, held, time: Time { now, offset }, scale, birth, origin, swept, .. } =
            self;
        let (names, values) = ("ltsbowd", [level, now, scale, birth, origin, swept, offset]);
        let (more, others) = ("uvhe", [&self.scarce_until, &self.top, held, &self.resumes]);
        let names = names.chars().chain(more.chars());
        for (name, value) in names.zip(values.into_iter().chain(others)) {
            stored.insert(name.to_string(), value.to_string());
        }
        if let Some(Return { since, fleet, back, each, till }) = self.returning {
            stored.insert("q".to_owned(), format!("{since} {fleet} {back} {each} {till}"));
        }
        let waiting = self.records.iter().filter(|(_, record)| record.lack > 0);
        let places: Vec<_> = waiting
            .map(|(name, Record { lack, turn, tag, step, till, .. })| {
                format!("{name} {lack} {turn} {tag} {step} {till}")
            })
            .collect();
        if !places.is_empty() {
            stored.insert("r".to_owned(), places.join(";"));
        }
        for (name, record) in &self.records {
            let Record { granted, spent, expiry, lack, turn, tag, step, till } = record;
            let text = format!("{granted} {spent} {expiry} {lack} {turn} {tag} {step} {till}");
            stored.insert(id(name), text);
        }
        stored
    }

    fn life(&self) -> i128 {
        self.life
    }
}
