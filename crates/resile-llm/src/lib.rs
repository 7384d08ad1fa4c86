#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

pub use resile;

mod body;
pub mod charge;
mod classifier;
mod codes;
mod display;
mod evidence;
mod failure;
mod finder;
mod finish;
mod generic;
mod google;
mod grammar;
#[cfg(all(feature = "reqwest", any(doc, doctest)))]
pub mod guide;
mod headers;
mod kind;
mod known;
mod limits;
mod normal;
mod numbers;
mod phrases;
mod policy;
mod reply;
mod report;
#[cfg(feature = "reqwest")]
mod reqwest;
mod rule;
mod span;
mod statuses;
mod text;
mod tokens;
mod transport;
mod usage;
mod vocabulary;
mod wait;

#[cfg(feature = "reqwest")]
pub use self::reqwest::{error_for_status, read_answer};
pub use classifier::Classifier;
pub use failure::Failure;
pub use kind::{Kind, Phase, Recovery, Scope};
pub use limits::{learn_limits, limits};
pub use policy::{batch, interactive};
pub use reply::Reply;
pub use rule::Rule;
pub use tokens::Tokens;
pub use usage::{record_usage, usage};
