//! The ways to make a request again for the next attempt.
//!
//! | way | made by | the service gets |
//! |---|---|---|
//! | [`Cloned`] | the default | the request, which is `Clone` |
//! | [`By`] | [`.replaying(…)`](crate::RetryLayer::replaying) | what the function makes of the request |
//! | `Kept` | `.keeping(limit)` | an `http::Request` with a body that is kept while it is sent |
//!
//! A request that cannot be made again is an error of the compiler, and never a call without a retry.

mod by;
mod cloned;

use std::borrow::Cow;

pub use by::By;
pub use cloned::Cloned;
pub(crate) use sealed::{Check, Copies, Replay as SealedReplay};

/// A way to make the requests `Req` again. Sealed: the [table](self) lists all of them.
///
/// A request that is not `Clone` does not compile without another way:
///
/// ```compile_fail,E0277
/// # use resile_tower::{RetryLayer, resile::RetryPolicy};
/// # use tower::{Layer, Service, service_fn};
/// struct Order(u32); // not `Clone`
///
/// fn client<S: Service<Order>>(service: S) {}
///
/// let service = service_fn(async |order: Order| Ok::<_, std::io::Error>(order.0));
/// client(RetryLayer::new(RetryPolicy::new()).layer(service));
/// ```
///
/// It compiles with one:
///
/// ```
/// # use resile_tower::{RetryLayer, resile::RetryPolicy};
/// # use tower::{Layer, Service, service_fn};
/// struct Order(u32); // not `Clone`
///
/// fn client<S: Service<Order>>(service: S) {}
///
/// let service = service_fn(async |order: Order| Ok::<_, std::io::Error>(order.0));
/// let layer = RetryLayer::new(RetryPolicy::new());
/// client(layer.replaying(|order: &Order, _| Order(order.0)).layer(service));
/// ```
#[diagnostic::on_unimplemented(
    message = "a request of type `{Req}` cannot be made again by `{Self}`",
    label = "the next attempt would have no request",
    note = "derive `Clone` for the request, or say how it is made again: `.replaying(|request: &Request, attempt| …)`",
    note = "for an `http::Request` whose body is not `Clone`, keep the body while it is sent: `.keeping(65_536)`"
)]
pub trait Replay<Req>: SealedReplay<Req> {}

// Otherwise the compiler names the sealed trait, or `Clone` alone.
#[diagnostic::do_not_recommend]
impl<Req, R: SealedReplay<Req>> Replay<Req> for R {}

mod sealed {
    use super::Cow;
    use resile::Attempt;

    #[diagnostic::on_unimplemented(
        message = "a request of type `{Req}` cannot be made again by `{Self}`",
        label = "the next attempt would have no request",
        note = "derive `Clone` for the request, or say how it is made again: `.replaying(|request: &Request, attempt| …)`",
        note = "for an `http::Request` whose body is not `Clone`, keep the body while it is sent: `.keeping(65_536)`"
    )]
    pub trait Replay<Req> {
        /// The request that the inner service gets.
        type Request;
        type Copies: Copies<Request = Self::Request>;

        /// Takes the request of a call with this number of attempts.
        fn copies(&self, request: Req, attempts: u32) -> Self::Copies;
    }

    /// The requests of one call.
    pub trait Copies {
        type Request;
        type Check: Check + Clone;

        /// Returns the request of an attempt. `None` if it cannot be made again.
        fn next(&mut self, attempt: Attempt) -> Option<Self::Request>;

        fn check(&self) -> Self::Check;
    }

    /// Knows whether the request can be made again.
    pub trait Check {
        /// Returns the reason why it cannot.
        fn once(&self) -> Option<Cow<'static, str>>;
    }

    /// It always can.
    impl Check for () {
        fn once(&self) -> Option<Cow<'static, str>> {
            None
        }
    }
}
