//! A store in the memory of one process: all that the hooks of an upstream need.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use resile::cooldown::Hold;
use resile::upstream::Resource;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::learned::Learned;

/// The time after which the units of a silent member come back.
pub(super) const TTL: Duration = Duration::from_secs(1);

/// The accounts and the hold of one fleet.
#[derive(Default)]
pub(super) struct Store {
    accounts: Mutex<HashMap<Resource, Account>>,
    hold: Mutex<Option<Held>>,
    pub(super) learned: Learned,
    /// Wakes all members when a hold begins or becomes longer.
    pub(super) news: Notify,
    pub(super) is_silent: AtomicBool,
}

/// One limit. Parts are billionths of a unit, so the refill of a nanosecond is whole.
struct Account {
    level: i128,
    capacity: i128,
    /// The limit in use, and the configured one.
    per_second: i128,
    most: i128,
    at: Instant,
    leases: HashMap<u32, Lease>,
}

/// What a member was ever granted, and what it ever spent. Both sums only grow by the acts of one
/// side, so a lost or repeated exchange does no harm.
struct Lease {
    granted: i64,
    spent: i64,
    ends: Instant,
}

#[derive(Clone, Copy)]
struct Held {
    began: Instant,
    ends: Instant,
    hint: Duration,
}

const PARTS: i128 = 1_000_000_000;

impl Store {
    /// Opens an account, full. The first member does.
    pub(super) fn open(&self, resource: Resource, burst: i64, per_second: u32) {
        let capacity = i128::from(burst) * PARTS;
        let (per_second, at, leases) = (i128::from(per_second), Instant::now(), HashMap::new());
        let most = per_second;
        let account = Account { level: capacity, capacity, per_second, most, at, leases };
        self.accounts.lock().unwrap().entry(resource).or_insert(account);
    }

    /// Sets the share of the configured limit that refills.
    #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "a share")]
    pub(super) fn scale(&self, resource: Resource, share: f64) {
        if let Some(account) = self.accounts.lock().unwrap().get_mut(&resource) {
            account.pass(Instant::now());
            account.per_second = (account.most as f64 * share) as i128;
        }
    }

    /// Exchanges the sum of all units that a member ever spent for the sum that it was ever granted.
    /// `None` while the store is silent.
    pub(super) fn exchange(
        &self,
        member: u32,
        resource: Resource,
        spent: i64,
        want: i64,
    ) -> Option<i64> {
        if self.is_silent.load(Ordering::Relaxed) {
            return None;
        }
        let now = Instant::now();
        let mut accounts = self.accounts.lock().unwrap();
        let account = accounts.get_mut(&resource)?;
        account.pass(now);
        let new = Lease { granted: spent, spent, ends: now };
        let lease = account.leases.entry(member).or_insert(new);
        // A member that spent more than its lease owes the rest to the account.
        let owed = (spent - lease.granted).max(0);
        let held = lease.granted + owed - spent;
        let free = (account.level / PARTS).max(0);
        let change = (want - held).min(i64::try_from(free).unwrap());
        lease.granted += owed + change;
        (lease.spent, lease.ends) = (spent, now + TTL);
        account.level -= i128::from(owed + change) * PARTS;
        account.level = account.level.min(account.capacity);
        Some(lease.granted)
    }

    /// Merges a hold into that of the fleet, which never becomes shorter. Returns the result.
    pub(super) fn merge(&self, hold: Option<Hold>) -> Option<Hold> {
        let now = Instant::now();
        let mut kept = self.hold.lock().unwrap();
        *kept = kept.filter(|kept| kept.ends > now);
        if let Some(hold) = hold {
            let began = now.checked_sub(hold.elapsed).unwrap_or(now);
            let new = Held { began, ends: now + hold.remaining, hint: hold.hint };
            let before = kept.unwrap_or(new);
            if kept.is_none() || new.ends > before.ends {
                self.news.notify_waiters();
            }
            *kept = Some(Held {
                began: before.began.min(new.began),
                ends: before.ends.max(new.ends),
                hint: before.hint.max(new.hint),
            });
        }
        kept.map(|Held { began, ends, hint }| Hold {
            elapsed: now - began,
            remaining: ends - now,
            hint,
        })
    }

    /// Returns the sum of all units that the members ever spent, as they told.
    pub(super) fn spent(&self, resource: Resource) -> i64 {
        let accounts = self.accounts.lock().unwrap();
        accounts[&resource].leases.values().map(|lease| lease.spent).sum()
    }
}

impl Account {
    /// Lets the time pass: the limit refills, and the units of silent members come back.
    fn pass(&mut self, now: Instant) {
        let nanos = i128::try_from((now - self.at).as_nanos()).unwrap();
        self.at = now;
        for lease in self.leases.values_mut().filter(|lease| lease.ends <= now) {
            self.level += i128::from(lease.granted - lease.spent) * PARTS;
            lease.granted = lease.spent;
        }
        self.level = (self.level + nanos * self.per_second).min(self.capacity);
    }
}
