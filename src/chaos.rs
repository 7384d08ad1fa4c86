//! Injected faults for tests of the code around a call.
//!
//! The guide has a chapter on [testing](crate::guide::testing).
//!
//! A retry is only tested when a call fails. Put [`chaos`](crate::ResilienceExt::chaos) innermost
//! on a call, beneath its timeouts and breakers, and the call fails, hangs, slows down or panics at
//! the rates that you set. With a seed, the fault of the nth call depends only on the seed and n,
//! so a failed test fails again in the same way.
//!
//! # When not
//!
//! * In production, unless you intend an outage. The rates become real failures, so the feature
//!   `chaos` is for dev-dependencies. No other part of the crate needs it.
//! * For a fixed sequence such as two failures and then a success. Faults are drawn from the seed
//!   and do not depend on the content of a call, so a closure with a counter is clearer.

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pin_project_lite::pin_project;

use crate::time::{Timer, sequence};
use crate::upstream::{Endpoint, NoUpstream, Target};

/// The rates of injected faults and the number of calls so far.
///
/// Each call meets at most one of the faults *panic*, *hang* and *error*. The fault replaces the
/// call: the call is not made at all. The rates are shares of all calls, so a rate below 0 or NaN
/// counts as 0, and a rate above 1 counts as 1. If the rates add up to more than 1, panics come
/// first and hangs second. Latency is drawn separately and delays the call or its fault.
///
/// With a seed, the nth draw is the nth output of `SplitMix64` from the seed (Steele, Lea and
/// Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014). The draws therefore do
/// not depend on the version of a random number crate. They do not depend on the delays of retries
/// either: the faults of the nth call stay the same when a policy changes. Calls are numbered in
/// the order of their first polls, so concurrent calls get the same faults again only if this order
/// is the same.
///
/// Without a seed, the draws come from the [timer](crate::time::Timer::draw) of the call.
///
/// # Defaults
///
/// | setting | default | why |
/// |---|---|---|
/// | errors, panics, hangs, latency | rate 0 | each fault must be requested by name |
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use resile::chaos::Chaos;
/// use resile::{Never, ResilienceExt, RetryPolicy, retry};
/// use std::time::Duration;
///
/// let chaos = Chaos::new(42).with_hangs(0.2).with_errors(0.3, || "reset");
/// let limit = Duration::from_secs(1);
/// let policy = RetryPolicy::new().with_attempts(20).with_attempt_timeout(limit);
/// for _ in 0..100 {
///     let call = retry(|_| async { Ok(7) }.chaos(&chaos), policy, Never);
///     assert_eq!(call.await.unwrap(), 7);
/// }
/// assert!(chaos.calls() > 150); // half of all attempts met a fault
/// # }
/// ```
pub struct Chaos<F = NoErrors> {
    /// `None` draws from the timer of the call.
    seed: Option<u64>,
    panics: f64,
    hangs: f64,
    errors: f64,
    error: F,
    latency: f64,
    shortest: Duration,
    longest: Duration,
    calls: AtomicU64,
}

/// The type of [`Chaos`] without an error to inject.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct NoErrors;

/// A source of injected errors: a closure `Fn() -> E` or [`NoErrors`]. The trait is sealed.
pub trait MakeError<E>: sealed::Sealed<E> {
    #[doc(hidden)]
    fn make(&self) -> Option<E>;
}

impl<E> MakeError<E> for NoErrors {
    fn make(&self) -> Option<E> {
        None
    }
}

impl<E, F: Fn() -> E> MakeError<E> for F {
    fn make(&self) -> Option<E> {
        Some(self())
    }
}

mod sealed {
    pub trait Sealed<E> {}
    impl<E> Sealed<E> for super::NoErrors {}
    impl<E, F: Fn() -> E> Sealed<E> for F {}
}

/// A fault that replaces a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Panic,
    Hang,
    Error,
}

impl Chaos {
    /// Creates a set of faults with all rates at 0.
    ///
    /// Equal seeds, rates and order of calls give equal faults.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self::of(Some(seed))
    }

    /// Creates a set of faults with all rates at 0, without a seed of its own.
    ///
    /// The faults are drawn from the timer of the [upstream](ChaosFuture::on) of the call. With the
    /// default timer they differ in each process and each run. With
    /// [`Upstream::with_seed`](crate::Upstream::with_seed) one seed repeats the faults and the
    /// delays together.
    #[must_use]
    pub const fn unseeded() -> Self {
        Self::of(None)
    }

    const fn of(seed: Option<u64>) -> Self {
        Self {
            seed,
            panics: 0.0,
            hangs: 0.0,
            errors: 0.0,
            error: NoErrors,
            latency: 0.0,
            shortest: Duration::ZERO,
            longest: Duration::ZERO,
            calls: AtomicU64::new(0),
        }
    }

    /// Sets the share of calls that fail with an error from `error`.
    ///
    /// A rate below 0 or NaN counts as 0. A rate above 1 counts as 1.
    ///
    /// In a `static Chaos<fn() -> MyError>`, call this method last, because the compiler then
    /// converts the closure to a function pointer.
    #[must_use]
    pub const fn with_errors<F>(self, rate: f64, error: F) -> Chaos<F> {
        let Self { seed, panics, hangs, latency, shortest, longest, .. } = self;
        let errors = share(rate);
        Chaos {
            seed,
            panics,
            hangs,
            errors,
            error,
            latency,
            shortest,
            longest,
            calls: AtomicU64::new(0),
        }
    }
}

