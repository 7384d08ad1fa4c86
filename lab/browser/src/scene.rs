//! A server that stands still for some seconds, as in the claim `storm`. Each call of a user is a
//! real [`retry`] on one shared [`Upstream`].

use std::cell::{Cell, RefCell};
use std::time::Duration;

use rand::RngExt;
use rand::rngs::ChaCha8Rng;
use resile::time::{ManualTimer, Timer};
use resile::{Breaker, Budget, Bulkhead, Never, RetryPolicy, StopReason, Upstream, retry};
use storm::claims::sim::{Series, drive_arrivals, exponential, seeded};
use storm::claims::storm::Server;

pub(crate) use storm::claims::storm::CAPACITY;

use crate::client::Client;

/// The length of a run in seconds.
pub(crate) const END: usize = 260;
/// The second at which the server begins to stand still.
pub(crate) const TRIGGER: usize = 30;
/// The seconds before it in which the goodput is even.
const BEFORE: std::ops::Range<usize> = 10..TRIGGER;
const TIMEOUT: Duration = Duration::from_secs(1);

/// The users and the server. They are the same for all clients that are compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct World {
    /// The users. Each makes one call a second on average.
    pub(crate) users: u32,
    /// The seconds in which the server stands still.
    pub(crate) standstill: u32,
    /// The share of the requests that fail by chance.
    pub(crate) failing: f64,
    pub(crate) seed: u64,
}

#[derive(Debug, thiserror::Error)]
#[error("the request failed")]
struct Failed;

/// The calls in progress, their server and their counts.
struct Scene {
    policy: RetryPolicy,
    upstream: Upstream<ManualTimer>,
    timer: ManualTimer,
    failing: f64,
    server: RefCell<Server>,
    rng: RefCell<ChaCha8Rng>,
    /// The calls that began, that ended, that the breaker ended, and that the bulkhead ended.
    began: Cell<u32>,
    ended: Cell<u32>,
    refused: Cell<u32>,
    full: Cell<u32>,
    good: RefCell<Series>,
    load: RefCell<Series>,
}

impl Scene {
    fn new(world: World, client: &Client) -> Self {
        let timer = ManualTimer::with_seed(world.seed);
        let mut upstream = Upstream::new("server").with_timer(timer.clone()).with_observer(&());
        if let Some(tokens) = client.budget {
            upstream = upstream.with_budget(Budget::new().with_capacity(tokens));
        }
        if let Some(share) = client.breaker {
            upstream = upstream.with_breaker(Breaker::new().with_failure_rate(share, 20));
        }
        if let Some(most) = client.learned {
            upstream = upstream.with_bulkhead(Bulkhead::learned(most));
        }
        let start = Duration::from_secs(TRIGGER as u64);
        let outage = start..start + Duration::from_secs(world.standstill.into());
        let series = || RefCell::new(Series::new(END as u64));
        Self {
            policy: client.policy.with_attempt_timeout(TIMEOUT),
            upstream,
            timer,
            failing: world.failing,
            server: RefCell::new(Server::new(outage)),
            rng: RefCell::new(seeded(!world.seed)),
            began: Cell::new(0),
            ended: Cell::new(0),
            refused: Cell::new(0),
            full: Cell::new(0),
            good: series(),
            load: series(),
        }
    }

    /// Sends a request. The server also handles it after its timeout.
    async fn request(&self) -> Result<(), Failed> {
        let now = self.timer.now();
        self.load.borrow_mut().count(now);
        let work = exponential(1.0 / CAPACITY, &mut self.rng.borrow_mut());
        let takes = self.server.borrow_mut().take(now, work);
        let fails = self.rng.borrow_mut().random::<f64>() < self.failing;
        if takes > TIMEOUT {
            return std::future::pending().await;
        }
        self.timer.sleep(takes).await;
        if fails { Err(Failed) } else { Ok(()) }
    }

    /// Makes the call of a user.
    async fn call(&self) {
        add_one(&self.began);
        let answer = retry(|_| self.request(), &self.policy, Never).on(&self.upstream).await;
        add_one(&self.ended);
        match answer {
            Ok(()) => self.good.borrow_mut().count(self.timer.now()),
            Err(gave_up) => match gave_up.reason() {
                StopReason::Open => add_one(&self.refused),
                StopReason::Full => add_one(&self.full),
                _ => {}
            },
        }
    }
}

fn add_one(count: &Cell<u32>) {
    count.set(count.get() + 1);
}

/// The figures of a client.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) name: &'static str,
    /// The answers in each second.
    pub(crate) good: Vec<f64>,
    /// The requests that reach the server in each second.
    pub(crate) load: Vec<f64>,
    /// The requests for each call.
    pub(crate) requests: f64,
    /// The share of the calls that succeed, from 0 to 1.
    pub(crate) success: f64,
    /// The share of the calls that the breaker ends.
    pub(crate) refused: f64,
    /// The share of the calls that the bulkhead ends.
    pub(crate) full: f64,
    /// The limit that the bulkhead has learned at the end.
    pub(crate) limit: Option<u32>,
    /// The share of the calls that succeed before the standstill.
    pub(crate) before: f64,
    /// The seconds after the standstill until five seconds follow with nine tenths of the goodput
    /// before it.
    pub(crate) recovery: Option<usize>,
}

/// Runs the calls of all users for [`END`] seconds of virtual time.
pub(crate) fn run(world: World, client: &Client) -> Line {
    let scene = Scene::new(world, client);
    let end = Duration::from_secs(END as u64);
    let (mut rng, mut at) = (seeded(world.seed), Duration::ZERO);
    let arrivals = std::iter::from_fn(|| {
        at += exponential(1.0 / f64::from(world.users), &mut rng);
        (at < end).then(|| (at, scene.call()))
    });
    drive_arrivals(&scene.timer, end, arrivals);
    let (good, load) = (scene.good.borrow(), scene.load.borrow());
    let share = |some: f64, all: &Cell<u32>| some / f64::from(all.get()).max(1.0);
    let over = TRIGGER + world.standstill as usize;
    let even = good.mean(BEFORE);
    Line {
        name: client.name,
        good: Series::average([&*good]),
        load: Series::average([&*load]),
        requests: share(load.sum(), &scene.began),
        success: share(good.sum(), &scene.ended),
        refused: share(scene.refused.get().into(), &scene.ended),
        full: share(scene.full.get().into(), &scene.ended),
        limit: scene.upstream.bulkhead().map(Bulkhead::limit),
        before: even / f64::from(world.users),
        recovery: (over..END - 5)
            .find(|&from| good.mean(from..from + 5) >= 0.9 * even)
            .map(|from| from - over),
    }
}
