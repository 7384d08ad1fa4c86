use std::fmt;

use super::held::Held;
use super::{Name, Parts, Upstream};
use crate::observe::{Event, Log, Observe};
use crate::quota::Demand;
use crate::time::{DEFAULT_TIMER, DefaultSleep, DefaultTimer, Timer, default_reading};

/// A target of calls: `&Upstream`, `Arc<Upstream>`, `&LazyLock<Upstream>`, or a name alone. Sealed.
///
/// A name alone, as in `.on("weather")`, shares nothing with other calls. The log then prints the
/// name and the error.
pub trait Target: Endpoint {}

impl<X: Endpoint> Target for X {}

/// A [`Target`] of calls with errors of type `E`: it has a timer and can print the error. Sealed.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a target for calls with errors of type `{E}`",
    note = "a target is `&Upstream`, `Arc<Upstream>`, `&LazyLock<Upstream>`, or a name such as \"weather\"",
    note = "the log prints the error with `Display`: for an error with only `Debug`, call `.on(upstream.debug())`",
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
    X: Endpoint<
            Timer: Timer<Sleep = <X as Endpoint>::Sleep>,
            Sleep: Future<Output = ()>,
            Describe: Describe<E>,
        >
{
}

pub(crate) use sealed::{Describe, Endpoint, Slot};

mod sealed {
    use super::{Demand, Event, Held, Name, Parts, fmt};

    /// The questions that a call asks its target.
    pub trait Endpoint {
        type Timer;
        /// The sleep future of the timer.
        type Sleep;
        /// A [`Describe`] for the errors that the log can print.
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
    }

    /// Passes the printable form of an error to the log.
    pub trait Describe<E: ?Sized> {
        fn with<R>(error: &E, use_words: impl FnOnce(Option<&dyn fmt::Display>) -> R) -> R;
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

/// Prints errors with `Display`. An observer uses the format `{:#}`.
#[derive(Debug)]
pub struct ByDisplay;

/// Prints errors with `Debug`.
#[derive(Debug)]
pub struct ByDebug;

/// Prints no error.
#[derive(Debug)]
pub struct Undescribed;

impl<E: fmt::Display> Describe<E> for ByDisplay {
    #[inline]
    fn with<R>(error: &E, use_words: impl FnOnce(Option<&dyn fmt::Display>) -> R) -> R {
        use_words(Some(error))
    }
}

impl<E: fmt::Debug> Describe<E> for ByDebug {
    #[inline]
    fn with<R>(error: &E, use_words: impl FnOnce(Option<&dyn fmt::Display>) -> R) -> R {
        use_words(Some(&format_args!("{error:?}")))
    }
}

impl<E> Describe<E> for Undescribed {
    #[inline]
    fn with<R>(_: &E, use_words: impl FnOnce(Option<&dyn fmt::Display>) -> R) -> R {
        use_words(None)
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

/// A name alone.
impl Endpoint for &'static str {
    type Timer = DefaultTimer;
    type Sleep = DefaultSleep;
    type Describe = ByDisplay;
    type Slot = ();

    shares_nothing!();

    #[inline]
    fn name(&self) -> Option<&str> {
        Some(self)
    }

    fn owned_name(&self) -> Option<Name> {
        Some(Name::Static(self))
    }
}

impl<M: Timer> Endpoint for Upstream<M> {
    type Timer = M;
    type Sleep = M::Sleep;
    type Describe = ByDisplay;
    type Slot = Held;

    #[inline]
    fn timer(&self) -> &M {
        Self::timer(self)
    }

    #[inline]
    fn reading(&self) -> Option<u64> {
        Some(self.now())
    }

    #[inline]
    fn parts(&self) -> Option<&Parts> {
        Some(&self.parts)
    }

    #[inline]
    fn name(&self) -> Option<&str> {
        Some(self.parts.name.as_str())
    }

    fn owned_name(&self) -> Option<Name> {
        Some(self.parts.name.clone())
    }

    #[inline]
    fn listens(&self) -> bool {
        self.parts.observer.get().is_enabled()
    }

    #[inline]
    fn wants_all(&self) -> bool {
        self.parts.observer.wants_all()
    }

    fn observe(&self, event: &Event<'_>) {
        self.parts.observer.get().observe(event);
    }
}
