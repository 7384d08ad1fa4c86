// The text is in `docs/guide/`, one file for each chapter. Only documentation and doctests compile this module.
//
// rustdoc keeps raw SVG whole as long as it has no blank line, so the pictures are part of the page.
#![doc = include_str!("../docs/guide/guide.md")]

#[doc = include_str!("../docs/guide/first_call.md")]
pub mod first_call {}

#[cfg(feature = "reqwest")]
#[doc = include_str!("../docs/guide/classifying.md")]
pub mod classifying {}

#[cfg(feature = "tokio")]
#[doc = include_str!("../docs/guide/timeouts.md")]
pub mod timeouts {}

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
#[doc = include_str!("../docs/guide/configuration.md")]
pub mod configuration {}

#[cfg(all(feature = "tracing", feature = "metrics"))]
#[doc = include_str!("../docs/guide/observing.md")]
pub mod observing {}

#[cfg(feature = "stream")]
#[doc = include_str!("../docs/guide/streams.md")]
pub mod streams {}

#[cfg(feature = "reqwest")]
#[doc = include_str!("../docs/guide/llm.md")]
pub mod llm {}

#[cfg(feature = "chaos")]
#[doc = include_str!("../docs/guide/testing.md")]
pub mod testing {}

#[doc = include_str!("../docs/guide/runtimes.md")]
pub mod runtimes {}

#[doc = include_str!("../docs/guide/migrating.md")]
pub mod migrating {}

// A page of rustdoc has no files beside it. Its picture is drawn below it instead.
#[doc = include_str!("../DESIGN.md")]
#[doc = ""]
#[doc = "<figure class=\"picture\">"]
#[doc = include_str!("../docs/fleet.svg")]
#[doc = "<figcaption>The picture of the section on cooldowns: a fleet at a rate limit of 500 a second.</figcaption>"]
#[doc = "</figure>"]
#[doc = ""]
#[doc = "<style>img[src='docs/fleet.svg'] { display: none } .picture svg { max-width: 100%; height: auto }</style>"]
pub mod design {}

#[doc = include_str!("../COMPARE.md")]
pub mod compare {}
