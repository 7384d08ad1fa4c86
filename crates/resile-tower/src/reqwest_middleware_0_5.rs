//! A middleware for `reqwest-middleware` 0.5.

mod attempt;
mod end;
mod inner;
mod middleware;
mod on;
mod place;

pub use end::gave_up;
pub use middleware::RetryMiddleware;
pub use on::On;
