//! Faults on purpose: for tests of whether the code around a call copes with what the call will one day do.
//!
//! A retry that was never needed is a retry that was never tried. Put [`chaos`](crate::ResilienceExt::chaos) innermost
//! on a call, beneath its timeouts and breakers, and it fails, hangs, dawdles or panics at the rates that you set. What
//! it does to the nth call follows from the seed and n alone: a test that failed fails again.
//!
//! # When not
//!
//! In production, unless it is what you mean to do: the rates are then those of an outage. The feature `chaos` is for
//! dev-dependencies; nothing in the crate needs it. Faults are drawn, not computed from what is called: for a
//! certain sequence (fail twice, then succeed) a closure that counts is clearer.

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pin_project_lite::pin_project;

use crate::time::Timer;
use crate::upstream::{Endpoint, NoUpstream, Target};

/// What goes wrong how often, and how many calls it was asked about.
///
/// Each call meets at most one of the faults *panic*, *hang* and *error*, which take the place of the call: it is not
/// made at all. Their rates are shares of all calls; where they add up to more than 1, panics come first, then hangs.
/// Latency is drawn apart from them: it comes before the call, or before the fault.
///
/// The nth draw is the nth output of `SplitMix64` (Steele, Lea and Flood, "Fast splittable pseudorandom number
/// generators", OOPSLA 2014) from a seed, so it does not depend on the version of a random number crate. Calls are
/// numbered as they are first polled: calls that run concurrently repeat their faults as far as their order does.
///
/// # Defaults
///
/// | setting | default | why |
/// |---|---|---|
/// | errors, panics, hangs, latency | rate 0 | each fault is asked for by name |
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
/// let policy = RetryPolicy::new().with_attempts(20).with_attempt_timeout(Duration::from_secs(1));
/// for _ in 0..100 {
///     assert_eq!(retry(|_| async { Ok(7) }.chaos(&chaos), policy, Never).await.unwrap(), 7);
/// }
/// assert!(chaos.calls() > 150); // half of all attempts met a fault
/// # }
/// ```
pub struct Chaos<F = NoErrors> {
    seed: u64,
    panics: f64,
    hangs: f64,
    errors: f64,
    error: F,
    latency: f64,
    shortest: Duration,
    longest: Duration,
    calls: AtomicU64,
}

/// No error to inject: what [`Chaos::new`] begins with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct NoErrors;

/// What makes injected errors: a closure `Fn() -> E`, or [`NoErrors`]. Nobody needs to implement it.
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

/// What takes the place of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Panic,
    Hang,
    Error,
}

impl Chaos {
    /// No faults yet. Equal seeds, rates and order of calls give equal faults.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
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

    /// That share of the calls fails with what `error` makes. Rates below 0 and NaN are 0, above 1 are 1.
    ///
    /// In a `static Chaos<fn() -> MyError>` call this last, so that the compiler sees that a pointer is wanted.
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
    /// That share of the calls panics.
    #[must_use]
    pub const fn with_panics(mut self, rate: f64) -> Self {
        self.panics = share(rate);
        self
    }

    /// That share of the calls never ends.
    #[must_use]
    pub const fn with_hangs(mut self, rate: f64) -> Self {
        self.hangs = share(rate);
        self
    }

    /// That share of the calls is delayed, evenly from `shortest` to `longest` (or by `shortest`, where that is not
    /// less). Spread delays saturate at 584 years.
    #[must_use]
    pub const fn with_latency(mut self, rate: f64, shortest: Duration, longest: Duration) -> Self {
        self.latency = share(rate);
        (self.shortest, self.longest) = (shortest, longest);
        self
    }

    /// How many calls were begun.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Begins again: the next call is the first.
    pub fn reset(&self) {
        self.calls.store(0, Ordering::Relaxed);
    }

    /// What happens to the next call.
    fn next(&self) -> (Duration, Option<Fault>) {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        let draw = |nth| unit(mix(self.seed, call.wrapping_mul(3).wrapping_add(nth)));
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

/// The `nth` output of `SplitMix64` from `seed`.
const fn mix(seed: u64, nth: u64) -> u64 {
    let mut z = seed.wrapping_add(nth.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// In [0, 1): the upper 53 bits, which a double holds exactly.
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
    /// A call under [`Chaos`]. Made by [`ResilienceExt::chaos`](crate::ResilienceExt::chaos).
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
    /// Takes the time from the timer of an [`Upstream`](crate::Upstream).
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
            let (delay, fault) = this.chaos.next();
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
            Some(Fault::Panic) => panic!("a panic on purpose, by `resile::chaos`"),
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
