//! The claims of `storm` in a browser. Sliders change the calls, and the models run in virtual time on
//! the page itself.
//!
//! The script of the page only moves values: each figure, each sentence and each picture comes from
//! here.
#![cfg(target_family = "wasm")]

mod client;
pub mod page;
mod picture;
mod scene;
mod slider;
mod words;
