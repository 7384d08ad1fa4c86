use super::prices::Cause;
use super::prices::{Prices, TOKEN};
use crate::signal::Signal;
use crate::sync::AtomicU64;
use std::fmt;
use std::mem;
use std::sync::atomic::Ordering;

/// A budget for retries, shared by many calls. It starts full, each retry takes a token, and each
/// **success** returns a part of a token.
///
/// Without a budget, three retries per call quadruple the load on a failing upstream and can keep
/// it down for good. With a budget, retries die out together with the successes that pay for them.
/// At total failure there are exactly as many retries as budget tokens. A budget that refills with
/// every *call* cannot do this: calls go on while the upstream is down. The design follows Brooker,
/// "Fixing retries with token buckets and circuit breakers" (2022), and the retry throttling of the
/// AWS SDKs and gRPC.
///
/// The first attempt of a call is always free. A retry is paid before its delay, so a call that
/// cannot pay ends at once with its own error and
/// [`StopReason::Budget`](crate::StopReason::Budget). The token is given back if the call ends
/// before the retry starts.
///
/// Share one budget among the calls to one upstream: in a `static` or in an `Arc`.
///
/// # Defaults
///
/// | setting | default | why |
/// |---|---|---|
/// | capacity | 8 tokens | an upstream of 40 calls a second, ramped beyond its limit, keeps 95 % of the good calls that it had without retries, with half a point to spare; between the 5 of the source and the 10 of a gRPC channel |
/// | cost | 1 token per retry, whatever the cause | a plain count of retries. [`aws`](Self::aws) has two prices |
/// | deposit | 0.1 token per success | at most 10 % more load in the long run, and no less success than with unlimited retries until 1 call in 11 fails; gRPC's `tokenRatio` |
///
/// The capacity limits the retries of a sudden burst of failures. At its worst moment an overload
/// costs about one good call for each token, before the budget can act. The model of a ramp in
/// `lab/storm` measures the good calls around the peak: 97 % with 3 tokens, 96 % with 5, 95.5 %
/// with 8, 95 % with 10, 93 % with 20, 85 % with 50 and 70 % with 100. A deposit of 0.05 instead of
/// 0.1 gains another 1.5 points. The upstream recovers with each of these capacities, only later.
///
/// 8 tokens are too few for bursts of failures on a healthy upstream: if a deploy cuts 20 calls at
/// once in a program with few calls, only 8 of them are retried. If the upstream is large compared
/// with your load, set the capacity to the burst that should pass (20 to 100). The AWS SDKs allow a
/// client 100 retries. Stay low if the upstream is small and many clients share it.
///
/// # Fairness
///
/// None: the first call to ask gets the token. The count is exact: `c` tokens pay for `c` retries
/// even if many more calls fail at once. The budget is lock-free, and a full budget is only read.
///
/// # Examples
///
/// ```
/// use resile::Budget;
///
/// static BUDGET: Budget = Budget::new().with_capacity(1);
///
/// assert!(BUDGET.withdraw(), "full at the start");
/// assert!(!BUDGET.withdraw());
/// BUDGET.refund(); // the retry was not made: the token is back
/// assert!(BUDGET.withdraw());
/// assert_eq!(BUDGET.available(), 0);
/// for _ in 0..10 {
///     BUDGET.deposit(); // each success
/// }
/// assert_eq!(BUDGET.available(), 1);
/// ```
pub struct Budget {
    /// In millionths of a token. Invariant: `left` is never above `capacity`.
    pub(super) left: AtomicU64,
    pub(super) capacity: u64,
    prices: Prices,
    /// The number above which deposits are lost, at most the capacity. It is the capacity unless the
    /// budget is shared between processes.
    pub(super) ceiling: AtomicU64,
    /// The number above which deposits wait for the store, if it is below the ceiling.
    pub(super) usable: AtomicU64,
    /// The deposits that wait for the store. They pay for nothing yet.
    pub(super) earned: AtomicU64,
    /// The number below which a withdrawal sets the signal. 0 unless the budget is shared.
    pub(super) low: AtomicU64,
    pub(super) signal: Signal,
}

impl Budget {
    /// Creates a full budget of 8 tokens with a deposit of 0.1 token per success.
    #[must_use]
    pub const fn new() -> Self {
        Self::of(8 * TOKEN, Prices::DEFAULT)
    }

