//! A fleet under load, in front of which the server fails.

use std::time::Duration;

use redis::{Value, cmd};
use resile::Upstream;
use resile::fleet::State;
use resile_redis::Fleet;
use tokio::time::sleep;

use crate::crew::{Load, Mate, all_share, limited};
use crate::proxy::Proxy;
use crate::server::Server;

pub(crate) const LIMIT: u32 = 300;
pub(crate) const BURST: u32 = 60;
pub(crate) const MEMBERS: u32 = 6;
/// The callers of each member. Each waits for one unit at a time.
pub(crate) const CALLERS: u32 = 4;

/// The units that all members may have leased: the need of 100 ms, and the waiting calls.
pub(crate) const LEASES: u32 = LIMIT / 10 + MEMBERS * (CALLERS + 1);

/// The most admissions beyond the rate. The last part is for a busy machine, which notes the
/// admissions of 100 ms at one time.
pub(crate) const MOST_EXCESS: u32 = BURST + LEASES + LIMIT / 10;

/// Runs a command on a connection of its own.
pub(crate) async fn run(server: &Server, words: &[&str]) -> Value {
    let client = redis::Client::open(server.url()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let mut command = cmd(words[0]);
    command.arg(&words[1..]);
    command.query_async(&mut connection).await.unwrap()
}

/// A server, a proxy or two in front of it, and members that always want more.
pub(crate) struct Scene {
    name: &'static str,
    pub(crate) server: Server,
    pub(crate) proxies: Vec<Proxy>,
    pub(crate) crew: Vec<Mate>,
    pub(crate) load: Load,
}

/// The times of a fault.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault {
    pub(crate) from: Duration,
    pub(crate) to: Duration,
    /// The time after the fault until all members shared again.
    pub(crate) back: Duration,
}

/// Returns the length of a fault: short in each run, longer with `FAULT_SECONDS`.
pub(crate) fn fault_time() -> Duration {
    let seconds = std::env::var("FAULT_SECONDS").ok().and_then(|text| text.parse().ok());
    seconds.map_or(Duration::from_millis(2_500), Duration::from_secs)
}

impl Scene {
    /// Starts the server and the members. Returns `None` without a server. Each member has a
    /// connection of its own. The proxies take turns.
    pub(crate) async fn start(name: &'static str, proxies: usize) -> Option<Self> {
        Self::with(name, &[], proxies, || limited(LIMIT, BURST), |fleet| fleet).await
    }

    pub(crate) async fn with(
        name: &'static str,
        args: &[&str],
        proxies: usize,
        upstream: impl Fn() -> Upstream,
        settings: impl Fn(Fleet) -> Fleet,
    ) -> Option<Self> {
        let server = Server::start(args)?;
        let (proxies_of, load) = (Vec::with_capacity(proxies), Load::new());
        let mut scene = Self { name, server, proxies: proxies_of, crew: Vec::new(), load };
        for _ in 0..proxies {
            scene.proxies.push(Proxy::start(scene.server.port()).await);
        }
        for (_, proxy) in (0..MEMBERS).zip(scene.proxies.iter().cycle()) {
            let fleet = settings(Fleet::new(&proxy.url()).unwrap());
            scene.crew.push(Mate::join(&fleet, upstream()));
        }
        Some(scene)
    }

    /// Waits until all members share, and begins the load.
    pub(crate) async fn begin(&mut self) {
        all_share(&self.crew).await;
        self.begin_load().await;
    }

    /// Begins the load, whatever the state.
    pub(crate) async fn begin_load(&mut self) {
        self.load = Load::new();
        for mate in &self.crew {
            self.load.add(mate, CALLERS as usize);
        }
        sleep(Duration::from_secs(1)).await;
    }

    /// Adds a member with its load.
    pub(crate) fn join(&mut self) {
        let fleet = Fleet::new(&self.proxies[0].url()).unwrap();
        let mate = Mate::join(&fleet, limited(LIMIT, BURST));
        self.load.add(&mate, CALLERS as usize);
        self.crew.push(mate);
    }

    /// Lets the fault last. Returns its beginning, which is now.
    pub(crate) async fn endure(&self) -> Duration {
        let from = self.load.now();
        sleep(fault_time()).await;
        from
    }

    /// Checks that all members use their share.
    pub(crate) fn is_safe(&self) {
        for mate in &self.crew {
            assert_eq!(mate.state(), State::Safe, "{}: {:?}", self.name, mate.member.snapshot());
        }
    }

    /// Waits until the fault is over, which ends now, and for a while of normal work.
    pub(crate) async fn recover(&self, from: Duration) -> Fault {
        let to = self.load.now();
        let back = all_share(&self.crew).await;
        let exchanges = || self.crew.iter().map(|mate| mate.member.snapshot().exchanges);
        let before: Vec<u64> = exchanges().collect();
        sleep(Duration::from_secs(1)).await;
        let are_alive = exchanges().zip(before).all(|(now, before)| now > before);
        assert!(are_alive, "{}: a task has ended", self.name);
        Fault { from, to, back }
    }

    /// Prints the figures and checks that the calls went on. `share` is the part of the limit that
    /// the members may use during the fault.
    pub(crate) fn goes_on(&self, fault: Fault, share: f64) {
        let Self { name, load, .. } = self;
        let times = load.times();
        let part = |from: Duration, to: Duration| {
            let units = f64::from(LIMIT) * to.saturating_sub(from).as_secs_f64();
            times.between(from, to).count() / units
        };
        // The calls wait until the members notice the fault.
        let during = part(fault.from + Duration::from_millis(500), fault.to);
        let after = part(fault.to, load.now());
        let failures: u64 = self.crew.iter().map(|mate| mate.member.snapshot().failures).sum();
        println!(
            "{name:28} during {:5.1} %  after {:5.1} %  excess {:4.0} units  back {:3.1} s  \
             failures {failures:3}",
            during * 100.0,
            after * 100.0,
            times.excess(f64::from(LIMIT)),
            fault.back.as_secs_f64(),
        );
        assert!(during >= 0.95 * share, "{name}: {during} of {share}");
        assert!(after >= 0.9, "{name}: {after} afterwards");
    }

    /// Checks that all members together kept the limit, apart from `more` units.
    pub(crate) fn keeps_the_limit(&self, more: f64) {
        let excess = self.load.times().excess(f64::from(LIMIT));
        assert!(excess <= f64::from(MOST_EXCESS) + more, "{}: {excess} units", self.name);
    }
}
