// The text is in `docs/guide/`, one file for each chapter. Only rustdoc compiles this module.
//
// rustdoc keeps raw SVG whole if the SVG has no blank line. So the pictures are part of the page.
//
// A chapter needs the features of the items in its links. Without these features a link to the
// chapter leads to the table of features.
#![cfg_attr(not(feature = "reqwest"), doc = "[`classifying`]: crate#features")]
#![cfg_attr(not(feature = "tokio"), doc = "[`timeouts`]: crate#features")]
#![cfg_attr(not(feature = "serde"), doc = "[`configuration`]: crate#features")]
#![cfg_attr(not(feature = "stream"), doc = "[`streams`]: crate#features")]
#![cfg_attr(not(feature = "reqwest"), doc = "[`quotas`]: crate#features")]
#![cfg_attr(not(feature = "chaos"), doc = "[`testing`]: crate#features")]
#![cfg_attr(
    not(all(feature = "tracing", feature = "metrics")),
    doc = "[`observing`]: crate#features"
)]
#![doc = ""]
#![doc = include_str!("../docs/guide/guide.md")]

#[cfg_attr(not(feature = "reqwest"), doc = "[`classifying`]: crate#features")]
#[cfg_attr(feature = "http", doc = "[`Failure`]: crate::http::Failure")]
#[cfg_attr(not(feature = "http"), doc = "[`Failure`]: crate#features")]
#[doc = ""]
#[doc = include_str!("../docs/guide/first_call.md")]
pub mod first_call {}

#[cfg(feature = "reqwest")]
#[cfg_attr(not(feature = "tokio"), doc = "[`timeouts`]: crate#features")]
#[doc = ""]
#[doc = include_str!("../docs/guide/classifying.md")]
pub mod classifying {}

#[cfg(feature = "tokio")]
#[doc = include_str!("../docs/guide/timeouts.md")]
pub mod timeouts {}

#[cfg_attr(not(feature = "reqwest"), doc = "[`classifying`]: crate#features")]
#[cfg_attr(not(feature = "serde"), doc = "[`configuration`]: crate#features")]
#[cfg_attr(not(feature = "reqwest"), doc = "[`quotas`]: crate#features")]
#[cfg_attr(feature = "http", doc = "[`Failure`]: crate::http::Failure")]
#[cfg_attr(not(feature = "http"), doc = "[`Failure`]: crate#features")]
#[doc = ""]
#[doc = include_str!("../docs/guide/load.md")]
#[doc = ""]
#[doc = "<figure id=\"collapse\" class=\"picture\">"]
#[doc = include_str!("../docs/collapse.svg")]
#[doc = "<figcaption>A spike and a ramp: answers a second, as means of 600 runs.</figcaption>"]
#[doc = "</figure>"]
#[doc = ""]
#[doc = "<figure id=\"storm\" class=\"picture\">"]
#[doc = include_str!("../docs/storm.svg")]
#[doc = "<figcaption>A standstill of ten seconds: answers in time, and load.</figcaption>"]
#[doc = "</figure>"]
#[doc = ""]
#[doc = "<figure id=\"fleet\" class=\"picture\">"]
#[doc = include_str!("../docs/fleet.svg")]
#[doc = "<figcaption>A fleet at a rate limit of 500 a second: requests a second.</figcaption>"]
#[doc = "</figure>"]
#[doc = ""]
#[doc = "<style>.picture { margin: 1em 0 } .picture svg { max-width: 100%; height: auto }</style>"]
#[doc = ""]
#[doc = "Next: [`configuration`]."]
pub mod load {}

#[cfg(feature = "serde")]
#[cfg_attr(
    not(all(feature = "tracing", feature = "metrics")),
    doc = "[`observing`]: crate#features"
)]
#[doc = ""]
#[doc = include_str!("../docs/guide/configuration.md")]
pub mod configuration {}

#[cfg(all(feature = "tracing", feature = "metrics"))]
#[cfg_attr(not(feature = "stream"), doc = "[`streams`]: crate#features")]
#[doc = ""]
#[doc = include_str!("../docs/guide/observing.md")]
pub mod observing {}

#[cfg(feature = "stream")]
#[cfg_attr(not(feature = "reqwest"), doc = "[`quotas`]: crate#features")]
#[doc = ""]
#[doc = include_str!("../docs/guide/streams.md")]
pub mod streams {}

#[cfg(feature = "reqwest")]
#[doc = include_str!("../docs/guide/quotas.md")]
#[doc = ""]
#[doc = "<figure id=\"quota\" class=\"picture\">"]
#[doc = include_str!("../docs/quota.svg")]
#[doc = "<figcaption>One account: the used share of its limit, and refusals.</figcaption>"]
#[doc = "</figure>"]
#[doc = ""]
#[doc = "<figure id=\"priority\" class=\"picture\">"]
#[doc = include_str!("../docs/priority.svg")]
#[doc = "<figcaption>512 agents at a limit of 10 calls a second: finished agents.</figcaption>"]
#[doc = "</figure>"]
#[doc = ""]
#[doc = "<style>.picture { margin: 1em 0 } .picture svg { max-width: 100%; height: auto }</style>"]
#[doc = ""]
#[doc = "Next: [`fleet`]."]
pub mod quotas {}

#[cfg_attr(not(feature = "reqwest"), doc = "[`quotas`]: crate#features")]
#[cfg_attr(not(feature = "chaos"), doc = "[`testing`]: crate#features")]
#[doc = ""]
#[doc = include_str!("../docs/guide/fleet.md")]
#[doc = ""]
#[doc = "<figure id=\"fleet-redis\" class=\"picture\">"]
#[doc = include_str!("../docs/fleet-redis.svg")]
#[doc = "<figcaption>Eight processes with one limit of 200 a second: what the provider got.</figcaption>"]
#[doc = "</figure>"]
#[doc = ""]
#[doc = "<style>.picture { margin: 1em 0 } .picture svg { max-width: 100%; height: auto }</style>"]
#[doc = ""]
#[doc = "Next: [`testing`]."]
pub mod fleet {}

#[cfg(feature = "chaos")]
#[doc = include_str!("../docs/guide/testing.md")]
pub mod testing {}

// It links to `ThreadTimer`, which does not exist there.
#[cfg_attr(
    all(target_family = "wasm", target_os = "unknown"),
    allow(rustdoc::broken_intra_doc_links)
)]
#[doc = include_str!("../docs/guide/runtimes.md")]
pub mod runtimes {}

#[cfg_attr(not(feature = "reqwest"), doc = "[`classifying`]: crate#features")]
#[doc = ""]
#[doc = include_str!("../docs/guide/migrating.md")]
pub mod migrating {}

// A page of rustdoc has no files beside it. So the picture stands at the end of the page.
#[doc = include_str!("../DESIGN.md")]
#[doc = ""]
#[doc = "<figure class=\"picture\">"]
#[doc = include_str!("../docs/fleet.svg")]
#[doc = "<figcaption>The section on cooldowns: a fleet at a rate limit of 500 a second.</figcaption>"]
#[doc = "</figure>"]
#[doc = ""]
#[doc = "<style>img[src='docs/fleet.svg'] { display: none }</style>"]
#[doc = "<style>.picture svg { max-width: 100%; height: auto }</style>"]
pub mod design {}

#[doc = include_str!("../COMPARE.md")]
pub mod compare {}
