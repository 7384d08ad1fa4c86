//! A cluster of three primaries and a replica.

use std::time::Duration;

use redis::Value;
use resile::fleet::State;
use resile::quota::Rate;
use resile::{Cooldown, Quota, Upstream};
use resile_redis::Fleet;
use tokio::time::{Instant, sleep};

use crate::crew::{Load, Mate, all_share, until};
use crate::rights::grant;
use crate::scene::{BURST, CALLERS, LEASES, LIMIT, MEMBERS, MOST_EXCESS, run};
use crate::server::{Server, ask, free_port};

const PATIENCE: Duration = Duration::from_secs(30);
/// Names whose slots are on the first, the second and the third primary.
pub(crate) const NAMES: [&str; 3] = ["bar", "test", "foo"];

pub(crate) struct Cluster {
    pub(crate) nodes: Vec<Server>,
    /// The ports by which the nodes know each other.
    pub(crate) ports: Vec<u16>,
}

fn node(more: &[&str]) -> Option<Server> {
    // Redis 7 and Valkey can set the second port. The default does not fit a port above 55535.
    let port = free_port().to_string();
    let args = [
        "--cluster-enabled",
        "yes",
        "--cluster-port",
        &port,
        "--cluster-node-timeout",
        "600",
        "--cluster-replica-validity-factor",
        "0",
        "--cluster-require-full-coverage",
        "no",
    ];
    Server::start(&[&args, more].concat())
}

fn text(value: &Value) -> String {
    match value {
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => text.clone(),
        _ => String::new(),
    }
}

impl Cluster {
    /// Starts three primaries, each with a third of the slots, and a replica of the last one.
    async fn start() -> Option<Self> {
        let nodes: Option<Vec<_>> = (0..4).map(|_| node(&[])).collect();
        let nodes = nodes?;
        let ports = nodes.iter().map(Server::port).collect();
        Some(Self::of(nodes, ports).await)
    }

    /// Makes a cluster of four nodes.
    async fn of(nodes: Vec<Server>, ports: Vec<u16>) -> Self {
        let cluster = Self { nodes, ports };
        let meet = |index: usize| {
            let bus = ask(cluster.nodes[index].port(), "CONFIG GET cluster-port").unwrap();
            let bus = bus.lines().nth(4).unwrap().to_owned();
            let port = cluster.ports[index].to_string();
            vec!["CLUSTER".to_owned(), "MEET".into(), "127.0.0.1".into(), port, bus]
        };
        for (index, node) in (0_u16..3).zip(&cluster.nodes) {
            let slots = index * 5_462..((index + 1) * 5_462).min(16_384);
            let mut words = vec!["CLUSTER".to_owned(), "ADDSLOTS".to_owned()];
            words.extend(slots.map(|slot| slot.to_string()));
            run(node, &words.iter().map(String::as_str).collect::<Vec<_>>()).await;
        }
        for index in 1..4 {
            let words = meet(index);
            run(&cluster.nodes[0], &words.iter().map(String::as_str).collect::<Vec<_>>()).await;
        }
        cluster.wait("cluster_known_nodes:4").await;
        let id = cluster.id(2).await;
        let began = Instant::now();
        // The replica must have heard of its primary first.
        while !ask(cluster.nodes[3].port(), &format!("CLUSTER REPLICATE {id}"))
            .unwrap()
            .starts_with("+OK")
        {
            assert!(began.elapsed() < PATIENCE, "no replica");
            sleep(Duration::from_millis(50)).await;
        }
        cluster.wait("cluster_state:ok").await;
        cluster.wait("cluster_slots_ok:16384").await;
        cluster.grant().await;
        cluster
    }

    /// Starts a cluster whose nodes talk to each other and to their clients over TLS.
    #[cfg(feature = "tls")]
    pub(crate) async fn start_with_tls(authority: &crate::tls::Authority) -> Option<Self> {
        let mut nodes = Vec::new();
        let mut ports = Vec::new();
        for _ in 0..4 {
            let more =
                ["--tls-cluster", "yes", "--tls-replication", "yes", "--tls-auth-clients", "no"];
            let (node, port) = authority.start_with(&more, node)?;
            nodes.push(node);
            ports.push(port);
        }
        Some(Self::of(nodes, ports).await)
    }