    /// Creates the budget of the AWS SDKs: their standard mode in version 2.1, the default from
    /// November 2026. Use it with [`RetryPolicy::aws`](crate::RetryPolicy::aws).
    ///
    /// It has 500 tokens. A retry costs 14 tokens, after a throttling 5. A retry that succeeds
    /// gives its cost back, and each other success adds 1 token. So the budget is drained by a
    /// failure of more than 22 % of all attempts, or by a throttling of more than 32 %, with three
    /// attempts a call.
    ///
    /// Source: AWS SDKs and Tools Reference Guide, "Retry behavior" (2026).
    #[must_use]
    pub const fn aws() -> Self {
        Self::new().with_capacity(500).with_deposit(1.0).with_costs(14, 5).with_refund_on_success()
    }

    /// Creates the budget of a gRPC channel, its `retryThrottling` with `maxTokens` and `tokenRatio`.
    ///
    /// Each failed attempt takes a token, also the first one of a call, and each success adds
    /// `ratio`. A retry takes nothing but is made only while more than half of the tokens are left.
    /// So the budget remembers failures that were not retried: after a long outage the first retry
    /// comes only after half of `tokens`, divided by `ratio`, successes.
    ///
    /// An attempt counts as failed if its [verdict](crate::Verdict) says that the upstream is
    /// failing or throttling. This budget is for calls on an upstream, because
    /// [`withdraw`](Self::withdraw) by hand counts no failure. A fleet does not share it.
    ///
    /// Source: gRPC A6, "gRPC Retry Design", section "Throttling Retry Attempts and Hedged RPCs".
    ///
    /// # Examples
    ///
    /// ```
    /// use resile::{Budget, Upstream};
    ///
    /// static GREETER: Upstream = Upstream::new("greeter").with_budget(Budget::grpc(10, 0.1));
    /// ```
    #[must_use]
    pub const fn grpc(tokens: u32, ratio: f64) -> Self {
        let budget = Self::new().with_capacity(tokens).with_deposit(ratio).with_costs(0, 0);
        let prices = Prices { counts_failures: true, ..budget.prices };
        budget.priced(prices)
    }

    const fn of(capacity: u64, prices: Prices) -> Self {
        Self {
            left: AtomicU64::new(capacity),
            capacity,
            prices,
            ceiling: AtomicU64::new(capacity),
            usable: AtomicU64::new(capacity),
            earned: AtomicU64::new(0),
            low: AtomicU64::new(0),
            signal: Signal::new(),
        }
    }

    const fn priced(self, prices: Prices) -> Self {
        let capacity = self.capacity;
        mem::forget(self); // a `const fn` must drop nothing
        Self::of(capacity, prices)
    }

    /// Sets the highest number of tokens, with which the budget also starts. With 0 no call is
    /// retried.
    #[must_use]
    pub const fn with_capacity(self, tokens: u32) -> Self {
        let prices = self.prices;
        mem::forget(self);
        Self::of(tokens as u64 * TOKEN, prices)
    }

    /// Sets the part of a token that each success returns, to a millionth. Negative values and NaN
    /// are 0: the budget is then never refilled.
    #[must_use]
    // The cast saturates and turns NaN into 0.
    #[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, clippy::cast_sign_loss)]
    pub const fn with_deposit(self, tokens: f64) -> Self {
        let prices = Prices { deposit: (tokens * TOKEN as f64 + 0.5) as u64, ..self.prices };
        self.priced(prices)
    }

    /// Sets the tokens that a retry costs: after a failure, and after a throttling. An upstream that
    /// [asks for fewer requests](crate::Health::Throttling) still works, so a retry harms it less.
    ///
    /// With 0 a retry is free, but a budget with a capacity of 0 never pays. A cost above the capacity
    /// counts as the capacity: otherwise even a full budget would pay for nothing, and no success
    /// could ever change that.
    pub(super) const fn with_costs(self, failed: u32, throttled: u32) -> Self {
        let prices = Prices {
            failed: failed as u64 * TOKEN,
            throttled: throttled as u64 * TOKEN,
            ..self.prices
        };
        self.priced(prices)
    }

    /// Makes a retry that succeeds give its cost back, instead of the deposit of a success if that is
    /// less. Of several retries of one call only the last one, which succeeded, gives its cost back.
    pub(super) const fn with_refund_on_success(self) -> Self {
        let prices = Prices { refunds: true, ..self.prices };
        self.priced(prices)
    }

    /// Takes the cost of one retry after a failure: 1 token, or 14 of the budget of
    /// [`aws`](Self::aws). Returns false and takes nothing if too few tokens are left.
    ///
    /// This is the budget by hand, for a client with a budget of its own kind. Calls on an
    /// [`Upstream`](crate::Upstream) do it by themselves.
    #[must_use = "without a token the retry must not be made"]
    pub fn withdraw(&self) -> bool {
        self.take(Cause::Failed)
    }

