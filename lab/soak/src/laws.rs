//! The laws that hold while no call is in flight, and after each call.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use resile::breaker::State;
use resile::quota::Dimension;

use crate::host::{Exactness, Host};
use crate::world::World;

/// The words for a broken law.
pub(crate) type Broken = String;

/// A budget with fewer tokens is never exact.
const SMALL: u32 = 1_000;

/// Fails with a text unless the condition holds.
macro_rules! holds {
    ($condition:expr, $($words:tt)+) => {
        if !$condition {
            return Err(format!($($words)+));
        }
    };
}

/// Checks that nothing is in use. No call is in flight.
pub(crate) fn at_rest(world: &World) -> Result<(), Broken> {
    holds!(world.timer.sleepers() == 0, "{} sleeps are left", world.timer.sleepers());
    let gate = world.gate.bulkhead().expect("it has one");
    holds!(gate.in_flight() == 0 && gate.waiting() == 0, "the bulkhead alone: {gate:?}");
    let permits: Vec<_> = (0..gate.limit()).map(|_| world.gate.try_admit()).collect();
    holds!(permits.iter().all(Result::is_ok), "the bulkhead alone has lost a permit: {gate:?}");
    drop(permits);
    for host in &world.hosts {
        held(host)?;
        budget(host)?;
        if let Some((_, exactness)) = &host.ledger {
            levels(world, host, *exactness)?;
        }
        host.refill();
    }
    Ok(())
}

/// Checks the permits, the reservations, the waiters and the probes of a host.
fn held(host: &Host) -> Result<(), Broken> {
    let (upstream, name) = (&host.upstream, host.upstream.name());
    if let Some(bulkhead) = upstream.bulkhead() {
        let used = (bulkhead.in_flight(), bulkhead.waiting());
        holds!(used == (0, 0), "{name}: permits in use and waiters: {used:?}");
    }
    if let Some(quota) = upstream.quota() {
        let used = (quota.in_flight(), quota.reserved(), quota.waiting());
        let free = (quota.concurrency().map(|_| 0), 0, 0);
        holds!(used == free, "{name}: quota in flight, reserved and waiting: {used:?}");
    }
    if let Some(snapshot) = upstream.snapshot() {
        holds!(snapshot.probes == 0, "{name}: probes without a call: {snapshot:?}");
        holds!(snapshot.state != State::Isolated, "{name}: nothing isolates it: {snapshot:?}");
    }
    let (begun, ended) = (&host.book.operations, &host.book.dropped_operations);
    let (begun, ended) = (begun.load(Relaxed), ended.load(Relaxed));
    holds!(begun == ended, "{name}: {begun} operations began and {ended} were dropped");
    Ok(())
}

/// Checks the tokens: those of the last check, less the paid attempts, with the deposits.
fn budget(host: &Host) -> Result<(), Broken> {
    let Some(budget) = host.upstream.budget() else { return Ok(()) };
    let [tokens, paid, deposits, lost] = [0, 1, 2, 3].map(|at| host.base[at].load(Relaxed));
    let paid = host.book.paid.load(Relaxed) - paid;
    let lost = host.book.lost_reliefs.load(Relaxed) - lost;
    let deposits = host.deposits() - deposits;
    let (name, left) = (host.upstream.name(), budget.available());
    let is = u64::from(left) + paid;
    let words =
        || format!("{name}: {left} tokens after {tokens}, {paid} paid, {deposits} deposits");
    // A small budget is often full, so some deposits are lost. Each is a tenth of a token.
    let holds = if host.wanted < SMALL {
        is <= tokens + 1 + (deposits + lost).div_ceil(10)
    } else {
        // The panic at the end of a strain hides a success, or it does not.
        (tokens + deposits..=tokens + deposits + lost).contains(&is)
    };
    if holds { Ok(()) } else { Err(words()) }
}

/// Checks the levels of a quota against the charges.
pub(crate) fn levels(world: &World, host: &Host, exactness: Exactness) -> Result<(), Broken> {
    let Some((ledger, _)) = &host.ledger else { return Ok(()) };
    let now = world.now();
    for dimension in Dimension::ALL {
        let name = host.upstream.name();
        let Some(level) = host.upstream.quota_level(dimension) else { continue };
        let burst = host.upstream.quota().and_then(|quota| quota.rate(dimension));
        let burst = burst.map_or(0, |rate| i64::from(rate.burst()));
        holds!(level <= burst, "{name}: {level} of {dimension:?} with a burst of {burst}");
        if !world.is_alone {
            continue; // another thread moves the clock between a charge and its entry
        }
        let charged = ledger.level(dimension, now);
        match exactness {
            Exactness::Exact => {
                holds!(level == charged, "{name}: {level} of {dimension:?}, charged {charged}");
            }
            Exactness::AtMost => {
                holds!(level <= charged, "{name}: {level} of {dimension:?}, charged {charged}");
                ledger.lower(dimension, now, level);
            }
        }
    }
    Ok(())
}

/// Checks that no call waits beside a free permit, while no call is woken.
pub(crate) fn no_idle_permit(world: &World) -> Result<(), Broken> {
    let bulkheads = world.hosts.iter().filter_map(|host| host.upstream.bulkhead());
    for bulkhead in bulkheads.chain(world.gate.bulkhead()) {
        let (in_flight, waiting) = (bulkhead.in_flight(), bulkhead.waiting());
        holds!(
            waiting == 0 || in_flight == bulkhead.limit(),
            "{waiting} calls wait and none is woken, with {in_flight} of {} in flight",
            bulkhead.limit()
        );
    }
    Ok(())
}

/// Checks that each breaker closes again after some good calls, and that each host admits calls.
pub(crate) fn recovers(world: &World) -> Result<(), Broken> {
    world.fuse.arm(false);
    let far = Duration::from_hours(1);
    world.advance(far);
    for host in &world.hosts {
        let (upstream, name) = (&host.upstream, host.upstream.name());
        holds!(upstream.held().is_none(), "{name}: held an hour later");
        for _ in 0..8 {
            match upstream.try_admit() {
                Ok(admission) => admission.withdraw(),
                Err(refused) => return Err(format!("{name}: refused an hour later: {refused}")),
            }
        }
        upstream.reset();
    }
    world.fuse.arm(true);
    Ok(())
}
