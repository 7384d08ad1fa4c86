use std::fmt;
use std::sync::{Arc, LazyLock};

use super::target::ByDebug;
use super::{Endpoint, Name, Parts};
use crate::observe::{Event, Observe};
use crate::quota::Demand;

/// Forwards methods of [`Endpoint`] to the inner target, by groups: `timer` and `observer`.
macro_rules! forward {
    (timer, $($rest:ident),*) => {
        #[inline]
        fn timer(&self) -> &Self::Timer { self.inner().timer() }
        #[inline]
        fn reading(&self) -> Option<u64> { self.inner().reading() }
        #[inline]
        fn parts(&self) -> Option<&Parts> { self.inner().parts() }
        #[inline]
        fn name(&self) -> Option<&str> { self.inner().name() }
        fn owned_name(&self) -> Option<Name> { self.inner().owned_name() }
        $($crate::upstream::wrapper::forward!($rest);)*
    };
    (demand) => {
        #[inline]
        fn demand(&self) -> Demand<'_> { self.inner().demand() }
    };
    (observer) => {
        #[inline]
        fn listens(&self) -> bool { self.inner().listens() }
        #[inline]
        fn wants_all(&self) -> bool { self.inner().wants_all() }
        #[inline]
        fn observe(&self, event: &Event<'_>) { self.inner().observe(event); }
    };
    () => {};
}
pub(super) use forward;

/// A target around an inner target.
pub(super) trait Wrapper {
    type Inner: Endpoint;
    fn inner(&self) -> &Self::Inner;
}

macro_rules! pointers {
    ($($pointer:ty),*) => {$(
        impl<X: Endpoint> Wrapper for $pointer {
            type Inner = X;
            #[inline]
            fn inner(&self) -> &X { self }
        }

        impl<X: Endpoint> Endpoint for $pointer {
            type Timer = X::Timer;
            type Sleep = X::Sleep;
            type Describe = X::Describe;
            type Slot = X::Slot;
            const ALONE: bool = X::ALONE;
            forward!(timer, observer, demand);
        }
    )*};
}

pointers!(&X, Arc<X>, LazyLock<X>);

/// An upstream with an additional observer for one call. Created by
/// [`Upstream::observed_by`](crate::Upstream::observed_by).
pub struct Observed<'a, X, O: ?Sized> {
    target: X,
    observer: &'a O,
}

impl<'a, X, O: ?Sized> Observed<'a, X, O> {
    pub(super) const fn new(target: X, observer: &'a O) -> Self {
        Self { target, observer }
    }
}

impl<X: Endpoint, O: ?Sized> Wrapper for Observed<'_, X, O> {
    type Inner = X;
    #[inline]
    fn inner(&self) -> &X {
        &self.target
    }
}

impl<X: Endpoint, O: Observe + ?Sized> Endpoint for Observed<'_, X, O> {
    type Timer = X::Timer;
    type Sleep = X::Sleep;
    type Describe = X::Describe;
    type Slot = X::Slot;
    forward!(timer, demand);

    #[inline]
    fn listens(&self) -> bool {
        self.target.listens() || self.observer.is_enabled()
    }

    #[inline]
    fn wants_all(&self) -> bool {
        self.target.wants_all() || (self.observer.is_enabled() && self.observer.wants_all())
    }

    fn observe(&self, event: &Event<'_>) {
        self.target.observe(event);
        self.observer.observe(event);
    }
}

/// An upstream for calls with errors that have only `Debug`. Created by
/// [`Upstream::debug`](crate::Upstream::debug).
#[derive(Clone, Copy, Debug)]
pub struct Debugged<X> {
    target: X,
}

impl<X> Debugged<X> {
    pub(super) const fn new(target: X) -> Self {
        Self { target }
    }

    /// Returns this upstream with an additional observer for one call.
    pub const fn observed_by<O: Observe + ?Sized>(self, observer: &O) -> Observed<'_, Self, O> {
        Observed::new(self, observer)
    }
}

impl<X: Endpoint> Wrapper for Debugged<X> {
    type Inner = X;
    #[inline]
    fn inner(&self) -> &X {
        &self.target
    }
}

impl<X: Endpoint> Endpoint for Debugged<X> {
    type Timer = X::Timer;
    type Sleep = X::Sleep;
    type Describe = ByDebug;
    type Slot = X::Slot;
    forward!(timer, observer, demand);
}

impl<X, O: ?Sized> fmt::Debug for Observed<'_, X, O>
where
    X: fmt::Debug,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observed").field("target", &self.target).finish_non_exhaustive()
    }
}
