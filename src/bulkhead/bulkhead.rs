use super::law::FIRST;
use super::learner::Learner;
use super::queue::Queue;
use crate::sync::AtomicU64;
use crate::time::nanos;
use std::fmt;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A bulkhead with a limit on calls in flight and a limit on waiters. It refuses further calls as
/// [`StopReason::Full`](crate::StopReason::Full).
///
/// The guide has a chapter on [load](crate::guide::load).
///
/// A slow upstream fills its callers. Each call to it holds memory, a socket and a task. Soon calls
/// to healthy upstreams find no room. A [`Bulkhead`] limits the calls to one upstream. It also
/// helps to respect an upstream's own limit on concurrent requests.
///
/// The queue is bounded. With an unbounded queue an overload becomes a wait that outlasts the
/// callers. A call without a timely answer is better refused at once, while its caller can still do
/// something else. The queue limits the number of waiters.
/// [`with_max_wait`](Bulkhead::with_max_wait) and the call's total timeout limit the wait.
///
/// A bulkhead cannot enforce a limit per second: any number of quick calls passes it. It is not for
/// CPU work either: use a thread pool.
///
/// # Placement
///
/// A bulkhead is a part of an [`Upstream`](crate::Upstream). It gives each attempt a permit. The
/// delay between two attempts holds no permit. The bulkhead comes before the breaker, because a full
/// bulkhead says nothing about the upstream. An upstream with nothing but a bulkhead limits any
/// future:
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use resile::classify::Always;
/// use resile::{Bulkhead, ResilienceExt, StopReason, Upstream};
/// use std::io;
/// use std::time::Duration;
///
/// static STORE: Upstream =
///     Upstream::new("store").with_bulkhead(Bulkhead::new(2).with_queue(1));
///
/// async fn fetch() -> io::Result<()> {
///     tokio::time::sleep(Duration::from_secs(1)).await;
///     Ok(())
/// }
/// let call = || fetch().through(&STORE, Always);
///
/// let (first, second, waits, refused) =
///     tokio::join!(call(), call(), call(), call());
/// assert!(first.is_ok() && second.is_ok() && waits.is_ok());
/// let refused = refused.unwrap_err();
/// assert_eq!(refused.reason(), StopReason::Full);
/// assert_eq!(
///     refused.to_string(),
///     "store: gave up after 0 attempts, bulkhead full: 2 in flight, 1 queued",
/// );
/// # }
/// ```
///
/// # Defaults
///
/// | setting | default | why |
/// |---|---|---|
/// | limit | none: `new` and `learned` take it | only the caller knows how much the upstream, or the memory, bears |
/// | queue | as long as the limit | a waiter gets its permit after about one call's time; a longer queue only stores calls for later |
///
/// # The learned limit
///
/// A fixed limit is wrong as soon as the upstream has more or fewer machines. [`learned`](Self::learned)
/// begins at 20 and follows the upstream by the reports of attempts. Nothing is set but the most.
///
/// | the upstream | signal | the limit |
/// |---|---|---|
/// | refuses ([`Throttling`](crate::Health::Throttling)) | the verdict | a tenth less, once for all attempts that began before the cut; then 1 more after as many answers as the limit, with a pause of 8 such rounds below the limit that was refused |
/// | queues | the latency, while the limit alternates by 12 % around its centre | the one at which 10 % more in flight cost 7 % more latency |
/// | has room | the limit is not reached | falls slowly towards twice of what is used, but not below 20 |
///
/// * An attempt that was ready at its first poll, was dropped or has no verdict teaches nothing. Nor
///   does a failure that is faster than the usual answer. A slower one counts with its age.
/// * An attempt that a limit of its call cut counts with twice its age, because its latency is unknown.
///   If most attempts of a round are cut, the limit falls by a tenth, but not below 20.
/// * The latency of a stream is the time to its first content.
/// * The latency needs about 200 attempts for a step. Below some 3 attempts a second only verdicts
///   count, and without a refusal the limit grows as long as it is reached.
/// * The latency shows the queue that *these* calls make. With less than about three quarters of the
///   load of a server, a process sees too little of its own effect. If the server also never refuses,
///   the limit grows to the most: then set a fixed one. With a refusal the verdicts limit all clients.
///
/// `src/bulkhead/law.rs` has the formulas and their sources.
///
/// # The line
///
/// * The highest [priority](crate::upstream::AtCost::with_priority) goes first. It is the same setting as
///   in the queue of a [`Quota`](crate::Quota).
/// * Within a priority the longest waiter goes first while the line moves. If it has waited for longer
///   than the mean time for which a permit is held, the line stands. Then the newest waiter goes first,
///   because its caller still waits for the answer.
/// * A full queue refuses a new call, unless the call goes before another waiter. It then takes the place
///   of the one that goes last, and that one is refused.
/// * A call that cannot begin before its deadline or within the longest wait is refused at once. The
///   estimate is the number of waiters ahead times the time for each turn, as far as this line shows.
///   [`retry_after`](crate::GaveUp::retry_after) returns it.
///
/// Without a queue there is no line, so priorities have no effect.
///
/// # Cost
///
/// While permits are free, acquiring and releasing are one atomic exchange each: no lock, no
/// allocation. Only waiting takes a lock, reads the clock and allocates. A learned limit adds two readings of the clock
/// and an atomic addition for each attempt, and a lock at the end of each round.
///
/// # Examples
///
/// ```
/// use resile::{Bulkhead, StopReason, Upstream};
///
/// static STORE: Upstream =
///     Upstream::new("store").with_bulkhead(Bulkhead::new(1).with_queue(0));
///
/// let admission = STORE.try_admit().expect("the bulkhead is empty");
/// let refused = STORE.try_admit().unwrap_err();
/// assert_eq!(refused.reason(), StopReason::Full);
/// drop(admission); // releases the permit
/// assert!(STORE.try_admit().is_ok());
/// ```
#[must_use = "a bulkhead does nothing unless calls share it"]
pub struct Bulkhead {
    /// The number of permits in use (the bits of `IN_FLIGHT`), and above it the number of waiters.
    ///
    /// Invariants:
    /// 1. The number of waiters is the length of the queue. It changes only under the queue's lock.
    /// 2. While a call waits, at least `limit` permits are in use. A permit is then handed over, not
    ///    freed.
    /// 3. What a learned limit is below `limit` counts as permits in use. So an admission and a change
    ///    of the limit are steps of one word, and no attempt is admitted above the limit.
    pub(super) state: AtomicU64,
    pub(super) waiters: Queue,
    /// The limit, or the largest one that can be learned.
    pub(super) limit: u32,
    /// `None` is as long as the limit.
    queue: Option<u32>,
    pub(super) learner: Option<Learner>,
    /// In nanoseconds. `u64::MAX` is no limit.
    max_wait: u64,
}

