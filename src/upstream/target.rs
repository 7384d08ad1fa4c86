use std::sync::Arc;

use super::explain::{Describe, Inferred, Undescribed};
use super::held::Held;
use super::{Name, Parts};
use crate::observe::{Event, Log, Observe};
use crate::quota::Demand;
use crate::time::{DEFAULT_TIMER, DefaultSleep, DefaultTimer, Timer, default_reading};

/// A target of calls: `&Upstream`, `Arc<Upstream>`, `&LazyLock<Upstream>`, or a name alone. Sealed.
///
/// A name alone, as in `.on("weather")`, shares nothing with other calls. The log then prints the
/// name and the error.
///
/// An `Upstream` by value is not a target. Each call would then have a budget and a breaker of its
/// own, which protect nothing:
///
/// ```compile_fail,E0277
/// # use resile::{Budget, Never, RetryPolicy, Upstream, retry};
/// # async fn fetch() -> std::io::Result<()> { Ok(()) }
/// let upstream = Upstream::new("weather").with_budget(Budget::new());
/// let call = retry(|_| fetch(), RetryPolicy::new(), Never).on(upstream);
/// ```
///
/// A reference is one:
///
/// ```
/// # use resile::{Budget, Never, RetryPolicy, Upstream, retry};
/// # async fn fetch() -> std::io::Result<()> { Ok(()) }
/// let upstream = Upstream::new("weather").with_budget(Budget::new());
/// let call = retry(|_| fetch(), RetryPolicy::new(), Never).on(&upstream);
/// # drop(call);
/// ```
#[diagnostic::on_unimplemented(
    message = "a call cannot run on a `{Self}`: a target is `&Upstream`, `Arc<Upstream>`, `&LazyLock<Upstream>` or a name",
    label = "not a target of calls",
    note = "an `Upstream` by value is not a target: each call would have a budget and a breaker of its own",
    note = "keep the upstream in a `static`, an `Arc` or a `Keyed`, and pass `&UPSTREAM`, a clone of the `Arc`, or a name such as \"weather\""
)]
pub trait Target: Endpoint {}

impl<X: Endpoint> Target for &X {}
impl<X: Endpoint> Target for Arc<X> {}
impl Target for &str {}
impl Target for NoUpstream {}

/// A [`Target`] of calls with errors of type `E`: it has a timer and can print the error. Sealed.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a target for calls with errors of type `{E}`",
    note = "a target is `&Upstream`, `Arc<Upstream>`, `&LazyLock<Upstream>`, or a name such as \"weather\"",
    note = "the log prints the chain of an `Error`: for an error with only `Display` call `.on(upstream.display())`, and with only `Debug` map it in the operation",
    note = "without the feature `tokio` (on wasm32-unknown-unknown: `browser`), set a timer with `Upstream::with_timer`"
)]
pub trait TargetFor<E: ?Sized>:
    Target
    + Endpoint<
        Timer: Timer<Sleep = <Self as Endpoint>::Sleep>,
        Sleep: Future<Output = ()>,
        Describe: Describe<E>,
    >
{
}

impl<E: ?Sized, X> TargetFor<E> for X where
    X: Target
        + Endpoint<
            Timer: Timer<Sleep = <X as Endpoint>::Sleep>,
            Sleep: Future<Output = ()>,
            Describe: Describe<E>,
        >
{
}

pub(crate) use sealed::{Endpoint, Slot};

mod sealed {
    use super::{Demand, Event, Held, Name, Parts};

    /// The questions that a call asks its target.
    pub trait Endpoint {
        type Timer;
        /// The sleep future of the timer.
        type Sleep;
        /// The way to print errors.
        type Describe;
        /// The storage for everything that one attempt holds at the target.
        type Slot: Slot;
        /// True if the target shares nothing and has no name.
        const ALONE: bool = false;

        fn timer(&self) -> &Self::Timer;
        /// Returns the time in nanoseconds if the target has a clock.
        fn reading(&self) -> Option<u64>;
        fn parts(&self) -> Option<&Parts>;
        /// Returns the demand of a call for the quota.
        #[inline]
        fn demand(&self) -> Demand<'_> {
            Demand::default()
        }
        fn name(&self) -> Option<&str>;
        /// Returns an owned copy of the name.
        fn owned_name(&self) -> Option<Name>;
        fn listens(&self) -> bool;
        fn wants_all(&self) -> bool;
        fn observe(&self, event: &Event<'_>);
        /// Returns whether events go to the log.
        fn writes_log(&self) -> bool;
    }

    /// The storage for everything that one attempt holds at its target.
    pub trait Slot: Default {
        fn held(&mut self) -> Option<&mut Held>;
    }

    /// A target without shared parts stores nothing.
    impl Slot for () {
        #[inline]
        fn held(&mut self) -> Option<&mut Held> {
            None
        }
    }

    impl Slot for Held {
        #[inline]
        fn held(&mut self) -> Option<&mut Held> {
            Some(self)
        }
    }
}

/// Implements [`Endpoint`] for a target that shares nothing: the default timer, no parts, the log.
macro_rules! shares_nothing {
    () => {
        #[inline]
        fn timer(&self) -> &DefaultTimer {
            &DEFAULT_TIMER
        }

        #[inline]
        fn reading(&self) -> Option<u64> {
            default_reading()
        }

        #[inline]
        fn parts(&self) -> Option<&Parts> {
            None
        }

        #[inline]
        fn listens(&self) -> bool {
            Log.is_enabled()
        }

        #[inline]
        fn wants_all(&self) -> bool {
            false
        }

        #[inline]
        fn observe(&self, event: &Event<'_>) {
            Log.observe(event);
        }

        #[inline]
        fn writes_log(&self) -> bool {
            Log.writes_log()
        }
    };
}

/// The target of a call without `.on(…)`: no upstream.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoUpstream;

impl Endpoint for NoUpstream {
    type Timer = DefaultTimer;
    type Sleep = DefaultSleep;
    type Describe = Undescribed;
    type Slot = ();
    const ALONE: bool = true;

    shares_nothing!();

    #[inline]
    fn name(&self) -> Option<&str> {
        None
    }

    fn owned_name(&self) -> Option<Name> {
        None
    }
}

/// A name alone. With `'static` alone no call on a name could be spawned: within an `async` block the
/// compiler erases lifetimes, and then asks for the implementation for any of them.
impl Endpoint for &str {
    type Timer = DefaultTimer;
    type Sleep = DefaultSleep;
    type Describe = Inferred;
    type Slot = ();

    shares_nothing!();

    #[inline]
    fn name(&self) -> Option<&str> {
        Some(self)
    }

    fn owned_name(&self) -> Option<Name> {
        Some(Name::Shared(Arc::from(*self)))
    }
}
