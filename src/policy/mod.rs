//! The rules of a retry as plain data and the decision after a failed attempt.

mod as_policy;
mod attempt;
mod common;
mod decide;
mod decision;
mod policy;
mod presets;
mod settings;

pub use self::policy::RetryPolicy;
pub use as_policy::AsPolicy;
pub use attempt::Attempt;
pub(crate) use common::{Rules, common_settings, rules};
pub use decision::{Decision, StopReason};
