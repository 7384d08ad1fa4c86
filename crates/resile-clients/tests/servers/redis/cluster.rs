//! A cluster of two servers without the client for clusters.

use redis::aio::MultiplexedConnection;
use server::Server;

use super::start::{Redis, connect, fail, seen, start, tell, until};
use crate::row::{row, within};

#[tokio::test]
async fn a_cluster_without_slots_is_down() {
    within(async {
        let server = start(&["--cluster-enabled", "yes"]);
        let mut to = connect(server.port()).await;
        assert_eq!(seen(&fail(&mut to, "INCR n").await), row("redis", "CLUSTERDOWN"));
    })
    .await;
}

/// The slot of `{a}` belongs to the first server and moves to the second one.
#[tokio::test]
async fn a_slot_that_moves_refuses_some_commands() {
    within(async {
        let (first, second) = (node(), node());
        let mut one = connect(first.port()).await;
        let mut two = connect(second.port()).await;
        meet(&mut one, &mut two, second.port()).await;
        let slot: u16 = tell(&mut one, "CLUSTER KEYSLOT {a}").await;
        let () = tell(&mut one, "CLUSTER ADDSLOTSRANGE 0 16383").await;
        until(&mut one, "CLUSTER INFO", |info| info.contains("cluster_state:ok")).await;
        let () = tell(&mut one, "SET {a}here 1").await;
        until(&mut two, "CLUSTER INFO", |info| info.contains("cluster_state:ok")).await;
        assert_eq!(seen(&fail(&mut two, "INCR {a}n").await), row("redis", "MOVED"));
        assert_eq!(seen(&fail(&mut one, "MSET a 1 b 1").await), row("redis", "CROSSSLOT"));

        let id: String = tell(&mut two, "CLUSTER MYID").await;
        let () = tell(&mut one, &format!("CLUSTER SETSLOT {slot} MIGRATING {id}")).await;
        assert_eq!(seen(&fail(&mut one, "INCR {a}n").await), row("redis", "ASK"));
        let both = fail(&mut one, "MSET {a}here 2 {a}n 2").await;
        assert_eq!(seen(&both), row("redis", "TRYAGAIN"));
        let () = tell(&mut one, &format!("CLUSTER SETSLOT {slot} STABLE")).await;
        assert_eq!(tell::<u64>(&mut one, "GET {a}here").await, 1);
        assert_eq!(tell::<u64>(&mut one, "INCR {a}n").await, 1);
    })
    .await;
}

fn node() -> Server<Redis> {
    start(&["--cluster-enabled", "yes", "--cluster-port", "0"])
}

/// Makes one cluster of both.
async fn meet(one: &mut MultiplexedConnection, two: &mut MultiplexedConnection, port: u16) {
    let () = tell(one, &format!("CLUSTER MEET 127.0.0.1 {port}")).await;
    for to in [one, two] {
        until(to, "CLUSTER INFO", |info| info.contains("cluster_known_nodes:2")).await;
    }
}
