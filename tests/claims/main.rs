//! Published claims about retries, run as models: seeded, in virtual time, and driven by the crate's own types.
//!
//! Each asserts the bad outcome without the remedy as well as the good one with it, as a model that never collapses
//! proves nothing. `cargo test` runs fewer seeds or shorter runs; the claims in full are
//! `cargo test --release --test claims -- --ignored`, and `--nocapture` shows what was measured.

#![expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "statistics")]

mod bucket;
mod cap;
mod collapse;
mod exact;
mod jitter;
mod sim;
mod storm;
