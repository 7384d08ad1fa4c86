//! Configuration with readable durations. An error names the setting, its place, its value and the
//! valid form.

mod backoff;
mod breaker;
pub mod duration;
mod hedge;
mod learning;
mod parts;
mod place;
mod policy;
mod quota;
mod rate;
mod settings;
mod upstream;
mod visit;
