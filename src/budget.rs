//! How much retrying all calls together may do.

use std::fmt;
use std::sync::atomic::Ordering;

use crate::sync::AtomicU64;

/// A budget for retries, shared by many calls: it starts full, each retry takes a token, each **success** puts a
/// part of one back.
///
/// Without it, calls that each retry three times quadruple the load on a peer that is down, and can keep it down for
/// good. With it, retries die out with the successes that pay for them: at total failure there are exactly as many as
/// the budget holds. (A budget that refills with every *call* cannot do this: calls go on while the peer is down.)
/// After Brooker, "Fixing retries with token buckets and circuit breakers" (2022), and the retry throttling of the AWS
/// SDKs and gRPC.
///
/// The first attempt of a call is always free. A retry is paid before its delay, so a call that cannot pay ends at
/// once, with its own error and [`StopReason::Budget`](crate::StopReason::Budget); a token is given back if the delay does not run
/// out.
///
/// Share one among the calls that go to one peer, as a `static` or in an `Arc`.
///
/// # Defaults
///
/// | setting | default | why |
/// |---|---|---|
/// | capacity | 8 tokens | an upstream of 40 calls a second that is ramped beyond its limit keeps 95 % of the good calls that it had without retries, with half a point to spare; between the 5 of the source and the 10 of a gRPC channel |
/// | deposit | 0.1 token per success | at most 10 % more load in the long run, and no less success than with unlimited retries until 1 call in 11 fails; gRPC's `tokenRatio` |
///
/// The reserve is what a burst of failures may take at once, and what an overload costs: at its worst moment about one
/// good call for each token, before the budget can hold anything back. In the model of a ramp in `examples/storm`, of
/// the good calls around the peak 97 % are kept with 3 tokens, 96 % with 5, 95.5 % with 8, 95 % with 10, 93 % with 20,
/// 85 % with 50 and 70 % with 100; a deposit of 0.05 instead of 0.1 gains another 1.5 points. The recovery comes
/// with each of them, only later.
///
/// So 8 are too few where failures come in bursts on a healthy peer: a program of few calls, of which 20 are cut at
/// once by a deploy, retries 8 of them. There set the capacity to the burst that should pass (20 to 100; the AWS SDKs
/// allow a client 100 retries), if the peer is large beside you. Where it is small, and many share it, stay low.
///
/// # Fairness
///
/// None: a token goes to whoever asks first. It is exact: `c` tokens and any number of simultaneous
/// failures are `c` retries. No lock is taken; a full budget is only read.
///
/// # Examples
///
/// ```
/// use resile::Budget;
///
/// static BUDGET: Budget = Budget::new().with_capacity(1);
///
/// let retry = BUDGET.withdraw().expect("full at the start");
/// assert!(BUDGET.withdraw().is_none());
/// drop(retry); // not spent: the token is back
/// BUDGET.withdraw().unwrap().spend();
/// assert_eq!(BUDGET.available(), 0);
/// for _ in 0..10 {
///     BUDGET.deposit(); // each success
/// }
/// assert_eq!(BUDGET.available(), 1);
/// ```
pub struct Budget {
    /// Millionths of a token. Invariant: never above `capacity`.
    left: AtomicU64,
    capacity: u64,
    deposit: u64,
}

/// Millionths, so that a deposit of 0.1 is exact and `u32::MAX` tokens fit.
const TOKEN: u64 = 1_000_000;

impl Budget {
    /// A full budget of 8 tokens that takes a tenth of a token per success.
    #[must_use]
    pub const fn new() -> Self {
        Self::of(8 * TOKEN, TOKEN / 10)
    }

    const fn of(capacity: u64, deposit: u64) -> Self {
        Self { left: AtomicU64::new(capacity), capacity, deposit }
    }

    /// The most tokens it holds, and how many it starts with. With 0 nothing is ever retried.
    #[must_use]
    pub const fn with_capacity(self, tokens: u32) -> Self {
        Self::of(tokens as u64 * TOKEN, self.deposit)
    }

    /// How much of a token each success puts back, to a millionth. Negative and NaN are 0: the budget is then
    /// never refilled.
    #[must_use]
    // Saturates; NaN is 0.
    #[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, clippy::cast_sign_loss)]
    pub const fn with_deposit(self, tokens: f64) -> Self {
        Self::of(self.capacity, (tokens * TOKEN as f64 + 0.5) as u64)
    }

    /// Takes the token for one retry, or `None` where less than one is left.
    #[must_use = "dropping it gives the token back"]
    pub fn withdraw(&self) -> Option<Withdrawal<'_>> {
        self.left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(TOKEN))
            .ok()
            .map(|_| Withdrawal { budget: self })
    }

    /// Tells of a success. What does not fit is lost.
    #[inline]
    pub fn deposit(&self) {
        self.put(self.deposit);
    }

    /// How many retries could be paid now.
    #[must_use]
    pub fn available(&self) -> u32 {
        whole(self.left.load(Ordering::Relaxed))
    }

    /// The most tokens it holds.
    #[must_use]
    pub const fn capacity(&self) -> u32 {
        whole(self.capacity)
    }

    /// Gives back a token that was spent on a retry which then did not begin.
    #[cold]
    pub(crate) fn refund(&self) {
        self.put(TOKEN);
    }

    #[inline]
    fn put(&self, amount: u64) {
        // Full, the common case, is a plain load: no thread takes the cache line from another.
        // Relaxed throughout: the tokens guard no other memory.
        let mut left = self.left.load(Ordering::Relaxed);
        while left < self.capacity {
            let filled = left.saturating_add(amount).min(self.capacity);
            match self.left.compare_exchange_weak(
                left,
                filled,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(seen) => left = seen,
            }
        }
    }
}

/// Whole tokens in `left`, which is no more than a capacity, and that was a `u32` of them.
#[expect(clippy::cast_possible_truncation)]
const fn whole(left: u64) -> u32 {
    (left / TOKEN) as u32
}

impl Default for Budget {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Budget")
            .field("available", &self.available())
            .field("capacity", &self.capacity())
            .finish_non_exhaustive()
    }
}

/// A token taken from a [`Budget`] for a retry that has not started yet. Dropped, it goes back.
#[derive(Debug)]
#[must_use = "dropping it gives the token back; `spend` it when the retry starts"]
pub struct Withdrawal<'a> {
    budget: &'a Budget,
}

impl Withdrawal<'_> {
    /// The retry starts: the token is gone.
    pub fn spend(self) {
        std::mem::forget(self);
    }
}

impl Drop for Withdrawal<'_> {
    fn drop(&mut self) {
        self.budget.refund();
    }
}
