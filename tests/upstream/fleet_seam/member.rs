//! The task of one member: it knows the store and the hooks, and nothing else of either.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use resile::Upstream;
use resile::cooldown::Hold;
use resile::fleet::State;
use resile::quota::Dimension;
use resile::upstream::{Resource, Shared};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::store::{Store, TTL};

/// The longest time between two exchanges.
const INTERVAL: Duration = Duration::from_millis(100);
/// The longest one while calls wait. A burst refills in a tenth of a second.
const WAITING_INTERVAL: Duration = Duration::from_millis(20);
/// The shortest one. One exchange serves many calls.
const PAUSE: Duration = Duration::from_millis(5);

struct Member<'a> {
    shared: Shared<'a, resile::time::DefaultTimer>,
    store: &'a Store,
    id: u32,
    /// The sum of all units that were ever put into each balance, and the units always wanted.
    leases: Vec<(Resource, i64, i64)>,
    /// The end of the hold that the store knows.
    known: Option<Hold>,
}

/// Shares an upstream. The member does not leave: aborting the task is its death.
pub(super) fn join(upstream: &Arc<Upstream>, store: &Arc<Store>, id: u32) -> JoinHandle<()> {
    let (upstream, store) = (Arc::clone(upstream), Arc::clone(store));
    tokio::spawn(async move {
        let mut member = Member::new(&upstream, &store, id);
        loop {
            // Before the step, so no news is lost.
            let news = store.news.notified();
            tokio::pin!(news);
            news.as_mut().enable();
            member.step();
            sleep(PAUSE).await;
            let interval = if member.has_waiting() { WAITING_INTERVAL } else { INTERVAL };
            tokio::select! {
                () = poll_fn(|context| member.shared.poll_changed(context)) => {}
                () = news => {}
                () = sleep(interval) => {}
            }
        }
    })
}

impl<'a> Member<'a> {
    fn new(upstream: &'a Upstream, store: &'a Store, id: u32) -> Self {
        let shared = upstream.share().expect("nothing else shares it");
        let mut leases = Vec::new();
        for dimension in Dimension::ALL {
            if let Some(rate) = upstream.quota().and_then(|quota| quota.rate(dimension)) {
                assert_eq!(rate.period(), Duration::from_secs(1), "the only one of these tests");
                store.open(Resource::Quota(dimension), rate.burst().into(), rate.count());
                leases.push((Resource::Quota(dimension), 0, 0));
            }
        }
        if let Some(budget) = upstream.budget() {
            const TOKEN: i64 = 1_000_000;
            store.open(Resource::Budget, i64::from(budget.capacity()) * TOKEN, 0);
            // The tokens are those of the fleet. A member wants the cost of its next retry.
            let tokens = shared.balance(Resource::Budget).unwrap();
            shared.adjust(Resource::Budget, -tokens);
            let (failed, throttled) = budget.costs();
            leases.push((Resource::Budget, 0, i64::from(failed.max(throttled)) * TOKEN));
        }
        Self { shared, store, id, leases, known: None }
    }

    fn step(&mut self) {
        self.exchange();
        let hold = self.shared.hold();
        // A hold that came from the store does not go back: each copy would end a little later.
        let is_news =
            hold.zip(self.known).is_none_or(|(hold, known)| hold.remaining > known.remaining);
        let merged = self.store.merge(hold.filter(|_| is_news));
        if let Some(hold) = merged {
            self.shared.hold_as(hold);
        }
        self.known = self.shared.hold();
    }

    fn has_waiting(&self) -> bool {
        self.leases.iter().any(|(resource, ..)| self.shared.waiting(*resource).all > 0)
    }

    fn exchange(&mut self) {
        let Self { shared, store, id, leases, .. } = self;
        let mut state = State::Shared;
        for (resource, ..) in &*leases {
            if let Resource::Quota(dimension) = resource {
                store.learned.exchange(shared, *dimension, 3);
                store.scale(*resource, store.learned.share(*dimension));
            }
        }
        for (resource, granted, floor) in leases {
            let balance = shared.balance(*resource).unwrap();
            let wanted = shared.waiting(*resource).all + shared.refused(*resource);
            let want = *floor + i64::try_from(wanted).unwrap();
            match store.exchange(*id, *resource, *granted - balance, want) {
                Some(sum) => {
                    shared.adjust(*resource, sum - *granted);
                    shared.extend(*resource, TTL);
                    *granted = sum;
                    shared.answered();
                }
                None => state = State::Coasting,
            }
        }
        shared.report(state, 3);
    }
}
