//! A middleware for `reqwest-middleware` 0.5.

mod attempt;
mod inner;
mod middleware;
mod on;
mod place;

pub use middleware::RetryMiddleware;
pub use on::On;
