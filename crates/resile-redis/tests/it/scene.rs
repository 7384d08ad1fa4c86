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

/// A server, a proxy or two in front of it, and members that always want more.
pub(crate) struct Scene {
    pub(crate) server: Server,
    pub(crate) proxies: Vec<Proxy>,
    pub(crate) crew: Vec<Mate>,
    pub(crate) load: Load,
}

/// The fault of a scene.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault {
    pub(crate) from: Duration,
    pub(crate) to: Duration,
    /// The time after the fault until all members shared again.
    pub(crate) back: Duration,
}

/// Runs a command on a connection of its own.
pub(crate) async fn run(server: &Server, words: &[&str]) -> Value {
    let client = redis::Client::open(server.url()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let mut command = cmd(words[0]);
    command.arg(&words[1..]);
    command.query_async(&mut connection).await.unwrap()
}

/// Returns the length of a fault: short in each run, longer with `FAULT_SECONDS`.
pub(crate) fn fault_time() -> Duration {
    let seconds = std::env::var("FAULT_SECONDS").ok().and_then(|text| text.parse().ok());
    seconds.map_or(Duration::from_millis(2_500), Duration::from_secs)
}

impl Scene {
    /// Starts the server and the members. Returns `None` without a server. Each member has a
    /// connection of its own. The proxies take turns.
    pub(crate) async fn start(proxies: usize) -> Option<Self> {
        Self::with(&[], proxies, |_| limited(LIMIT, BURST), |fleet| fleet).await
    }

    pub(crate) async fn with(
        args: &[&str],
        proxies: usize,
        upstream: impl Fn(u32) -> Upstream,
        settings: impl Fn(Fleet) -> Fleet,
    ) -> Option<Self> {
        let server = Server::start(args)?;
        let mut scene = Self { server, proxies: Vec::new(), crew: Vec::new(), load: Load::new() };
        for _ in 0..proxies {
            scene.proxies.push(Proxy::start(scene.server.port()).await);
        }
        for (index, proxy) in (0..MEMBERS).zip(scene.proxies.iter().cycle()) {
            let fleet = settings(Fleet::new(&proxy.url()).unwrap());
            scene.crew.push(Mate::join(&fleet, upstream(index)));
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

    /// Lets the fault last. Returns its beginning, which is now.
    pub(crate) async fn endure(&self) -> Duration {
        let from = self.load.now();
        sleep(fault_time()).await;
        from
    }

    /// Waits until the fault is over, which ends now, and for a while of normal work.
    pub(crate) async fn recover(&self, from: Duration) -> Fault {
        let to = self.load.now();
        let back = all_share(&self.crew).await;
        let exchanges = || self.crew.iter().map(|mate| mate.member.snapshot().exchanges);
        let before: Vec<u64> = exchanges().collect();
        sleep(Duration::from_secs(1)).await;
        let are_alive = exchanges().zip(before).all(|(now, before)| now > before);
        assert!(are_alive, "a task has ended");
        Fault { from, to, back }
    }

    /// Prints the figures and checks what holds for each fault. `share` is the part of the limit
    /// that the members may use during the fault.
    pub(crate) fn check(&self, name: &str, fault: Fault, share: f64) {
        let Figures { goodput, after, excess } = self.figures(fault);
        let failures: u64 = self.crew.iter().map(|mate| mate.member.snapshot().failures).sum();
        println!(
            "{name:32} during {:5.1} %  after {:5.1} %  excess {excess:4.0} of {MOST_EXCESS}  \
             back {:4.1} s  failures {failures}",
            goodput * 100.0,
            after * 100.0,
            fault.back.as_secs_f64(),
        );
        assert!(goodput >= 0.95 * share, "{name}: the goodput was {goodput} of {share}");
        assert!(after >= 0.85, "{name}: the goodput afterwards was {after}");
    }

    /// Checks that all members together kept the limit.
    pub(crate) fn check_excess(&self, name: &str, fault: Fault) {
        let Figures { excess, .. } = self.figures(fault);
        assert!(excess <= f64::from(MOST_EXCESS), "{name}: {excess} more than the rate");
    }

    fn figures(&self, fault: Fault) -> Figures {
        let times = self.load.times();
        // The calls wait until the members notice the fault.
        let from = fault.from + Duration::from_millis(500);
        let share = |from: Duration, to: Duration| {
            times.between(from, to).count()
                / (f64::from(LIMIT) * to.saturating_sub(from).as_secs_f64())
        };
        Figures {
            goodput: share(from, fault.to),
            after: share(fault.to, self.load.now()),
            excess: times.excess(f64::from(LIMIT)),
        }
    }

    /// Checks that all members use their share.
    pub(crate) fn is_safe(&self) {
        for mate in &self.crew {
            assert_eq!(mate.state(), State::Safe, "{:?}", mate.member.snapshot());
        }
    }
}

struct Figures {
    /// The part of the limit that was admitted during the fault.
    goodput: f64,
    /// The same afterwards.
    after: f64,
    excess: f64,
}
