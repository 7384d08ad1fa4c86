//! A bulkhead that limits the number of calls in flight and the number of waiters.
//!
//! The guide has a chapter on [load](crate::guide::load).
//!
//! A slow upstream fills its callers. Each call to it holds memory, a socket and a task. Soon calls
//! to healthy upstreams find no room. A [`Bulkhead`] limits the calls to one upstream. It also
//! helps to respect an upstream's own limit on concurrent requests.
//!
//! The queue is bounded. With an unbounded queue an overload becomes a wait that outlasts the
//! callers. A call without a timely answer is better refused at once, while its caller can still do
//! something else. The queue limits the number of waiters.
//! [`with_max_wait`](Bulkhead::with_max_wait) and the call's total timeout limit the wait.
//!
//! A bulkhead cannot enforce a limit per second: any number of quick calls passes it. It is not for
//! CPU work either: use a thread pool.
//!
//! # Placement
//!
//! As a part of an [`Upstream`](crate::Upstream), a bulkhead gives each attempt a permit. The delay
//! between two attempts holds no permit. The bulkhead comes before the breaker, because a full
//! bulkhead says nothing about the upstream. The postfix method
//! [`.limited_by(&bulkhead)`](crate::ResilienceExt::limited_by) limits any future.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! use resile::{Bulkhead, ResilienceExt};
//! use std::time::Duration;
//!
//! static BULKHEAD: Bulkhead = Bulkhead::new(2).with_queue(1);
//!
//! async fn fetch() -> anyhow::Result<()> {
//!     tokio::time::sleep(Duration::from_secs(1)).await;
//!     Ok(())
//! }
//! let call = || fetch().limited_by(&BULKHEAD);
//!
//! let (first, second, waits, refused) =
//!     tokio::join!(call(), call(), call(), call());
//! assert!(first.is_ok() && second.is_ok() && waits.is_ok());
//! let message = refused.unwrap_err().to_string();
//! assert_eq!(message, "bulkhead full: 2 in flight, 1 queued");
//! # }
//! ```

mod future;
mod queue;

pub use future::{Acquire, Limited};
pub(crate) use queue::Entry;

use std::fmt;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::sync::AtomicU64;
use crate::time::nanos;
use queue::Queue;

/// A bulkhead with a limit on calls in flight and a limit on waiters. It refuses further calls with
/// [`Full`].
///
/// # Defaults
///
/// | setting | default | why |
/// |---|---|---|
/// | limit | none: `new` takes it | only the caller knows how much the upstream, or the memory, bears |
/// | queue | as long as the limit | a waiter gets its permit after about one call's time; a longer queue only stores calls for later |
///
/// # Fairness
///
/// First come, first served. A released permit goes to the longest waiter. A new call never
/// overtakes a waiter.
///
/// # Cost
///
/// While permits are free, acquiring and releasing are one atomic exchange each: no lock, no
/// allocation. Only waiting takes a lock and allocates.
///
/// # Examples
///
/// ```
/// use resile::Bulkhead;
///
/// static BULKHEAD: Bulkhead = Bulkhead::new(1).with_queue(0);
///
/// let permit = BULKHEAD.try_acquire().expect("the bulkhead is empty");
/// let full = BULKHEAD.try_acquire().unwrap_err();
/// assert_eq!((full.limit(), full.waiting()), (1, 0));
/// drop(permit);
/// assert!(BULKHEAD.try_acquire().is_ok());
/// ```
#[must_use = "a bulkhead does nothing unless calls share it"]
pub struct Bulkhead {
    /// The number of permits in use (the bits of `IN_FLIGHT`), and above it the number of waiters.
    ///
    /// Invariants:
    /// 1. The number of waiters is the length of the queue. It changes only under the queue's lock.
    /// 2. While a call waits, `limit` permits are in use. A permit is then handed over, not freed.
    state: AtomicU64,
    waiters: Queue,
    limit: u32,
    queue: u32,
    /// In nanoseconds. `u64::MAX` is no limit.
    max_wait: u64,
}

/// The bits of `state` that count permits in use. The bits above count waiters in steps of
/// `ONE_WAITING`.
const IN_FLIGHT: u64 = u32::MAX as u64;
const ONE_WAITING: u64 = IN_FLIGHT + 1;

impl Bulkhead {
    /// Creates a bulkhead for `limit` calls at once and as many waiters. With 0 it refuses every
    /// call.
    pub const fn new(limit: u32) -> Self {
        Self {
            state: AtomicU64::new(0),
            waiters: Queue::new(),
            limit,
            queue: limit,
            max_wait: u64::MAX,
        }
    }

