//! Single attempts on an upstream, without a retry: [`Upstream::call`](crate::Upstream::call) and [`Upstream::admit`](crate::Upstream::admit).
//!
//! The guide has a chapter on [load](crate::guide::load).

mod admission;
mod admitting;
mod at_cost;
mod before_sending;
mod call;
mod future;
mod rules;

pub use admission::Admission;
pub use admitting::Admitting;
pub use before_sending::BeforeSending;
pub use future::Call;
