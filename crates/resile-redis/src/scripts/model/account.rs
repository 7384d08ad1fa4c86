use std::collections::BTreeMap;
use std::time::Duration;

use super::super::{LeaseReply, LeaseRequest};
use super::{MOST_UNITS, Model, SECOND, Stored, Time, ceil, duration, id, micros};

const MOST_PARTS: i128 = 1 << 52;
/// The leases after which a silent member is forgotten.
const REMEMBERED: i128 = 30;
/// The time for which an account counts as one that lacks units, in microseconds.
const LACK: i128 = 200_000;

/// The record of a member on an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) granted: i128,
    pub(crate) spent: i128,
    pub(crate) expiry: i128,
}

impl Record {
    pub(crate) fn held(self) -> i128 {
        self.granted - self.spent
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) id: String,
    pub(crate) amount: i128,
    pub(crate) expiry: i128,
}

/// The account behind `lease.lua`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) known: bool,
    pub(crate) lacked_at: Option<i128>,
    pub(crate) level: i128,
    pub(crate) time: Time,
    pub(crate) scale: i128,
    pub(crate) birth: i128,
    pub(crate) origin: i128,
    pub(crate) swept: i128,
    pub(crate) claim: Option<Claim>,
    pub(crate) records: BTreeMap<String, Record>,
    life: i128,
}

impl Account {
    /// Returns the units that all members hold.
    pub(crate) fn held(&self) -> i128 {
        self.records.values().map(|record| record.held()).sum()
    }

    /// Brings the level to the present, in the scale of the request. `before` is the time of the last
    /// exchange.
    fn refill(&mut self, before: i128, capacity: i128, request: &LeaseRequest<'_>) {
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
            return;
        }
        if self.scale != scale {
            for parts in [&mut self.level, &mut self.origin] {
                *parts = bound(parts.div_euclid(self.scale) * scale);
            }
            self.scale = scale;
        }
        self.level = bound(bound(self.level) + (now - before) * rate);
        if self.lacked_at.is_none_or(|at| now - at > LACK) {
            self.level = self.level.min(i128::from(request.calm).clamp(0, capacity));
        }
        let is_young = now - self.birth < ttl;
        let is_known = self.records.contains_key(request.id);
        if let Some(memory) = memory.filter(|_| is_young && !is_known) {
            self.level = bound(self.level - (self.origin - memory).max(0));
            self.origin = self.origin.min(memory);
        }
    }

    fn sweep(&mut self, now: i128, ttl: i128, capacity: i128) {
        if 2 * (now - self.swept) < ttl {
            return;
        }
        self.swept = now;
        let gone = self.records.values_mut().filter(|record| record.expiry <= now);
        let back: i128 = gone
            .map(|record| {
                let held = record.held();
                record.granted = record.spent;
                held
            })
            .sum();
        self.level = (self.level + back * self.scale).min(capacity);
        self.records.retain(|_, record| record.expiry + REMEMBERED * ttl > now);
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

        self.refill(before, capacity, request);
        self.sweep(now, ttl, capacity);

        let scale = self.scale;
        let room = capacity / scale;
        let record = self.records.get(request.id).copied();
        let granted = record.map_or(base, |record| record.granted);
        let debt = (spent - granted).max(0);
        let own = i128::from(request.own).clamp(0, MOST_UNITS).min(debt);
        self.level = (self.level - (debt - own) * scale).max(-capacity);
        self.level = (self.level - own * scale).max(self.level.min(0));
        let mut held = (granted - spent).max(0);
        if let Some(told) = request.told {
            let told = i128::from(told).min(MOST_UNITS) * scale;
            self.level = self.level.min(told.min(capacity));
        }

        let claim = self.claim.take().filter(|claim| claim.expiry > now);
        let (is_own, other) = match claim {
            Some(claim) if claim.id == request.id => (true, None),
            other => (false, other),
        };
        let reserved = other.as_ref().map_or(0, |claim| claim.amount.clamp(0, room));
        let need = least.min(want);
        let free = (self.level.div_euclid(scale) - reserved).max(0);
        let change = if held > want {
            want - held
        } else if held + free >= need {
            free.min(want - held)
        } else {
            0
        };
        held += change;
        self.level = (self.level - change * scale).min(capacity);
        self.claim = other;
        if held < need && need - held <= room && (is_own || self.claim.is_none()) {
            let id = request.id.to_owned();
            self.claim = Some(Claim { id, amount: need - held, expiry: now + ttl });
        }

        let goal = if least == 0 { want } else { need };
        let missing = (goal - held).max(0);
        if missing > 0 {
            self.lacked_at = Some(now);
        }
        let until_fit = if missing == 0 {
            Some(Duration::ZERO)
        } else if rate == 0 || missing > room {
            None
        } else {
            let parts = (missing + reserved) * scale - self.level;
            Some(duration(ceil(parts.min(1 << 53), rate)))
        };

        if ttl == 0 {
            self.records.remove(request.id);
        } else {
            let record = Record { granted: spent + held, spent, expiry: now + ttl };
            self.records.insert(request.id.to_owned(), record);
        }
        let life = match rate {
            0 => 3_600 * SECOND,
            _ => ceil(capacity + (-self.level).max(0), rate).max(60 * SECOND),
        };
        self.life = ceil(life.max(10 * ttl).min(30 * 86_400 * SECOND), 1_000);
        LeaseReply {
            granted: (spent + held).try_into().unwrap(),
            level: self.level.div_euclid(scale).try_into().unwrap(),
            wait: until_fit,
            is_new: record.is_none(),
            stepped,
        }
    }

    fn stored(&self) -> Stored {
        let mut stored = Stored::new();
        if !self.known {
            return stored;
        }
        let Self { level, time: Time { now, offset }, scale, birth, origin, swept, .. } = self;
        let (names, values) = ("ltsbowd", [level, now, scale, birth, origin, swept, offset]);
        for (name, value) in names.chars().zip(values) {
            stored.insert(name.to_string(), value.to_string());
        }
        if let Some(at) = self.lacked_at {
            stored.insert("u".to_owned(), at.to_string());
        }
        if let Some(Claim { id, amount, expiry }) = &self.claim {
            stored.insert("c".to_owned(), format!("{id} {amount} {expiry}"));
        }
        for (name, Record { granted, spent, expiry }) in &self.records {
            stored.insert(id(name), format!("{granted} {spent} {expiry}"));
        }
        stored
    }

    fn life(&self) -> i128 {
        self.life
    }
}
