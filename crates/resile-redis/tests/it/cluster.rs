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
const NAMES: [&str; 3] = ["bar", "test", "foo"];

struct Cluster {
    nodes: Vec<Server>,
}

fn node() -> Option<Server> {
    // Redis 7 and Valkey can set the second port. The default does not fit a port above 55535.
    let port = free_port().to_string();
    Server::start(&[
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
    ])
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
        let nodes: Option<Vec<_>> = (0..4).map(|_| node()).collect();
        let cluster = Self { nodes: nodes? };
        let meet = |node: &Server| {
            let bus = ask(node.port(), "CONFIG GET cluster-port").unwrap();
            let bus = bus.lines().nth(4).unwrap().to_owned();
            vec![
                "CLUSTER".to_owned(),
                "MEET".into(),
                "127.0.0.1".into(),
                node.port().to_string(),
                bus,
            ]
        };
        for (index, node) in (0_u16..3).zip(&cluster.nodes) {
            let slots = index * 5_462..((index + 1) * 5_462).min(16_384);
            let mut words = vec!["CLUSTER".to_owned(), "ADDSLOTS".to_owned()];
            words.extend(slots.map(|slot| slot.to_string()));
            run(node, &words.iter().map(String::as_str).collect::<Vec<_>>()).await;
        }
        for node in &cluster.nodes[1..] {
            let words = meet(node);
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
        Some(cluster)
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
            grant(node, &["+cluster|slots"]).await;
        }
    }
}

fn upstream(name: &'static str) -> Upstream {
    let rate = Rate::per_second(LIMIT).with_burst(BURST);
    Upstream::new(name).with_quota(Quota::new().with_requests(rate)).with_cooldown(Cooldown::new())
}

/// Keys are on three nodes, and a member knows one. A hold reaches all by one message.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn upstreams_on_all_nodes_share_through_any_node() {
    let Some(cluster) = Cluster::start().await else { return };
    cluster.grant().await;
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
    cluster.grant().await;
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

    let slot = run(&cluster.nodes[0], &["CLUSTER", "KEYSLOT", name]).await;
    let Value::Int(slot) = slot else { panic!("{slot:?}") };
    move_slot(&cluster, &slot.to_string(), 0, 2).await;
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

/// Moves a slot with its keys, as the tools of Redis do.
async fn move_slot(cluster: &Cluster, slot: &str, from: usize, to: usize) {
    let [source, target] = [cluster.id(from).await, cluster.id(to).await];
    let (from, to) = (&cluster.nodes[from], &cluster.nodes[to]);
    run(to, &["CLUSTER", "SETSLOT", slot, "IMPORTING", &source]).await;
    run(from, &["CLUSTER", "SETSLOT", slot, "MIGRATING", &target]).await;
    loop {
        let keys = run(from, &["CLUSTER", "GETKEYSINSLOT", slot, "100"]).await;
        let Value::Array(keys) = keys else { panic!("{keys:?}") };
        if keys.is_empty() {
            break;
        }
        let keys: Vec<_> = keys.iter().map(text).collect();
        let port = to.port().to_string();
        let mut words = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"];
        words.extend(keys.iter().map(String::as_str));
        run(from, &words).await;
    }
    for node in [to, from] {
        run(node, &["CLUSTER", "SETSLOT", slot, "NODE", &target]).await;
    }
}