    /// Sets the length of the queue. With 0, a call without a free permit is refused at once. With
    /// a limit of 0 no call waits.
    pub const fn with_queue(mut self, waiting: u32) -> Self {
        self.queue = if self.limit == 0 { 0 } else { waiting };
        self
    }

    /// Limits the time that a call on an [`Upstream`](crate::Upstream) waits in the queue. The call
    /// then ends with [`StopReason::Full`](crate::StopReason::Full). The limit has no effect with a
    /// queue of 0. With a limit of zero no call waits, whatever the length of the queue.
    pub const fn with_max_wait(mut self, limit: Duration) -> Self {
        self.max_wait = nanos(limit);
        self
    }

    /// Returns the longest wait of a call in nanoseconds. `u64::MAX` is no limit.
    pub(crate) const fn max_wait(&self) -> u64 {
        self.max_wait
    }

    /// Returns the number of permits.
    #[must_use]
    pub const fn limit(&self) -> u32 {
        self.limit
    }

    /// Returns the number of calls that may wait.
    #[must_use]
    pub const fn queue(&self) -> u32 {
        self.queue
    }

    /// Returns the number of permits in use now.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        count(self.state.load(Ordering::Relaxed))
    }

    /// Returns true if a permit is free. No call waits then.
    pub(crate) fn has_room(&self) -> bool {
        self.in_flight() < self.limit
    }

    /// Returns the number of waiters now.
    #[must_use]
    pub fn waiting(&self) -> u32 {
        count(self.state.load(Ordering::Relaxed) >> u32::BITS)
    }

    /// Acquires a permit if one is free.
    ///
    /// # Errors
    ///
    /// [`Full`] if no permit is free. Released permits go to waiters first.
    #[inline]
    pub fn try_acquire(&self) -> Result<Permit<'_>, Full> {
        self.enter().map(|()| Permit { bulkhead: self })
    }

    /// Acquires a permit, and waits in the queue if none is free. The future joins the queue at its
    /// first poll.
    ///
    /// # Errors
    ///
    /// [`Full`] at the first poll, if no permit is free and the queue is full.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the queue. A permit already handed to the future goes to the next
    /// waiter.
    pub const fn acquire(&self) -> Acquire<'_> {
        Acquire::new(self)
    }

    /// Takes a permit if one is free. The caller must call [`release`](Self::release) to release it.
    #[inline]
    pub(crate) fn enter(&self) -> Result<(), Full> {
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            // By invariant 2 this also refuses new calls while others wait.
            if state & IN_FLIGHT >= u64::from(self.limit) {
                return Err(self.full(state));
            }
            match self.state.compare_exchange_weak(
                state,
                state + 1,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Ok(()),
                Err(seen) => state = seen,
            }
        }
    }

    const fn full(&self, state: u64) -> Full {
        Full { limit: self.limit, waiting: count(state >> u32::BITS) }
    }

    /// Releases a permit, or hands it to the longest waiter.
    #[inline]
    pub(crate) fn release(&self) {
        let mut state = self.state.load(Ordering::Relaxed);
        while state <= IN_FLIGHT {
            match self.state.compare_exchange_weak(
                state,
                state - 1,
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(seen) => state = seen,
            }
        }
        self.hand_over();
    }
}

/// Returns the lower half of `state`.
#[expect(clippy::cast_possible_truncation)]
const fn count(state: u64) -> u32 {
    state as u32
}

impl fmt::Debug for Bulkhead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bulkhead")
            .field("limit", &self.limit)
            .field("queue", &self.queue)
            .field("in_flight", &self.in_flight())
            .field("waiting", &self.waiting())
            .finish_non_exhaustive()
    }
}

/// A permit of a [`Bulkhead`]. Dropping it releases the permit.
#[derive(Debug)]
#[must_use = "dropping the permit releases it"]
pub struct Permit<'a> {
    bulkhead: &'a Bulkhead,
}

impl Drop for Permit<'_> {
    #[inline]
    fn drop(&mut self) {
        self.bulkhead.release();
    }
}

/// An error: no permit of a [`Bulkhead`] was free, and its queue was full.
///
/// The error says nothing about the upstream, because the upstream was not asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Full {
    limit: u32,
    waiting: u32,
}

impl Full {
    /// Returns the number of permits in use at the refusal: all of them.
    #[must_use]
    pub const fn limit(&self) -> u32 {
        self.limit
    }

    /// Returns the number of waiters at the refusal.
    #[must_use]
    pub const fn waiting(&self) -> u32 {
        self.waiting
    }
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bulkhead full: {} in flight, {} queued", self.limit, self.waiting)
    }
}

impl std::error::Error for Full {}
