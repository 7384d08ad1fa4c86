//! A call on an upstream in a fleet allocates nothing and costs little more than without. This test
//! is its own binary, because the counter is the allocator of the whole program.

#[path = "support/server.rs"]
mod server;

use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use allocation_counter::measure;
use resile::fleet::State;
use resile::quota::{Dimension, Rate};
use resile::{Quota, Upstream};
use resile_redis::Fleet;
use server::Server;

/// The calls of one measurement.
const CALLS: u32 = 100;
const ROUNDS: u32 = 400;

fn upstream() -> Arc<Upstream> {
    let quota = Quota::new().with_requests(Rate::per_second(100_000_000));
    Arc::new(Upstream::new("hot").with_quota(quota))
}

fn call(upstream: &Upstream) {
    for _ in 0..CALLS {
        upstream.try_admit().unwrap().succeeded();
    }
}

/// Waits until the upstream has units for the calls. Its calls so far make the lease larger.
fn wait_for_units(upstream: &Upstream) {
    let began = Instant::now();
    while upstream.quota_level(Dimension::Requests) < Some(i64::from(CALLS)) {
        let status = (upstream.fleet(), upstream.quota_level(Dimension::Requests));
        assert!(began.elapsed() < Duration::from_secs(20), "no units: {status:?}");
        // A call asks for units.
        drop(upstream.try_admit().map(resile::call::Admission::succeeded));
        sleep(Duration::from_millis(1));
    }
}

/// Returns the shortest time of a call, in nanoseconds.
fn shortest(upstream: &Upstream) -> f64 {
    let round = |_| {
        wait_for_units(upstream);
        let began = Instant::now();
        call(upstream);
        began.elapsed()
    };
    let shortest = (0..ROUNDS).map(round).min().unwrap_or_default();
    shortest.as_secs_f64() * 1e9 / f64::from(CALLS)
}

#[test]
fn a_call_in_a_fleet_allocates_nothing_and_costs_little() {
    let Some(server) = Server::start(&[]) else { return };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (alone, shared) = (upstream(), upstream());
    let member = {
        let _entered = runtime.enter();
        Fleet::new(&server.url()).unwrap().join(Arc::clone(&shared)).unwrap()
    };
    while member.snapshot().state != State::Shared {
        sleep(Duration::from_millis(2));
    }
    for upstream in [&alone, &shared] {
        wait_for_units(upstream);
        call(upstream);
        wait_for_units(upstream);
        assert_eq!(measure(|| call(upstream)).count_total, 0);
    }
    let [alone, shared] = [&alone, &shared].map(|upstream| shortest(upstream));
    println!("a call: {alone:.1} ns alone, {shared:.1} ns in a fleet, ratio {:.2}", shared / alone);
    assert!(shared < 2.0 * alone, "{shared} ns instead of {alone} ns");
    assert_eq!(member.snapshot().state, State::Shared);
}
