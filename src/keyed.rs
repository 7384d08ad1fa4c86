//! One breaker, budget or cooldown for each host, key or model.
//!
//! What is shared should be shared by the calls that stand or fall together: one breaker for all hosts lets one sick
//! host stop the healthy ones, and one budget for all tenants lets one of them spend it. [`Keyed`] keeps one for each,
//! made on first use, and forgets those that nobody uses, as keys come from outside and never end.
//!
//! To forget is to start afresh: the next breaker is closed, the next budget full. So choose keys from what you
//! configure or resolve (hosts, models, regions) and not from what a stranger may name at will, who could push others'
//! entries out; and keep the idle time well above the longest hold or open period. Where the keys are few and known, a
//! `static` for each is simpler and faster.

use std::borrow::Borrow;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::time::{DEFAULT_TIMER, DefaultTimer, Timer};

/// Values by key, made on first use, bounded in number, dropped when idle.
///
/// A value is in use while anybody holds the `Arc` that [`get`](Self::get) gave out; one in use is never dropped, so
/// two calls that overlap always share. Where the table is full, the one that was not used for longest gives way to a
/// new one. Where all are in use the table grows past its capacity: it then holds no more than its callers do anyway,
/// and to refuse a call, or to give it a value that it shares with nobody, would be worse; the one fails what could be
/// done, the other silently takes the protection away.
///
/// There is no background task: what is idle for too long is dropped by the next `get`, what is too many by the next
/// new key.
///
/// # Defaults
///
/// | setting | default | why |
/// |---|---|---|
/// | capacity | 1,024 | more hosts or models than one process talks to; with a breaker for each, 2.5 KiB for a key |
/// | idle | 15 min | well above the longest hold of a [`Cooldown`](crate::Cooldown) and above the usual minute for which a breaker opens, so that what is forgotten had nothing left to say |
///
/// # Cost
///
/// `get` takes a lock for a look-up by hash, reads the clock if there is an idle time, and allocates only for a key
/// that is new. A caller who makes many calls to one key keeps the `Arc`. A new key in a full table also passes over
/// the entries in use that are older than the one which gives way.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use resile::{Budget, Keyed, Never, RetryPolicy, Upstream, retry};
///
/// static HOSTS: Keyed<String, Upstream> = Keyed::new(|host| {
///     Upstream::named(host.as_str()).with_budget(Budget::new().with_capacity(10))
/// });
///
/// let host = HOSTS.get("api.example.com");
/// let outcome = retry(|_| async { Err::<(), _>("down") }, RetryPolicy::new(), Never).on(&host).await;
/// assert_eq!(outcome.unwrap_err().upstream(), Some("api.example.com"));
///
/// let left = |host| HOSTS.get(host).budget().map(Budget::available);
/// assert_eq!((left("api.example.com"), left("example.org")), (Some(8), Some(10)));
/// # }
/// ```
#[must_use = "it does nothing unless calls share it"]
pub struct Keyed<K, T, F = fn(&K) -> T, M = DefaultTimer> {
    make: F,
    capacity: usize,
    idle: Option<Duration>,
    table: Mutex<Option<Table<K, T>>>,
    timer: M,
}

/// Invariant: `order` has the key of each slot under the slot's turn, and nothing else. Turns grow with time, so its
/// first is the one that was not used for longest.
struct Table<K, T> {
    slots: HashMap<K, Slot<T>>,
    order: BTreeMap<u64, K>,
    next: u64,
}

struct Slot<T> {
    value: Arc<T>,
    turn: u64,
    used: Duration,
}

impl<K, T> Keyed<K, T> {
    /// Empty; `make` makes the value for a key, and captures nothing.
    pub const fn new(make: fn(&K) -> T) -> Self {
        Self::from_fn(make)
    }
}

impl<K, T, F> Keyed<K, T, F> {
    /// Empty; `make`, which may capture, makes the value for a key.
    pub const fn from_fn(make: F) -> Self
    where
        F: Fn(&K) -> T,
    {
        let idle = Some(Duration::from_secs(15 * 60));
        Self { make, capacity: 1024, idle, table: Mutex::new(None), timer: DEFAULT_TIMER }
    }
}

/// Settings: before it is shared.
impl<K, T, F, M> Keyed<K, T, F, M> {
    /// The most values that are kept while they are not in use.
    pub const fn with_capacity(mut self, values: usize) -> Self {
        self.capacity = values;
        self
    }

    /// How long a value is kept that nobody uses, counted from the last [`get`](Self::get) of it; a get of any key
    /// that finds it in use after that counts as its use too.
    pub const fn with_idle(mut self, limit: Duration) -> Self {
        self.idle = Some(limit);
        self
    }

    /// A value is kept until it must give way to another.
    pub const fn without_idle(mut self) -> Self {
        self.idle = None;
        self
    }

    /// Time is `timer`'s. For an empty one: the times of what is in it would be another's.
    pub fn with_timer<N: Timer>(self, timer: N) -> Keyed<K, T, F, N> {
        let Self { make, capacity, idle, .. } = self;
        Keyed { make, capacity, idle, table: Mutex::new(None), timer }
    }

