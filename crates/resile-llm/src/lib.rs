// A page in Markdown defines its links for readers of the file, and the first definition of a label
// counts. So rustdoc takes the definitions before the page.
#![doc = include_str!("front.md")]
#![cfg_attr(feature = "reqwest", doc = "[`error_for_status`]: crate::error_for_status")]
#![cfg_attr(not(feature = "reqwest"), doc = "[`error_for_status`]: #features")]
#![cfg_attr(feature = "reqwest", doc = "[`read_answer`]: crate::read_answer")]
#![cfg_attr(not(feature = "reqwest"), doc = "[`read_answer`]: #features")]
#![cfg_attr(feature = "stream", doc = "[`events`]: crate::events()")]
#![cfg_attr(not(feature = "stream"), doc = "[`events`]: #features")]
#![cfg_attr(feature = "stream", doc = "[`retry_events`]: crate::retry_events()")]
#![cfg_attr(not(feature = "stream"), doc = "[`retry_events`]: #features")]
#![cfg_attr(all(feature = "reqwest", feature = "stream"), doc = "[guide]: crate::guide")]
#![cfg_attr(not(all(feature = "reqwest", feature = "stream")), doc = "[guide]: #features")]
#![cfg_attr(all(feature = "reqwest", feature = "stream"), doc = "[rules]: crate::guide::rules")]
#![cfg_attr(not(all(feature = "reqwest", feature = "stream")), doc = "[rules]: #features")]
#![cfg_attr(all(feature = "reqwest", feature = "stream"), doc = "[agent]: crate::guide::agent")]
#![cfg_attr(not(all(feature = "reqwest", feature = "stream")), doc = "[agent]: #features")]
#![cfg_attr(
    all(feature = "reqwest", feature = "stream"),
    doc = "[failures]: crate::guide::failures"
)]
#![cfg_attr(not(all(feature = "reqwest", feature = "stream")), doc = "[failures]: #features")]
#![cfg_attr(all(feature = "reqwest", feature = "stream"), doc = "[streams]: crate::guide::streams")]
#![cfg_attr(not(all(feature = "reqwest", feature = "stream")), doc = "[streams]: #features")]
#![doc = ""]
#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

pub use resile;

mod bill;
#[cfg(feature = "stream")]
mod billed;
mod body;
pub mod charge;
mod classifier;
mod codes;
mod display;
#[cfg(feature = "stream")]
mod event;
#[cfg(feature = "stream")]
mod events;
mod evidence;
mod exceptions;
mod explain;
mod failure;
mod finder;
mod finish;
mod generic;
mod google;
mod grammar;
#[cfg(all(feature = "reqwest", feature = "stream", any(doc, doctest)))]
pub mod guide;
mod headers;
#[cfg(feature = "stream")]
mod in_band;
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
#[cfg(feature = "stream")]
mod retry_events;
mod rule;
mod span;
mod spoken;
#[cfg(feature = "stream")]
mod sse;
mod statuses;
mod text;
mod tokens;
#[cfg(feature = "stream")]
mod tool_calls;
mod transport;
mod usage;
mod verdict;
mod vocabulary;
mod wait;

#[cfg(feature = "reqwest")]
pub use self::reqwest::{error_for_status, read_answer};
pub use bill::Bill;
pub use classifier::Classifier;
#[cfg(feature = "stream")]
pub use event::Event;
#[cfg(feature = "stream")]
pub use events::{Events, events};
pub use explain::{Certainty, Explanation, Reason};
pub use failure::Failure;
pub use kind::{Kind, Phase, Recovery, Scope};
pub use limits::{learn_limits, limits};
pub use policy::{another_model, batch, breaker, interactive, recovery, upstream, upstream_named};
pub use reply::Reply;
#[cfg(feature = "stream")]
pub use retry_events::retry_events;
pub use rule::Rule;
pub use tokens::Tokens;
#[cfg(feature = "stream")]
pub use tool_calls::{ToolCall, ToolCalls};
pub use usage::{record_usage, usage};

#[cfg(test)]
mod left_out;
#[cfg(test)]
mod supported;
#[cfg(test)]
mod trial;
