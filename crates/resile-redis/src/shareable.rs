use std::ops::Deref;
use std::sync::Arc;

use resile::Upstream;
use resile::time::Timer;

/// An upstream that can join a [`Fleet`](crate::Fleet): a `&'static Upstream` or an
/// `Arc<Upstream>`. Sealed.
///
/// A reference to a local upstream is not enough, because the task of the fleet may outlive it. Put
/// such an upstream into an `Arc`:
///
/// ```no_run
/// # use std::sync::Arc;
/// # use resile::{Breaker, Upstream};
/// # fn join(fleet: &resile_redis::Fleet) -> Result<(), resile_redis::JoinError> {
/// let upstream = Arc::new(Upstream::new("weather").with_breaker(Breaker::new()));
/// fleet.join(Arc::clone(&upstream))?;
/// # Ok(())
/// # }
/// ```
///
/// ```compile_fail,E0597
/// # use resile::{Breaker, Upstream};
/// # fn join(fleet: &resile_redis::Fleet) -> Result<(), resile_redis::JoinError> {
/// let upstream = Upstream::new("weather").with_breaker(Breaker::new());
/// fleet.join(&upstream)?; // `upstream` does not live long enough
/// # Ok(())
/// # }
/// ```
///
/// ```compile_fail,E0277
/// # use resile::{Breaker, Upstream};
/// # fn join(fleet: &resile_redis::Fleet) -> Result<(), resile_redis::JoinError> {
/// fleet.join(Upstream::new("weather").with_breaker(Breaker::new()))?;
/// # Ok(())
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot join a fleet: keep it in a `static` and pass `&UPSTREAM`, or pass an `Arc<Upstream>`",
    label = "neither a `&'static Upstream` nor an `Arc<Upstream>`",
    note = "the task of the fleet may outlive a local upstream, so a reference to one is not enough",
    note = "of a `LazyLock` in a `static` pass `&*UPSTREAM`"
)]
pub trait Shareable<M>:
    Deref<Target = Upstream<M>> + Send + Sync + sealed::Sealed + 'static
{
}

impl<M: Timer + Send + Sync + 'static> Shareable<M> for &'static Upstream<M> {}
impl<M: Timer + Send + Sync + 'static> Shareable<M> for Arc<Upstream<M>> {}

mod sealed {
    use std::sync::Arc;

    use resile::Upstream;

    pub trait Sealed {}

    impl<M> Sealed for &'static Upstream<M> {}
    impl<M> Sealed for Arc<Upstream<M>> {}
}