/// The bits of `state` that count permits in use. The bits above count waiters in steps of
/// `ONE_WAITING`.
pub(super) const IN_FLIGHT: u64 = u32::MAX as u64;
pub(super) const ONE_WAITING: u64 = IN_FLIGHT + 1;
/// The largest limit to learn. Twice of it fits into `IN_FLIGHT`, because permits in use may be above
/// a limit that has just fallen.
const MOST_LEARNED: u32 = 1 << 30;

impl Bulkhead {
    /// Creates a bulkhead for `limit` calls at once and as many waiters. With 0 it refuses every
    /// call.
    pub const fn new(limit: u32) -> Self {
        Self::with(limit, limit, None)
    }

    /// Creates a bulkhead whose first limit is `first`.
    const fn with(limit: u32, first: u32, learner: Option<Learner>) -> Self {
        Self {
            state: AtomicU64::new((limit - first) as u64),
            waiters: Queue::new(),
            limit,
            queue: None,
            learner,
            max_wait: u64::MAX,
        }
    }

    /// Creates a bulkhead that learns its limit, from 1 to `most` calls at once. With 0 it refuses
    /// every call, and a number above 1,073,741,824 counts as this one.
    ///
    /// `most` is what the caller can bear: its memory, its sockets. See [the learned
    /// limit](#the-learned-limit).
    pub const fn learned(most: u32) -> Self {
        let most = if most > MOST_LEARNED { MOST_LEARNED } else { most };
        if most == 0 {
            return Self::new(0);
        }
        let first = if most < FIRST { most } else { FIRST };
        Self::with(most, first, Some(Learner::new(most)))
    }

    /// Sets the length of the queue. With 0, a call without a free permit is refused at once. With
    /// a limit of 0 no call waits.
    pub const fn with_queue(mut self, waiting: u32) -> Self {
        self.queue = Some(if self.limit == 0 { 0 } else { waiting });
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

    /// Returns the number of permits: the fixed limit, or the learned one as it is now.
    #[must_use]
    pub fn limit(&self) -> u32 {
        self.learner.as_ref().map_or(self.limit, Learner::limit)
    }

    /// Returns the number of calls that may wait.
    #[must_use]
    pub fn queue(&self) -> u32 {
        self.queue.unwrap_or_else(|| self.limit())
    }

    /// Returns the number of permits in use now. It is above a learned limit that has just fallen.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        let kept_back = self.limit - self.limit();
        count(self.state.load(Ordering::Relaxed)).saturating_sub(kept_back)
    }

    /// Returns true if a permit is free. No call waits then.
    pub(crate) fn has_room(&self) -> bool {
        count(self.state.load(Ordering::Relaxed)) < self.limit
    }

    /// Returns the number of waiters now.
    #[must_use]
    pub fn waiting(&self) -> u32 {
        count(self.state.load(Ordering::Relaxed) >> u32::BITS)
    }

    /// Takes a permit and returns true, if one is free. The caller must call
    /// [`release`](Self::release) to release it.
    #[inline]
    pub(crate) fn enter(&self) -> bool {
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            // By invariant 2 this also refuses new calls while others wait.
            if state & IN_FLIGHT >= u64::from(self.limit) {
                if let Some(learner) = &self.learner {
                    learner.note_pressed();
                }
                return false;
            }
            match self.state.compare_exchange_weak(
                state,
                state + 1,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return true,
                Err(seen) => state = seen,
            }
        }
    }

    /// Releases a permit, or hands it to the first waiter.
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
            .field("limit", &self.limit())
            .field("learned", &self.learns())
            .field("queue", &self.queue())
            .field("in_flight", &self.in_flight())
            .field("waiting", &self.waiting())
            .finish_non_exhaustive()
    }
}