    async fn id(&self, node: usize) -> String {
        text(&run(&self.nodes[node], &["CLUSTER", "MYID"]).await)
    }

    /// Waits until the description of each node has a line.
    async fn wait(&self, line: &str) {
        let began = Instant::now();
        let has =
            |node: &Server| ask(node.port(), "CLUSTER INFO").is_ok_and(|info| info.contains(line));
        while !self.nodes.iter().all(has) {
            assert!(began.elapsed() < PATIENCE, "the cluster has no `{line}`");
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Returns a fleet that knows one node only.
    fn fleet(&self, node: usize) -> Fleet {
        let url = self.nodes[node % 3].url().replace("redis://", "redis://resile:password@");
        Fleet::cluster([url]).unwrap()
    }

    async fn grant(&self) {
        for node in &self.nodes {
            grant(node, &["+cluster|slots", "+asking"]).await;
        }
    }
}

pub(crate) fn upstream(name: &'static str) -> Upstream {
    let rate = Rate::per_second(u64::from(LIMIT)).with_burst(u64::from(BURST));
    Upstream::new(name).with_quota(Quota::new().with_requests(rate)).with_cooldown(Cooldown::new())
}

/// Keys are on three nodes, and a member knows one. A hold reaches all by one message.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn upstreams_on_all_nodes_share_through_any_node() {
    let Some(cluster) = Cluster::start().await else { return };
    let fleets = [cluster.fleet(0), cluster.fleet(1), cluster.fleet(2)];
    for name in NAMES {
        let crew: Vec<_> = fleets.iter().map(|fleet| Mate::join(fleet, upstream(name))).collect();
        all_share(&crew).await;
        let has =
            |node: &Server| ask(node.port(), "DBSIZE").is_ok_and(|size| !size.starts_with(":0"));
        assert!(has(&cluster.nodes[NAMES.iter().position(|other| *other == name).unwrap()]));
        sleep(Duration::from_millis(300)).await; // until all listen
        crew[0].upstream.hold(Duration::from_secs(3));
        let all = || crew.iter().all(|mate| mate.upstream.held().is_some());
        let took = until("the hold", all, || format!("{:?}", crew[1].member.snapshot())).await;
        assert!(took < Duration::from_millis(500), "{took:?}: by the message");
        for mate in &crew {
            assert_eq!(mate.member.snapshot().last_error, None);
        }
    }
}

/// A slot moves, and then its new node dies and a replica takes over. The limit holds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_fleet_follows_a_slot_and_a_fail_over() {
    let Some(mut cluster) = Cluster::start().await else { return };
    let name = NAMES[0];
    let crew: Vec<_> = (0..MEMBERS as usize)
        .map(|node| Mate::join(&cluster.fleet(node), upstream(name)))
        .collect();
    let other = Mate::join(&cluster.fleet(0), upstream(NAMES[1]));
    all_share(&crew).await;
    let mut load = Load::new();
    for mate in &crew {
        load.add(mate, CALLERS as usize);
    }
    sleep(Duration::from_secs(1)).await;

    let migration = Migration::begin(&cluster, name, 0, 2).await;
    while migration.move_some(100).await > 0 {}
    migration.end().await;
    let moved_at = load.now();
    sleep(Duration::from_secs(1)).await;
    all_share(&crew).await;
    let after = load.times().between(moved_at, load.now()).count()
        / (f64::from(LIMIT) * load.now().saturating_sub(moved_at).as_secs_f64());
    println!("after the move of the slot {:.1} % of the limit", after * 100.0);
    assert!(after > 0.85, "{after}");

    cluster.nodes[2].kill();
    let began = Instant::now();
    let is_promoted =
        || ask(cluster.nodes[3].port(), "ROLE").is_ok_and(|role| role.contains("master"));
    while !is_promoted() {
        assert!(began.elapsed() < PATIENCE, "no fail-over");
        assert_eq!(other.state(), State::Shared, "its node runs");
        sleep(Duration::from_millis(10)).await;
    }
    let promoted = began.elapsed();
    for mate in &crew {
        mate.becomes(State::Shared).await;
    }
    let shared = began.elapsed();
    sleep(Duration::from_secs(2)).await;
    let excess = load.times().excess(f64::from(LIMIT));
    println!("promoted after {promoted:.1?}, shared after {shared:.1?}, excess {excess:.0} units");
    assert!(shared.saturating_sub(promoted) < Duration::from_secs(6), "{shared:?}");
    // The replica may lack the last writes: one lease of each.
    assert!(excess <= f64::from(MOST_EXCESS + LEASES), "{excess}");

