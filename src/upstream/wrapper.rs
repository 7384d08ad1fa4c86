use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::{Arc, LazyLock};

use super::explain::{By, ByDisplay};
use super::{Endpoint, Name, Parts, Target};
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
        #[inline]
        fn writes_log(&self) -> bool { self.inner().writes_log() }
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

/// A target for calls with errors that are printed as the marker `M` says. Made by `.on(target)`.
///
/// The compiler infers the [marker](crate::upstream::markers). Name this type only to store a call.
pub struct Via<X, M> {
    target: X,
    marker: PhantomData<fn() -> M>,
}

impl<X, M> Via<X, M> {
    #[inline]
    pub(crate) const fn new(target: X) -> Self {
        Self { target, marker: PhantomData }
    }
}

impl<X: Endpoint, M> Wrapper for Via<X, M> {
    type Inner = X;
    #[inline]
    fn inner(&self) -> &X {
        &self.target
    }
}

// `on` checks the target. A second check would report the same mistake once more.
impl<X: Endpoint, M> Target for Via<X, M> {}

impl<X: Endpoint, M> Endpoint for Via<X, M> {
    type Timer = X::Timer;
    type Sleep = X::Sleep;
    type Describe = By<X::Describe, M>;
    type Slot = X::Slot;
    const ALONE: bool = X::ALONE;
    forward!(timer, observer, demand);
}

impl<X: fmt::Debug, M> fmt::Debug for Via<X, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Via").field(&self.target).finish()
    }
}

/// An upstream with an additional observer for one call. Made by
/// [`Upstream::observed_by`](crate::Upstream::observed_by).
///
/// # Examples
///
/// A call that borrows nothing and can be spawned:
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use resile::observe::Event;
/// use resile::upstream::Observed;
/// use resile::{Never, RetryPolicy, Upstream, retry};
/// use std::sync::Arc;
///
/// let upstream = Arc::new(Upstream::named("weather"));
/// let progress = Arc::new(|event: &Event<'_>| println!("{event}"));
/// let target = Observed::new(upstream, progress);
/// # async fn fetch() -> std::io::Result<u32> { Ok(18) }
/// let call = retry(|_| fetch(), RetryPolicy::new(), Never).on(target);
/// assert_eq!(tokio::spawn(call).await.unwrap().unwrap(), 18);
/// # }
/// ```
pub struct Observed<X, P> {
    target: X,
    observer: P,
}

impl<X, P> Observed<X, P> {
    /// Creates a target from another one and a pointer to an observer: `&O` or `Arc<O>`. Use this
    /// for an `Arc<Upstream>`.
    pub const fn new(target: X, observer: P) -> Self
    where
        P: Deref<Target: Observe>,
    {
        Self { target, observer }
    }
}

impl<X: Endpoint, P> Wrapper for Observed<X, P> {
    type Inner = X;
    #[inline]
    fn inner(&self) -> &X {
        &self.target
    }
}

impl<X: Target, P: Deref<Target: Observe>> Target for Observed<X, P> {}

impl<X: Endpoint, P: Deref<Target: Observe>> Endpoint for Observed<X, P> {
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
        // The target may listen although this observer does not.
        if self.observer.is_enabled() {
            self.observer.observe(event);
        }
    }

    fn writes_log(&self) -> bool {
        self.target.writes_log() || self.observer.writes_log()
    }
}

impl<X: fmt::Debug, P> fmt::Debug for Observed<X, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observed").field("target", &self.target).finish_non_exhaustive()
    }
}

/// A target whose log prints the `Display` of errors. Made by
/// [`Upstream::display`](crate::Upstream::display).
#[derive(Clone, Copy, Debug)]
pub struct Displayed<X> {
    target: X,
}

impl<X> Displayed<X> {
    /// Creates a target from another one. Use this for an `Arc<Upstream>` or a name.
    pub const fn new(target: X) -> Self {
        Self { target }
    }

    /// Returns this target with an additional observer for one call.
    pub const fn observed_by<O: Observe + ?Sized>(self, observer: &O) -> Observed<Self, &O> {
        Observed::new(self, observer)
    }
}

impl<X: Endpoint> Wrapper for Displayed<X> {
    type Inner = X;
    #[inline]
    fn inner(&self) -> &X {
        &self.target
    }
}

impl<X: Target> Target for Displayed<X> {}

impl<X: Endpoint> Endpoint for Displayed<X> {
    type Timer = X::Timer;
    type Sleep = X::Sleep;
    type Describe = ByDisplay;
    type Slot = X::Slot;
    const ALONE: bool = X::ALONE;
    forward!(timer, observer, demand);
}
