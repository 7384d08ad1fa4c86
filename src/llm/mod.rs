//! stub page
mod body;
mod classifier;
mod codes;
mod failure;
mod finish;
mod google;
mod headers;
mod kind;
mod numbers;
mod phrases;
mod policy;
mod reply;
#[cfg(feature = "reqwest")]
mod reqwest;
mod rule;
mod statuses;
mod text;
mod transport;
mod wait;

#[cfg(feature = "reqwest")]
pub use self::reqwest::check;
pub use classifier::Classifier;
pub use failure::{Failure, Tokens};
pub use kind::{Kind, Phase, Recovery, Scope};
pub use policy::{batch, interactive};
pub use reply::Reply;
pub use rule::Rule;
