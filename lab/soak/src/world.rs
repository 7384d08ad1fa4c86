//! The upstreams under test and their clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use resile::quota::{Charge, Learning, Rate};
use resile::time::{ManualTimer, Timer};
use resile::{
    AdaptiveTimeout, Backoff, Breaker, Budget, Bulkhead, Cooldown, Jitter, Quota, Upstream,
};

use crate::dice::mixed;
use crate::fuse::Fuse;
use crate::host::{Exactness, Host};
use crate::ledger::Ledger;

/// Everything that calls share.
pub(crate) struct World {
    pub(crate) timer: ManualTimer,
    pub(crate) fuse: Arc<Fuse>,
    pub(crate) hosts: [Box<Host>; HOSTS],
    /// An upstream without parts.
    pub(crate) bare: Upstream<ManualTimer>,
    /// A bulkhead without an upstream.
    pub(crate) gate: Upstream<ManualTimer>,
    pub(crate) seed: u64,
    /// True if one thread runs all calls. Then nothing else changes between two of its steps.
    pub(crate) is_alone: bool,
    pub(crate) jumps: AtomicU64,
}

pub(crate) const HOSTS: usize = 6;
/// The upstream around calls on other upstreams. It has no quota.
pub(crate) const OUTER: usize = 5;

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The requests, the input, the output and the tokens of all exact quotas.
const RATES: [Rate; 4] = [
    Rate::per_second(500).with_burst(20),
    Rate::per_second(100_000).with_burst(3_000),
    Rate::per_second(50_000).with_burst(2_000),
    Rate::per_second(125_000).with_burst(4_000),
];

fn quota(charge: Charge) -> Quota {
    let [requests, input, output, tokens] = RATES;
    let quota = Quota::new().with_requests(requests).with_input(input).with_output(output);
    // A quota that learns hides a part of its burst and shows it later, which the ledger cannot follow.
    let quota = quota.with_learning(Learning::Off);
    quota.with_tokens(tokens).with_concurrency(5).with_queue(12).with_charge(charge)
}

fn budget(capacity: u32) -> Budget {
    Budget::new().with_capacity(capacity).with_deposit(1.0)
}

impl World {
    pub(crate) fn new(seed: u64, is_alone: bool) -> Self {
        let timer = ManualTimer::with_seed(seed);
        let fuse = Arc::new(Fuse::new(seed));
        let upstream = |name| Upstream::new(name).with_timer(timer.clone());
        let breaker = || {
            let open = Backoff::exponential(millis(10)).with_cap(millis(200));
            Breaker::new().with_consecutive(8).with_open_time(open)
        };
        let exact = |refunds| Some((Ledger::new(RATES, refunds), Exactness::Exact));
        let hosts = [
            Box::new(Host::new(
                upstream("all")
                    .with_budget(budget(100_000))
                    .with_breaker(breaker().with_failure_rate(0.6, 30).with_probes(0.6, 3))
                    .with_cooldown(Cooldown::new())
                    .with_bulkhead(Bulkhead::new(6).with_queue(12).with_max_wait(millis(400)))
                    .with_quota(quota(Charge::ACTUAL.with_maximum_reserved(true)))
                    .with_adaptive_timeout(AdaptiveTimeout::new()),
                50_000,
                Some(&fuse),
                exact(true),
            )),
            Box::new(Host::new(
                upstream("silent")
                    .with_budget(budget(100_000))
                    .with_breaker(breaker().with_lease(Duration::MAX))
                    .with_cooldown(Cooldown::new().with_cap(millis(200)))
                    .with_bulkhead(Bulkhead::new(4).with_queue(20))
                    .with_quota(quota(
                        Charge::ACTUAL.with_maximum_reserved(true).with_refund(false),
                    )),
                50_000,
                None,
                exact(false),
            )),
            Box::new(Host::new(
                upstream("learning")
                    .with_budget(budget(100_000))
                    .with_breaker(breaker().with_slow_rate(millis(500), 0.6, 30))
                    .with_cooldown(Cooldown::new())
                    .with_quota(quota(Charge::ACTUAL.with_maximum_reserved(true)))
                    .with_adaptive_timeout(AdaptiveTimeout::new()),
                50_000,
                Some(&fuse),
                Some((Ledger::new(RATES, true), Exactness::AtMost)),
            )),
            Box::new(Host::new(
                // The budget runs out within a few calls.
                upstream("poor")
                    .with_budget(Budget::new().with_capacity(20).with_deposit(0.1))
                    .with_breaker(
                        breaker()
                            .with_lease(Duration::MAX)
                            .with_open_time(Backoff::fixed(millis(30)).with_jitter(Jitter::Full)),
                    ),
                10,
                Some(&fuse),
                None,
            )),
            Box::new(Host::new(
                upstream("narrow")
                    .with_cooldown(Cooldown::new().with_jitter(0.0))
                    .with_bulkhead(Bulkhead::new(2).with_queue(30).with_max_wait(millis(300))),
                0,
                Some(&fuse),
                None,
            )),
            Box::new(Host::new(
                upstream("outer")
                    .with_budget(budget(100_000))
                    .with_breaker(breaker())
                    .with_bulkhead(Bulkhead::new(5).with_queue(10)),
                50_000,
                Some(&fuse),
                None,
            )),
        ];
        let gate = Upstream::new("gate").with_bulkhead(Bulkhead::new(2).with_queue(6));
        let gate = gate.with_observer(&()).with_timer(timer.clone());
        let bare = upstream("bare");
        Self { timer, fuse, hosts, bare, gate, seed, is_alone, jumps: AtomicU64::new(0) }
    }

    pub(crate) fn now(&self) -> Duration {
        self.timer.now()
    }

    pub(crate) fn advance(&self, by: Duration) {
        self.timer.advance(by);
        self.jumps.fetch_add(1, Relaxed);
    }

    /// Returns whether a host is down now. Each host is down for an eighth of all spans of 2 s.
    pub(crate) fn is_down(&self, host: usize) -> bool {
        let span = self.now().as_secs() / 2;
        mixed(self.seed ^ mixed(span << 3 | host as u64)).is_multiple_of(8)
    }
}
