//! Configuration with readable durations. An error names the setting, its value and the valid form.

pub mod duration;
mod hedge;
mod parts;
mod policy;
mod quota;

mod settings;
mod upstream;
mod visit;