    /// Gives back what [`withdraw`](Self::withdraw) took, because the retry was not made. Call it at
    /// most once for each withdrawal. Anything above the capacity is lost.
    #[cold]
    pub fn refund(&self) {
        self.refund_for(Cause::Failed);
    }

    pub(crate) fn take(&self, cause: Cause) -> bool {
        let cost = self.cost(cause);
        let pay = |left: u64| if self.allows(left) { left.checked_sub(cost) } else { None };
        let before = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, pay);
        if before.map_or(true, |before| before - cost < self.low.load(Ordering::Relaxed)) {
            self.signal.hint();
        }
        before.is_ok()
    }

    /// Returns whether a budget with so much left allows a retry, whatever the retry costs.
    const fn allows(&self, left: u64) -> bool {
        if self.prices.counts_failures { left > self.capacity / 2 } else { self.capacity > 0 }
    }

    /// Takes the token of an attempt that failed, as far as it is there.
    pub(crate) fn note_failure(&self) {
        if self.prices.counts_failures {
            let less = |left: u64| Some(left.saturating_sub(TOKEN));
            let _ = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        }
    }

    /// Returns the cost of a retry, at most the capacity.
    fn cost(&self, cause: Cause) -> u64 {
        self.prices.of(cause).min(self.capacity)
    }

    /// Adds the deposit of one success. Anything above the capacity is lost.
    #[inline]
    pub fn deposit(&self) {
        self.earn(self.prices.deposit);
    }

    /// Adds what a success of a retry with this cause earns: the deposit of a success, or the cost of
    /// the retry if that is given back.
    pub(crate) fn deposit_for(&self, cause: Cause) {
        let deposit = self.prices.deposit;
        self.earn(if self.prices.refunds { self.cost(cause).max(deposit) } else { deposit });
    }

    /// Adds what a success earned, up to the ceiling.
    #[inline]
    fn earn(&self, amount: u64) {
        self.bring(amount, self.ceiling.load(Ordering::Relaxed));
    }

    /// Adds an amount up to `most` in all. What is above the usable number waits for the store.
    #[inline]
    pub(super) fn bring(&self, amount: u64, most: u64) {
        let usable = self.usable.load(Ordering::Relaxed);
        let rest = put(&self.left, amount, most.min(usable));
        if usable < most {
            put(&self.earned, rest, most.saturating_sub(self.left.load(Ordering::Relaxed)));
        }
    }

    /// Returns the number of whole tokens left. Unless the budget is that of [`aws`](Self::aws) or of
    /// [`grpc`](Self::grpc), this is the number of retries that could be paid now.
    #[must_use]
    pub fn available(&self) -> u32 {
        whole(self.left.load(Ordering::Relaxed))
    }

    /// Returns the highest number of tokens.
    #[must_use]
    pub const fn capacity(&self) -> u32 {
        whole(self.capacity)
    }

    /// Returns the tokens that a retry costs after a failure and after a throttling: 1 and 1, those of
    /// [`aws`](Self::aws), or 0 and 0 for [`grpc`](Self::grpc).
    #[must_use]
    pub const fn costs(&self) -> (u32, u32) {
        (whole(self.prices.failed), whole(self.prices.throttled))
    }

    /// Returns true if the budget cannot pay for a retry after a failure.
    pub(crate) fn is_spent(&self) -> bool {
        let left = self.left.load(Ordering::Relaxed);
        !self.allows(left) || left < self.cost(Cause::Failed)
    }

    /// Gives back the cost of a retry that did not begin.
    #[cold]
    pub(crate) fn refund_for(&self, cause: Cause) {
        self.bring(self.cost(cause), self.capacity); // it was here before, so no ceiling applies
    }
}

/// Adds an amount, at most up to `most`. Returns the rest.
#[inline]
fn put(number: &AtomicU64, amount: u64, most: u64) -> u64 {
    // A full budget is the common case and only read: no thread takes the cache line from
    // another. All accesses are `Relaxed`: tokens guard no other memory.
    let mut left = number.load(Ordering::Relaxed);
    while left < most {
        let filled = left.saturating_add(amount).min(most);
        match number.compare_exchange_weak(left, filled, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return amount - (filled - left),
            Err(seen) => left = seen,
        }
    }
    amount
}

/// Returns the whole tokens in `left`. They fit, because a capacity is a `u32` of tokens.
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