impl<F> Chaos<F> {
    /// Sets the share of calls that panic.
    #[must_use]
    pub const fn with_panics(mut self, rate: f64) -> Self {
        self.panics = share(rate);
        self
    }

    /// Sets the share of calls that never complete.
    #[must_use]
    pub const fn with_hangs(mut self, rate: f64) -> Self {
        self.hangs = share(rate);
        self
    }

    /// Sets the share of delayed calls and the range of their delay.
    ///
    /// The delay is drawn uniformly from `shortest` to `longest`. If `longest` is not greater,
    /// every delay is `shortest`. The drawn part above `shortest` saturates at 584 years.
    #[must_use]
    pub const fn with_latency(mut self, rate: f64, shortest: Duration, longest: Duration) -> Self {
        self.latency = share(rate);
        (self.shortest, self.longest) = (shortest, longest);
        self
    }

    /// Returns the number of calls that have begun.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Resets the call counter. The next call is the first again.
    pub fn reset(&self) {
        self.calls.store(0, Ordering::Relaxed);
    }

    /// Draws the delay and the fault of the next call.
    fn next(&self, timer: &impl Timer) -> (Duration, Option<Fault>) {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        let draw = |nth| {
            unit(match self.seed {
                Some(seed) => sequence::nth(seed, call.wrapping_mul(3).wrapping_add(nth)),
                None => timer.draw(),
            })
        };
        let mut below = draw(0);
        let mut fault = None;
        for (rate, kind) in
            [(self.panics, Fault::Panic), (self.hangs, Fault::Hang), (self.errors, Fault::Error)]
        {
            if below < rate {
                fault = Some(kind);
                break;
            }
            below -= rate;
        }
        let delay = if draw(1) < self.latency { self.spread(draw(2)) } else { Duration::ZERO };
        (delay, fault)
    }

    #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)] // saturates
    fn spread(&self, share: f64) -> Duration {
        let width = self.longest.saturating_sub(self.shortest).as_nanos() as f64;
        self.shortest.saturating_add(Duration::from_nanos((width * share) as u64))
    }
}

const fn share(rate: f64) -> f64 {
    if rate > 1.0 {
        1.0
    } else if rate > 0.0 {
        rate
    } else {
        0.0
    }
}

/// Maps `bits` to [0, 1) by the upper 53 bits, which an `f64` holds exactly.
#[expect(clippy::cast_precision_loss)]
fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}

impl<F> fmt::Debug for Chaos<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chaos")
            .field("seed", &self.seed)
            .field("panics", &self.panics)
            .field("hangs", &self.hangs)
            .field("errors", &self.errors)
            .field("latency", &self.latency)
            .field("calls", &self.calls())
            .finish_non_exhaustive()
    }
}

pin_project! {
    /// A call with injected faults. Made by [`ResilienceExt::chaos`](crate::ResilienceExt::chaos).
    #[must_use = "futures do nothing unless `.await`ed or polled"]
    pub struct ChaosFuture<'a, Fut, F, X = NoUpstream>
    where
        X: Target,
    {
        chaos: &'a Chaos<F>,
        target: X,
        #[pin]
        call: Fut,
        fault: Option<Fault>,
        #[pin]
        sleep: Option<X::Sleep>,
        begun: bool,
    }
}

impl<'a, Fut, F> ChaosFuture<'a, Fut, F> {
    pub(crate) fn new(call: Fut, chaos: &'a Chaos<F>) -> Self {
        Self { chaos, target: NoUpstream, call, fault: None, sleep: None, begun: false }
    }
}

impl<'a, Fut, F> ChaosFuture<'a, Fut, F> {
    /// Uses the timer of an [`Upstream`](crate::Upstream) for the delays.
    pub fn on<Y: Target>(self, target: Y) -> ChaosFuture<'a, Fut, F, Y> {
        let Self { chaos, call, fault, begun, .. } = self;
        ChaosFuture { chaos, target, call, fault, sleep: None, begun }
    }
}

impl<Fut, F, T, E, X> Future for ChaosFuture<'_, Fut, F, X>
where
    Fut: Future<Output = Result<T, E>>,
    F: MakeError<E>,
    X: Target + Endpoint<Timer: Timer<Sleep = <X as Endpoint>::Sleep>, Sleep: Future<Output = ()>>,
{
    type Output = Result<T, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        if !*this.begun {
            *this.begun = true;
            let (delay, fault) = this.chaos.next(this.target.timer());
            *this.fault = fault;
            if !delay.is_zero() {
                this.sleep.set(Some(this.target.timer().sleep(delay)));
            }
        }
        if let Some(sleep) = this.sleep.as_mut().as_pin_mut() {
            ready!(sleep.poll(cx));
            this.sleep.set(None);
        }
        match this.fault {
            None => this.call.poll(cx),
            Some(Fault::Panic) => panic!("panic injected by `resile::chaos`"),
            Some(Fault::Hang) => Poll::Pending,
            Some(Fault::Error) => match this.chaos.error.make() {
                Some(error) => Poll::Ready(Err(error)),
                None => this.call.poll(cx),
            },
        }
    }
}

impl<Fut, F, X: Target> fmt::Debug for ChaosFuture<'_, Fut, F, X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChaosFuture").field("chaos", self.chaos).finish_non_exhaustive()
    }
}
