//! A fail-over: a replica is promoted, and the old master becomes its replica.

use std::time::Duration;

use redis::aio::{ConnectionManager, ConnectionManagerConfig, MultiplexedConnection};
use redis::{RedisError, RedisResult};
use resile_clients::Idempotency::NotIdempotent;
use resile_clients::resile::{Attempt, Backoff, Never, RetryPolicy, Verdict, retry};
use server::Server;

use super::start::{Redis, client, cmd, connect, fail, seen, start, tell, until};
use crate::forward::Forwarder;
use crate::row::{row, within};

/// A master and its replica.
struct Pair {
    old: Server<Redis>,
    new: Server<Redis>,
}

impl Pair {
    /// Starts two servers, of which the second one has the data of the first one.
    async fn start() -> Self {
        let pair = Self { old: start(&[]), new: start(&["--repl-ping-replica-period", "1"]) };
        replicate(&mut connect(pair.new.port()).await, pair.old.port()).await;
        pair
    }

    /// Promotes the replica. The old master follows it.
    async fn fail_over(&self) {
        let () = tell(&mut connect(self.new.port()).await, "REPLICAOF NO ONE").await;
        replicate(&mut connect(self.old.port()).await, self.new.port()).await;
    }
}

async fn replicate(replica: &mut MultiplexedConnection, master: u16) {
    let () = tell(replica, &format!("REPLICAOF 127.0.0.1 {master}")).await;
    until(replica, "INFO replication", |info| info.contains("master_link_status:up")).await;
}

#[tokio::test]
async fn the_old_master_refuses_a_write() {
    within(async {
        let pair = Pair::start().await;
        let mut old = connect(pair.old.port()).await;
        assert_eq!(tell::<u64>(&mut old, "INCR n").await, 1);
        assert_eq!(tell::<u64>(&mut old, "WAIT 1 0").await, 1); // the replica has it
        pair.fail_over().await;
        assert_eq!(seen(&fail(&mut old, "INCR n").await), row("redis", "READONLY"));
        assert_eq!(tell::<u64>(&mut connect(pair.new.port()).await, "INCR n").await, 2);
    })
    .await;
}

#[tokio::test]
async fn a_command_that_waits_is_freed() {
    within(async {
        let pair = Pair::start().await;
        let mut waits = connect(pair.old.port()).await;
        let waits = tokio::spawn(async move { fail(&mut waits, "BLPOP list 30").await });
        let mut old = connect(pair.old.port()).await;
        until(&mut old, "INFO clients", |info| info.contains("blocked_clients:1")).await;
        pair.fail_over().await;
        assert_eq!(seen(&waits.await.unwrap()), row("redis", "UNBLOCKED"));
    })
    .await;
}

/// The client knows READONLY, but its manager does not connect again because of it. A retry through the
/// manager fails for ever, and a new connection finds the new master.
#[tokio::test]
async fn the_manager_of_the_client_stays_on_the_old_master() {
    within(async {
        let pair = Pair::start().await;
        let address = Forwarder::start(pair.old.port()).await;
        let config = ConnectionManagerConfig::new();
        let mut manager =
            ConnectionManager::new_with_config(client(address.port()), config).await.unwrap();
        let counted: u64 = cmd("INCR n").query_async(&mut manager).await.unwrap();
        assert_eq!(counted, 1);
        let copies: u64 = cmd("WAIT 1 0").query_async(&mut manager).await.unwrap();
        assert_eq!(copies, 1); // the replica has it
        address.point_to(pair.new.port());
        pair.fail_over().await;
        for retry in 1..=5 {
            let answer: RedisResult<u64> = cmd("INCR n").query_async(&mut manager).await;
            let error = answer.expect_err(
                "the manager found the new master, so the note of READONLY in `data/errors.csv` and \
                 the section on Redis are out of date",
            );
            assert_eq!(error.code(), Some("READONLY"), "retry {retry}: {error}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(tell::<u64>(&mut connect(address.port()).await, "INCR n").await, 2);
    })
    .await;
}

/// An increment counts exactly once, though the first attempts fail.
#[tokio::test]
async fn a_call_that_connects_in_each_attempt_survives() {
    within(async {
        let pair = Pair::start().await;
        let address = Forwarder::start(pair.old.port()).await;
        pair.fail_over().await;
        let classify = |error: &RedisError| -> Option<Verdict> {
            resile_clients::redis::error(error, NotIdempotent)
        };
        let policy = RetryPolicy::new()
            .with_attempts(4)
            .with_backoff(Backoff::fixed(Duration::from_millis(20)))
            .with_classifier(classify);
        let count = async |attempt: Attempt| -> RedisResult<u64> {
            if attempt.number() == 3 {
                address.point_to(pair.new.port()); // the new master is known late
            }
            let mut to = client(address.port()).get_multiplexed_async_connection().await?;
            cmd("INCR n").query_async(&mut to).await
        };
        assert_eq!(retry(count, policy, Never).await.unwrap(), 1);
    })
    .await;
}
