//! The rules of a retry as plain data and the decision after a failed attempt.
//!
//! [`RetryPolicy`], [`Attempt`] and [`StopReason`] themselves are at the root of the crate.

mod as_policy;
pub(crate) mod attempt;
mod common;
mod decide;
pub(crate) mod decision;
mod effect;
pub(crate) mod policy;
mod presets;
mod settings;

pub(crate) use self::policy::RetryPolicy;
pub use as_policy::AsPolicy;
pub(crate) use attempt::Attempt;
pub(crate) use common::{Rules, common_settings, rules};
pub use decision::Decision;
pub(crate) use decision::{
    AFTER_DOUBT, AFTER_PART, DROPPED, IN_DOUBT, LACKS_LEASE, NO_OPINION, NOT_WANTED, StopReason,
};
pub(crate) use effect::{Doubt, Effect, Request, Sending};
