//! One breaker, budget or cooldown for each host, key or model.

use std::borrow::Borrow;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::time::{DEFAULT_TIMER, DefaultTimer, Timer};

/// A table of values by key: made on first use, limited in number, dropped when idle.
///
/// The guide has a chapter on [load](crate::guide::load).
///
/// Calls should share a part only if they fail together. With one breaker for all hosts, one
/// failing host stops the healthy hosts, and a budget for all tenants can be spent by one tenant.
/// [`Keyed`] keeps one value for each key and makes it on first use. It drops unused values,
/// because you do not control how many keys arrive.
///
/// A forgotten value starts afresh: the next breaker is closed and the next budget is full. Choose
/// keys from your configuration or name resolution (hosts, models, regions). Do not use keys that a
/// stranger can choose freely, because a stranger could push the entries of others out. Keep the
/// idle time well above the longest hold or open time. For a few known keys a `static` for each is
/// simpler and faster.
///
/// A value is in use while a caller holds its `Arc` from [`get`](Self::get). A value in use is
/// never dropped, so overlapping calls always share it. In a full table, a new value replaces the
/// least recently used of the values not in use. If all values are in use, the table grows past its
/// capacity, but it then holds no more values than its callers do anyway. The alternatives are
/// worse: a refusal fails a possible call, and an unshared value silently removes the protection.
///
/// There is no background task. Instead the next `get` drops values that are idle for too long, and
/// the next new key drops values above the capacity.
///
/// # Defaults
///
/// | setting | default | why |
/// |---|---|---|
/// | capacity | 1,024 | more hosts or models than one process talks to; with a breaker for each, 2.5 KiB for a key |
/// | idle | 15 min | well above the longest hold of a [`Cooldown`](crate::Cooldown) and the usual open time of one minute, so that a forgotten value no longer has any effect |
///
/// # Cost
///
/// `get` takes a lock for a look-up by hash. It reads the clock only if there is an idle time and
/// allocates only for a new key. A caller with many calls to one key can keep the `Arc`. In a full
/// table a new key also passes over older entries in use.
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
/// let call = retry(|_| async { Err::<(), _>("down") }, RetryPolicy::new(), Never);
/// let error = call.on(&host).await.unwrap_err();
/// assert_eq!(error.upstream(), Some("api.example.com"));
///
/// let left = |host| HOSTS.get(host).budget().map(Budget::available);
/// assert_eq!(left("api.example.com"), Some(8));
/// assert_eq!(left("example.org"), Some(10));
/// # }
/// ```
#[must_use = "a table does nothing unless calls share it"]
pub struct Keyed<K, T, F = fn(&K) -> T, M = DefaultTimer> {
    make: F,
    capacity: usize,
    idle: Option<Duration>,
    table: Mutex<Option<Table<K, T>>>,
    timer: M,
}

/// Invariant: `order` has the key of each slot under the slot's turn, and no other entries. Turns
/// grow with time, so the first entry is the least recently used one.
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
    /// Creates an empty table. `make` makes the value for a key and captures nothing.
    pub const fn new(make: fn(&K) -> T) -> Self {
        Self::from_fn(make)
    }
}

impl<K, T, F> Keyed<K, T, F> {
    /// Creates an empty table. `make` makes the value for a key and may capture variables.
    pub const fn from_fn(make: F) -> Self
    where
        F: Fn(&K) -> T,
    {
        let idle = Some(Duration::from_secs(15 * 60));
        Self { make, capacity: 1024, idle, table: Mutex::new(None), timer: DEFAULT_TIMER }
    }
}

/// Settings for a table before it is shared.
impl<K, T, F, M> Keyed<K, T, F, M> {
    /// Sets the highest number of values kept while not in use.
    pub const fn with_capacity(mut self, values: usize) -> Self {
        self.capacity = values;
        self
    }

