//! The rules by which providers charge a call to a quota of tokens.
//!
//! A quota follows the provider's own count only if it charges as the provider does. Providers
//! change their rules, so each constant names the month of its source. Compare it with the
//! provider's documentation. For another rule change a constant by the setters of [`Charge`].
//!
//! | constant | charged at the start | charged at the end |
//! |---|---|---|
//! | [`ANTHROPIC`] | the input without cache reads | the output |
//! | [`BEDROCK`] | all input and the most output (64,000 if unlimited) | the input without cache reads, and the output |
//! | [`OPENAI`], [`AZURE`] | the input and the most output | no change |
//! | [`CEREBRAS`] | the input and the most output (the rest of the context if unlimited) | no change |
//! | [`GROQ`] | the input without cache reads | the output |
//!
//! A provider that charges the output at the end has none at the start. So the quota reserves an
//! [`Estimate`](resile::quota::Estimate) of it. Until 30 calls are known, this is the
//! [most output](resile::quota::Cost::with_max_output) of the call, and a fresh process sends few calls at a
//! time. Without a maximum it is the largest output so far.
//!
//! # Examples
//!
//! ```
//! use resile::quota::{Charge, Rate};
//! use resile::Quota;
//! use resile_llm::charge;
//!
//! // A model whose output counts five times.
//! const CHARGE: Charge = charge::BEDROCK.with_output_weight(5.0);
//! let quota = Quota::new()
//!     .with_tokens(Rate::per_minute(2_000_000))
//!     .with_charge(CHARGE);
//! assert_eq!(quota.charge().output_weight(), 5.0);
//! ```
//!
//! # In a configuration file
//!
//! The setting `charge` of a quota is a map of the same settings (feature `serde` of `resile`). A
//! file keeps the rule that was written, also if a later version of this crate changes a constant.
//!
//! | constant | `charge` in JSON |
//! |---|---|
//! | [`ANTHROPIC`], [`GROQ`] | `{ "cache_read_weight": 0 }` |
//! | [`BEDROCK`] | `{ "maximum_reserved": true, "default_maximum": 64000, "cache_read_weight": 0 }` |
//! | [`OPENAI`], [`AZURE`], [`CEREBRAS`] | `{ "maximum_reserved": true, "refund": false }` |

use resile::quota::Charge;

/// Anthropic's API (2026-06): output counts as it is made, and input read from a cache is free on
/// most models.
pub const ANTHROPIC: Charge = Charge::ACTUAL.with_cache_read_weight(0.0);

/// The runtime endpoint of Amazon Bedrock (2026-07): all input and the most output are reserved at
/// the start. At the end the actual output counts, and input read from a cache is free. The output
/// of newer Claude models counts five times: set
/// [`with_output_weight`](Charge::with_output_weight).
pub const BEDROCK: Charge = Charge::ACTUAL
    .with_maximum_reserved(true)
    .with_default_maximum(64_000)
    .with_cache_read_weight(0.0);

/// OpenAI's API (2026-09): the most output counts at the start, and nothing is refunded.
pub const OPENAI: Charge = Charge::ACTUAL.with_maximum_reserved(true).with_refund(false);

/// Azure OpenAI (2026-09): charges as OpenAI does.
pub const AZURE: Charge = OPENAI;

/// Cerebras (2026-09): the input and the most output count, and nothing is refunded. If requests do
/// not limit their output, set the length of the context as
/// [`with_default_maximum`](Charge::with_default_maximum).
pub const CEREBRAS: Charge = OPENAI;

/// Groq (2026-09): the actual usage counts, without input read from a cache.
pub const GROQ: Charge = Charge::ACTUAL.with_cache_read_weight(0.0);
