//! The limiter of one client: a bulkhead of the crate, or the algorithm of another
//! library.

use std::time::Duration;

use resile::call::Admission;
use resile::time::ManualTimer;
use resile::{Bulkhead, Upstream, Verdict};

use super::peers::{Covariance, Ended, Envoy, Gradient2, Guard, Peer, Vegas};
use super::sim::seeded;

/// The way to a limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Way {
    /// The learned bulkhead of the crate.
    Learned,
    /// A bulkhead of the crate with this limit.
    Fixed(u32),
    Gradient2,
    Vegas,
    Envoy,
    Guard,
    Covariance,
}

impl Way {
    pub(super) fn name(self) -> String {
        match self {
            Way::Learned => "learned".to_owned(),
            Way::Fixed(limit) => format!("fixed {limit}"),
            Way::Gradient2 => "Gradient2".to_owned(),
            Way::Vegas => "Vegas".to_owned(),
            Way::Envoy => "Envoy".to_owned(),
            Way::Guard => "failsafe-go".to_owned(),
            Way::Covariance => "Cinnamon".to_owned(),
        }
    }

    /// Returns the upstream of a client. Its bulkhead has no effect on the other ways.
    pub(super) fn upstream(self, timer: &ManualTimer) -> Upstream<ManualTimer> {
        let bulkhead = match self {
            Way::Fixed(limit) => Bulkhead::new(limit),
            _ => Bulkhead::learned(1_000),
        };
        Upstream::new("server")
            .with_bulkhead(bulkhead.with_queue(0))
            .with_observer(&())
            .with_timer(timer.clone())
    }

    pub(super) fn gate(self, upstream: &Upstream<ManualTimer>, seed: u64) -> Gate<'_> {
        let rng = || seeded(seed + 1_000);
        let limiter = match self {
            Way::Learned | Way::Fixed(_) => Limiter::Crate(upstream),
            Way::Gradient2 => Limiter::Peer(Box::new(Gradient2::new())),
            Way::Vegas => Limiter::Peer(Box::new(Vegas::new(rng()))),
            Way::Envoy => Limiter::Peer(Box::new(Envoy::new(rng()))),
            Way::Guard => Limiter::Peer(Box::new(Guard::new())),
            Way::Covariance => Limiter::Peer(Box::new(Covariance::new())),
        };
        Gate { limiter, in_flight: 0 }
    }
}

pub(super) struct Gate<'a> {
    limiter: Limiter<'a>,
    in_flight: u32,
}

enum Limiter<'a> {
    Crate(&'a Upstream<ManualTimer>),
    Peer(Box<dyn Peer>),
}

/// An attempt in flight.
pub(super) struct Entered<'a> {
    admission: Option<Admission<&'a Upstream<ManualTimer>>>,
    began: Duration,
    at_begin: u32,
}

impl<'a> Gate<'a> {
    pub(super) fn limit(&self) -> f64 {
        match &self.limiter {
            Limiter::Crate(upstream) => f64::from(upstream.bulkhead().unwrap().limit()),
            Limiter::Peer(peer) => peer.limit(),
        }
    }

    /// Begins an attempt if the limit has room.
    pub(super) fn enter(&mut self, now: Duration) -> Option<Entered<'a>> {
        let admission = match &self.limiter {
            Limiter::Crate(upstream) => Some(upstream.try_admit().ok()?),
            Limiter::Peer(peer) if f64::from(self.in_flight) < peer.limit().floor() => None,
            Limiter::Peer(_) => return None,
        };
        self.in_flight += 1;
        Some(Entered { admission, began: now, at_begin: self.in_flight })
    }

    /// Ends an attempt with an answer. Returns its latency.
    pub(super) fn succeeded(&mut self, entered: Entered<'a>, now: Duration) -> Duration {
        let Entered { admission, began, at_begin } = entered;
        match (&mut self.limiter, admission) {
            (_, Some(admission)) => admission.succeeded(),
            (Limiter::Peer(peer), None) => peer.ended(Ended {
                began: began.as_secs_f64(),
                now: now.as_secs_f64(),
                at_begin,
                at_end: self.in_flight,
            }),
            (Limiter::Crate(_), None) => {}
        }
        self.in_flight -= 1;
        now.saturating_sub(began)
    }

    /// Ends an attempt that the server has refused. The peers that learn from latencies ignore it.
    pub(super) fn refused(&mut self, entered: Entered<'a>) {
        if let Some(admission) = entered.admission {
            admission.settle(&Verdict::throttled());
        }
        self.in_flight -= 1;
    }
}
