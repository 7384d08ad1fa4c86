//! Configuration: durations as people write them, and errors that name the setting, its value and what would be right.

pub mod duration;
mod hedge;
mod parts;
mod policy;

mod settings;
mod upstream;
mod visit;
