//! A middleware for `reqwest-middleware` 0.5.

mod attempt;
mod middleware;
mod on;

pub use middleware::RetryMiddleware;
pub use on::On;
