//! The claims of the example `storm` in a browser. Sliders change the calls, and the models run in
//! virtual time on the page itself.
//!
//! The script of the page only moves values: each figure, each sentence and each picture comes from
//! here.
#![cfg(target_family = "wasm")]

#[path = "../../storm/catalogue.rs"]
mod catalogue;
#[path = "../../storm/claims/mod.rs"]
#[allow(dead_code, reason = "some items are used in a terminal only")]
mod claims;
mod page;
mod picture;
#[path = "../../storm/plots/mod.rs"]
mod plots;
mod scene;
mod slider;
#[path = "../../storm/tally.rs"]
#[allow(dead_code, reason = "the terminal also prints the names of the rows")]
mod tally;
mod words;
