#[path = "../../../../src/time/nanos.rs"]
mod nanos;

pub(crate) use nanos::nanos;