    // The message of a hold takes the new way too.
    crew[0].upstream.hold(Duration::from_secs(3));
    let all = || crew.iter().all(|mate| mate.upstream.held().is_some());
    let took = until("the hold", all, || format!("{:?}", crew[1].member.snapshot())).await;
    assert!(took < Duration::from_millis(500), "{took:?}: by the message");
}

/// Members share while some of the keys are on the old node and some on the new one, and while the
/// old node has none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_on_its_way_is_shared() {
    let Some(cluster) = Cluster::start().await else { return };
    let crew: Vec<_> =
        (0..3).map(|node| Mate::join(&cluster.fleet(node), upstream(NAMES[0]))).collect();
    shares_on_the_way(&cluster, &crew).await;
}

/// Moves the slot of the first name in parts, and checks after each part that nothing fails.
pub(crate) async fn shares_on_the_way(cluster: &Cluster, crew: &[Mate]) {
    all_share(crew).await;
    let mut load = Load::new();
    for mate in crew {
        load.add(mate, CALLERS as usize);
    }
    sleep(Duration::from_secs(1)).await;
    let failures = || crew.iter().map(|mate| mate.member.snapshot().failures).sum::<u64>();
    let before = failures();
    let migration = Migration::begin(cluster, NAMES[0], 0, 2).await;
    let mut moved = 0;
    for some in [0, 2, 100] {
        moved += migration.move_some(some).await;
        let from = load.now();
        sleep(Duration::from_millis(1_500)).await;
        let seconds = load.now().saturating_sub(from).as_secs_f64();
        let part = load.times().between(from, load.now()).count() / seconds / f64::from(LIMIT);
        println!("{moved} keys on the way: {:.1} % of the limit", part * 100.0);
        assert!(part > 0.9, "{part} with {moved} keys on the way");
    }
    assert!(moved > 2, "{moved}");
    migration.end().await;
    sleep(Duration::from_secs(1)).await;
    all_share(crew).await;
    let errors: Vec<_> = crew.iter().map(|mate| mate.member.snapshot().last_error).collect();
    assert_eq!(failures(), before, "{errors:?}");
    let excess = load.times().excess(f64::from(LIMIT));
    assert!(excess <= f64::from(MOST_EXCESS), "{excess}");
}

/// The move of a slot, as the tools of Redis do it.
struct Migration<'a> {
    from: &'a Server,
    to: &'a Server,
    slot: String,
    target: String,
    port: String,
}

impl<'a> Migration<'a> {
    async fn begin(cluster: &'a Cluster, name: &str, from: usize, to: usize) -> Self {
        let slot = run(&cluster.nodes[from], &["CLUSTER", "KEYSLOT", name]).await;
        let Value::Int(slot) = slot else { panic!("{slot:?}") };
        let slot = slot.to_string();
        let [source, target] = [cluster.id(from).await, cluster.id(to).await];
        let port = cluster.ports[to].to_string();
        let (from, to) = (&cluster.nodes[from], &cluster.nodes[to]);
        run(to, &["CLUSTER", "SETSLOT", &slot, "IMPORTING", &source]).await;
        run(from, &["CLUSTER", "SETSLOT", &slot, "MIGRATING", &target]).await;
        Self { from, to, slot, target, port }
    }

    /// Moves at most so many keys. Returns their number.
    async fn move_some(&self, most: usize) -> usize {
        let count = most.to_string();
        let keys = run(self.from, &["CLUSTER", "GETKEYSINSLOT", &self.slot, &count]).await;
        let Value::Array(keys) = keys else { panic!("{keys:?}") };
        let keys: Vec<_> = keys.iter().map(text).collect();
        if !keys.is_empty() {
            let mut words = vec!["MIGRATE", "127.0.0.1", &self.port, "", "0", "5000", "KEYS"];
            words.extend(keys.iter().map(String::as_str));
            run(self.from, &words).await;
        }
        keys.len()
    }

    async fn end(self) {
        for node in [self.to, self.from] {
            run(node, &["CLUSTER", "SETSLOT", &self.slot, "NODE", &self.target]).await;
        }
    }
}