    /// The most values that are kept while they are not in use.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.capacity
    }

    /// How long a value is kept that nobody uses.
    #[must_use]
    pub const fn idle(&self) -> Option<Duration> {
        self.idle
    }

    /// How many values it holds, those that are due to be dropped included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().as_ref().map_or(0, |table| table.slots.len())
    }

    /// Whether it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> MutexGuard<'_, Option<Table<K, T>>> {
        // A key that panics in its `Hash` or `Eq` does so before anything is changed.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K, T, F, M> Keyed<K, T, F, M>
where
    K: Hash + Eq,
    F: Fn(&K) -> T,
    M: Timer,
{
    /// The value for `key`, made if there is none.
    ///
    /// Callers that ask for a new key at one time may each have one made; all get the same, and the others are dropped.
    /// No lock is held while it is made, used or dropped.
    pub fn get<Q>(&self, key: &Q) -> Arc<T>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let now = self.idle.map_or(Duration::ZERO, |_| self.timer.now());
        // Declared before any lock is taken, so dropped after it: keys and values are foreign.
        let mut due = Vec::new();
        if let Some(value) = self.look_up(key, now, &mut due) {
            return value;
        }
        let keys = (key.to_owned(), key.to_owned());
        let made = Arc::new((self.make)(&keys.0));
        let mut table = self.lock();
        let table = table.get_or_insert_with(Table::new);
        // Somebody may have been faster.
        if let Some(value) = table.touch(key, now) {
            return value;
        }
        table.make_room(self.capacity, now, &mut due);
        table.insert(keys, Arc::clone(&made), now);
        made
    }

    fn look_up<Q>(&self, key: &Q, now: Duration, due: &mut Vec<Dropped<K, T>>) -> Option<Arc<T>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let mut table = self.lock();
        let table = table.as_mut()?;
        let found = table.touch(key, now);
        if let Some(idle) = self.idle {
            table.drop_idle(now, idle, due);
        }
        found
    }
}

/// What was taken out of the table.
type Dropped<K, T> = (K, Option<(K, Slot<T>)>);

impl<K: Hash + Eq, T> Table<K, T> {
    fn new() -> Self {
        Self { slots: HashMap::new(), order: BTreeMap::new(), next: 0 }
    }

    /// The value for `key`, which is used now.
    fn touch<Q>(&mut self, key: &Q, now: Duration) -> Option<Arc<T>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let slot = self.slots.get_mut(key)?;
        slot.used = now;
        // The last one stays where it is: a lone key costs a look-up and no more.
        if slot.turn.wrapping_add(1) != self.next {
            if let Some(key) = self.order.remove(&slot.turn) {
                slot.turn = self.next;
                self.order.insert(self.next, key);
                self.next = self.next.wrapping_add(1);
            }
        }
        Some(Arc::clone(&slot.value))
    }

    fn insert(&mut self, (key, again): (K, K), value: Arc<T>, now: Duration) {
        self.order.insert(self.next, key);
        self.slots.insert(again, Slot { value, turn: self.next, used: now });
        self.next = self.next.wrapping_add(1);
    }

    /// Drops what nobody has used for `idle`.
    fn drop_idle(&mut self, now: Duration, idle: Duration, due: &mut Vec<Dropped<K, T>>) {
        // Bounded, as those in use go to the end.
        for _ in 0..self.order.len() {
            let oldest = self.order.first_key_value().and_then(|(_, key)| self.slots.get(key));
            if oldest.is_some_and(|slot| now.saturating_sub(slot.used) < idle) {
                return;
            }
            self.pass_oldest(now, due);
        }
    }

    /// Drops those that were not used for longest, until one more fits or the rest is in use.
    fn make_room(&mut self, capacity: usize, now: Duration, due: &mut Vec<Dropped<K, T>>) {
        for _ in 0..self.order.len() {
            if self.order.len() < capacity {
                return;
            }
            self.pass_oldest(now, due);
        }
    }

    /// Drops the oldest, or moves it to the end if it is in use.
    fn pass_oldest(&mut self, now: Duration, due: &mut Vec<Dropped<K, T>>) {
        let Some((_, key)) = self.order.pop_first() else { return };
        match self.slots.get_mut(&key) {
            // Another than the table's own: nobody can come to one while we have the lock.
            Some(slot) if Arc::strong_count(&slot.value) > 1 => {
                (slot.turn, slot.used) = (self.next, now);
                self.order.insert(self.next, key);
                self.next = self.next.wrapping_add(1);
            }
            _ => {
                let slot = self.slots.remove_entry(&key);
                due.push((key, slot));
            }
        }
    }
}

impl<K, T, F, M> fmt::Debug for Keyed<K, T, F, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyed")
            .field("len", &self.len())
            .field("capacity", &self.capacity)
            .field("idle", &self.idle)
            .finish_non_exhaustive()
    }
}
