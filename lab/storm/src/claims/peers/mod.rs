//! The algorithms by which other libraries learn a limit, from their sources, in a few lines each.

mod covariance;
mod envoy;
mod gradient2;
mod guard;
mod vegas;
mod window;

pub(super) use covariance::Covariance;
pub(super) use envoy::Envoy;
pub(super) use gradient2::Gradient2;
pub(super) use guard::Guard;
pub(super) use vegas::Vegas;

/// An attempt that has ended, with times in seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended {
    pub(super) began: f64,
    pub(super) now: f64,
    /// The attempts in flight when it began, itself included.
    pub(super) at_begin: u32,
    /// The attempts in flight when it ended, itself included.
    pub(super) at_end: u32,
}

impl Ended {
    fn latency(self) -> f64 {
        self.now - self.began
    }
}

/// An algorithm that learns a limit from latencies.
pub(super) trait Peer {
    fn limit(&self) -> f64;

    fn ended(&mut self, ended: Ended);
}