    /// Sets how long an unused value is kept after its last [`get`](Self::get). If the value is in
    /// use after this time, the next `get` of any key counts as a use.
    pub const fn with_idle(mut self, limit: Duration) -> Self {
        self.idle = Some(limit);
        self
    }

    /// Keeps each value until a new key replaces it.
    pub const fn without_idle(mut self) -> Self {
        self.idle = None;
        self
    }

    /// Sets the timer. This also empties the table, because its times come from the old timer.
    pub fn with_timer<N: Timer>(self, timer: N) -> Keyed<K, T, F, N> {
        let Self { make, capacity, idle, .. } = self;
        Keyed { make, capacity, idle, table: Mutex::new(None), timer }
    }

    /// Returns the highest number of values kept while not in use.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.capacity
    }

    /// Returns the time for which an unused value is kept.
    #[must_use]
    pub const fn idle(&self) -> Option<Duration> {
        self.idle
    }

    /// Returns the number of values, including those that are due to be dropped.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().as_ref().map_or(0, |table| table.slots.len())
    }

    /// Returns whether the table is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> MutexGuard<'_, Option<Table<K, T>>> {
        // A `Hash` or `Eq` that panics does so before any change: a poisoned table is whole.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K, T, F, M> Keyed<K, T, F, M>
where
    K: Hash + Eq,
    F: Fn(&K) -> T,
    M: Timer,
{
    /// Returns the value for `key`. Makes the value if there is none.
    ///
    /// Concurrent callers with the same new key may each make a value, but all of them get the same
    /// one and the others are dropped. No lock is held while a value is made, used or dropped.
    pub fn get<Q>(&self, key: &Q) -> Arc<T>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let now = self.idle.map_or(Duration::ZERO, |_| self.timer.now());
        // Declared before any lock and therefore dropped after it: keys and values are foreign
        // code.
        let mut due = Vec::new();
        if let Some(value) = self.look_up(key, now, &mut due) {
            return value;
        }
        let keys = (key.to_owned(), key.to_owned());
        let made = Arc::new((self.make)(&keys.0));
        let mut table = self.lock();
        let table = table.get_or_insert_with(Table::new);
        // Another caller may have been faster.
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

/// An entry taken out of the table.
type Dropped<K, T> = (K, Option<(K, Slot<T>)>);

impl<K: Hash + Eq, T> Table<K, T> {
    fn new() -> Self {
        Self { slots: HashMap::new(), order: BTreeMap::new(), next: 0 }
    }

    /// Returns the value for `key` and marks it as used now.
    fn touch<Q>(&mut self, key: &Q, now: Duration) -> Option<Arc<T>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let slot = self.slots.get_mut(key)?;
        slot.used = now;
        // The newest slot keeps its turn: a single key costs only a look-up.
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

    /// Drops the values that were unused for `idle`.
    fn drop_idle(&mut self, now: Duration, idle: Duration, due: &mut Vec<Dropped<K, T>>) {
        // Bounded, because values in use go to the end.
        for _ in 0..self.order.len() {
            let oldest = self.order.first_key_value().and_then(|(_, key)| self.slots.get(key));
            if oldest.is_some_and(|slot| now.saturating_sub(slot.used) < idle) {
                return;
            }
            self.pass_oldest(now, due);
        }
    }

    /// Drops the least recently used values until one more fits or the rest is in use.
    fn make_room(&mut self, capacity: usize, now: Duration, due: &mut Vec<Dropped<K, T>>) {
        for _ in 0..self.order.len() {
            if self.order.len() < capacity {
                return;
            }
            self.pass_oldest(now, due);
        }
    }

    /// Drops the oldest value, or moves it to the end if it is in use.
    fn pass_oldest(&mut self, now: Duration, due: &mut Vec<Dropped<K, T>>) {
        let Some((_, key)) = self.order.pop_first() else { return };
        match self.slots.get_mut(&key) {
            // A count above 1 is a caller's `Arc`. No caller can get another one under this lock.
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
