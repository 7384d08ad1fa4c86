//! At most so many at once, so many waiting, and the rest are refused.
//!
//! A peer that slows down fills its callers: each call that waits for it holds memory, a socket, a task, and soon the
//! calls to healthy peers find no room either. A [`Bulkhead`] keeps the calls to one peer in one compartment. It is
//! also the way to respect a peer's own limit on concurrent requests.
//!
//! The queue is bounded, as an unbounded one turns an overload into waits that nobody is still there to see the end of:
//! what is not answered in time is better refused at once, while the caller can still do something else. It bounds how
//! many wait; [`with_max_wait`](Bulkhead::with_max_wait) and the call's total timeout bound how long.
//!
//! It is not for limits per second (calls that are quick pass a bulkhead in any number), and not for CPU work, which
//! has thread pools.
//!
//! # Where it stands
//!
//! As a part of an [`Upstream`](crate::Upstream) each attempt takes a place, and the delay between two attempts holds
//! none. Ahead of a breaker: a call that finds no room says nothing about the upstream. As a postfix adapter,
//! [`.limited_by(&bulkhead)`](crate::ResilienceExt::limited_by), it covers any future.
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
//! let (first, second, waits, refused) = tokio::join!(call(), call(), call(), call());
//! assert!(first.is_ok() && second.is_ok() && waits.is_ok());
//! assert_eq!(refused.unwrap_err().to_string(), "full: 2 at work, 1 waiting");
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

/// At most n at once, at most m waiting; who comes beyond that is refused with [`Full`].
///
/// # Defaults
///
/// | setting | default | why |
/// |---|---|---|
/// | limit | none: `new` takes it | only the caller knows how much the peer, or the memory, bears |
/// | queue | as long as the limit | whoever waits gets in after about one call's time; a longer queue only stores calls for later |
///
/// # Fairness
///
/// First come, first served: a place that becomes free is handed to whoever waits longest, and a newcomer never takes
/// it from under them.
///
/// # Cost
///
/// While there is room, entering and leaving are one atomic exchange each: no lock, no allocation. Only waiting takes a
/// lock and allocates.
///
/// # Examples
///
/// ```
/// use resile::Bulkhead;
///
/// static BULKHEAD: Bulkhead = Bulkhead::new(1).with_queue(0);
///
/// let permit = BULKHEAD.try_acquire().expect("nobody is in it");
/// let full = BULKHEAD.try_acquire().unwrap_err();
/// assert_eq!((full.limit(), full.waiting()), (1, 0));
/// drop(permit);
/// assert!(BULKHEAD.try_acquire().is_ok());
/// ```
#[must_use = "a bulkhead does nothing unless calls share it"]
pub struct Bulkhead {
    /// How many are in, and above `IN` how many wait.
    ///
    /// Invariant 1: the number of those who wait is the length of the line, and changes only under its lock.
    /// Invariant 2: while somebody waits, the house is full: a place is then handed over, never given up.
    state: AtomicU64,
    waiters: Queue,
    limit: u32,
    queue: u32,
    /// In nanoseconds; `u64::MAX` is none.
    max_wait: u64,
}

/// The part of the state that counts who is in; above it is who waits, in steps of `ONE_WAITING`.
const IN: u64 = u32::MAX as u64;
const ONE_WAITING: u64 = IN + 1;

impl Bulkhead {
    /// At most `limit` at once, and as many waiting. With 0 all are refused.
    pub const fn new(limit: u32) -> Self {
        Self {
            state: AtomicU64::new(0),
            waiters: Queue::new(),
            limit,
            queue: limit,
            max_wait: u64::MAX,
        }
    }

    /// At most `waiting` may wait; with 0 who finds no room is refused at once. With a limit of 0 nobody waits.
    pub const fn with_queue(mut self, waiting: u32) -> Self {
        self.queue = if self.limit == 0 { 0 } else { waiting };
        self
    }

    /// Limits how long a call of an [`Upstream`](crate::Upstream) waits in line. Then it ends as
    /// [`StopReason::Full`](crate::StopReason::Full).
    pub const fn with_max_wait(mut self, limit: Duration) -> Self {
        self.max_wait = nanos(limit);
        self
    }

    /// Returns how long a call waits in line at most, in nanoseconds; `u64::MAX` is without end.
    pub(crate) const fn max_wait(&self) -> u64 {
        self.max_wait
    }

    /// How many it lets in at once.
    #[must_use]
    pub const fn limit(&self) -> u32 {
        self.limit
    }

    /// How many may wait.
    #[must_use]
    pub const fn queue(&self) -> u32 {
        self.queue
    }

    /// How many are in it now.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        count(self.state.load(Ordering::Relaxed))
    }

    /// How many wait now.
    #[must_use]
    pub fn waiting(&self) -> u32 {
        count(self.state.load(Ordering::Relaxed) >> u32::BITS)
    }

    /// Takes a place if there is room at once.
    ///
    /// # Errors
    ///
    /// [`Full`]: there is no room. Whoever waits comes first.
    #[inline]
    pub fn try_acquire(&self) -> Result<Permit<'_>, Full> {
        self.enter().map(|()| Permit { bulkhead: self })
    }

    /// Takes a place, waiting in line for it where there is no room. The place in line is taken at the first poll.
    ///
    /// # Errors
    ///
    /// [`Full`], at the first poll: there is neither room nor a place in line.
    ///
    /// # Cancel safety
    ///
    /// Dropping it gives up the place in line; a permit that was on its way passes on to the next.
    pub const fn acquire(&self) -> Acquire<'_> {
        Acquire::new(self)
    }

    /// Enters if there is room; who enters must [leave](Self::leave).
    #[inline]
    pub(crate) fn enter(&self) -> Result<(), Full> {
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            // By invariant 2 this also lets those who wait go first.
            if state & IN >= u64::from(self.limit) {
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

    /// Gives a place up, or hands it to whoever waits longest.
    #[inline]
    pub(crate) fn leave(&self) {
        let mut state = self.state.load(Ordering::Relaxed);
        while state <= IN {
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

/// The lower half.
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

/// A place in a [`Bulkhead`]. Dropped, it is free for the next.
#[derive(Debug)]
#[must_use = "dropping it leaves the bulkhead"]
pub struct Permit<'a> {
    bulkhead: &'a Bulkhead,
}

impl Drop for Permit<'_> {
    #[inline]
    fn drop(&mut self) {
        self.bulkhead.leave();
    }
}

/// There was no room in a [`Bulkhead`], nor a place in its queue.
///
/// It says nothing about the upstream, which was not asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Full {
    limit: u32,
    waiting: u32,
}

impl Full {
    /// How many were in it: as many as it allows.
    #[must_use]
    pub const fn limit(&self) -> u32 {
        self.limit
    }

    /// How many were waiting.
    #[must_use]
    pub const fn waiting(&self) -> u32 {
        self.waiting
    }
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "full: {} at work, {} waiting", self.limit, self.waiting)
    }
}

impl std::error::Error for Full {}
