//! Error replies that the state of a server provokes. The same command passes once the state has passed.

use std::fs;
use std::time::Duration;

use resile_clients::resile::Health;

use super::start::{cmd, connect, fail, seen, start, tell, try_connect, until};
use crate::row::{row, within};

#[tokio::test]
async fn a_full_memory_refuses_a_write() {
    within(async {
        let server = start(&[]);
        let mut to = connect(server.port()).await;
        let () = tell(&mut to, "CONFIG SET maxmemory 1").await;
        assert_eq!(seen(&fail(&mut to, "INCR n").await), row("redis", "OOM"));
        let () = tell(&mut to, "CONFIG SET maxmemory 0").await;
        assert_eq!(tell::<u64>(&mut to, "INCR n").await, 1);
    })
    .await;
}

#[tokio::test]
async fn a_snapshot_that_fails_forbids_writes() {
    within(async {
        let server = start(&["--dbfilename", "folder.rdb"]);
        let mut to = connect(server.port()).await;
        fs::create_dir(server.place().path("folder.rdb")).unwrap(); // no file takes its place
        let () = cmd("CONFIG SET save").arg("3600 1").query_async(&mut to).await.unwrap();
        let _started: String = tell(&mut to, "BGSAVE").await;
        until(&mut to, "INFO persistence", |info| info.contains("last_bgsave_status:err")).await;
        assert_eq!(seen(&fail(&mut to, "INCR n").await), row("redis", "MISCONF"));
        let () = tell(&mut to, "CONFIG SET stop-writes-on-bgsave-error no").await;
        assert_eq!(tell::<u64>(&mut to, "INCR n").await, 1);
    })
    .await;
}

#[tokio::test]
async fn a_script_that_runs_refuses_other_commands() {
    within(async {
        let server = start(&["--busy-reply-threshold", "1"]);
        let mut to = connect(server.port()).await;
        let mut script = connect(server.port()).await;
        let () = tell(&mut to, "SET n 0").await;
        let script = tokio::spawn(async move {
            let mut eval = redis::cmd("EVAL");
            eval.arg("while true do end").arg(0).query_async::<()>(&mut script).await
        });
        let mut counted = 0;
        let busy = loop {
            match cmd("INCR n").query_async::<u64>(&mut to).await {
                Ok(number) => counted = number, // the script did not run yet
                Err(busy) => break busy,
            }
        };
        assert_eq!(seen(&busy), row("redis", "BUSY"));
        let () = tell(&mut to, "SCRIPT KILL").await;
        assert_eq!(seen(&script.await.unwrap().unwrap_err()), row("redis", "ERR"));
        assert_eq!(tell::<u64>(&mut to, "INCR n").await, counted + 1);
    })
    .await;
}

#[tokio::test]
async fn a_master_without_enough_replicas_refuses_a_write() {
    within(async {
        let server = start(&["--min-replicas-to-write", "1"]);
        let mut to = connect(server.port()).await;
        assert_eq!(seen(&fail(&mut to, "INCR n").await), row("redis", "NOREPLICAS"));
        let () = tell(&mut to, "CONFIG SET min-replicas-to-write 0").await;
        assert_eq!(tell::<u64>(&mut to, "INCR n").await, 1);
    })
    .await;
}

#[tokio::test]
async fn a_server_that_loads_its_data_refuses_each_command() {
    within(async {
        let slow = ["--key-load-delay", "10000", "--loading-process-events-interval-bytes", "1024"];
        let mut server = start(&slow);
        let mut to = connect(server.port()).await;
        let value = "x".repeat(2_000);
        for key in 0..100 {
            let () = tell(&mut to, &format!("SET {key} {value}")).await;
        }
        let () = tell(&mut to, "SAVE").await;
        server.restart();
        let mut to = connect(server.port()).await;
        assert_eq!(seen(&fail(&mut to, "INCR n").await), row("redis", "LOADING"));
        while cmd("INCR n").query_async::<u64>(&mut to).await.is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert_eq!(tell::<u64>(&mut to, "GET n").await, 1);
    })
    .await;
}

#[tokio::test]
async fn a_replica_without_its_master_refuses_a_read() {
    within(async {
        let server = start(&["--replica-serve-stale-data", "no", "--replicaof", "127.0.0.1", "1"]);
        let mut to = connect(server.port()).await;
        assert_eq!(seen(&fail(&mut to, "GET k").await), row("redis", "MASTERDOWN"));
        let () = tell(&mut to, "REPLICAOF NO ONE").await;
        assert_eq!(tell::<Option<String>>(&mut to, "GET k").await, None);
    })
    .await;
}

/// The server answers "ERR max number of clients reached" and closes. The client loses these words, so
/// nobody can tell that the command never arrived.
#[tokio::test]
async fn too_many_clients_look_like_a_broken_connection() {
    within(async {
        let server = start(&[]);
        let mut to = connect(server.port()).await;
        let () = tell(&mut to, "CONFIG SET maxclients 1").await;
        for _ in 0..10 {
            let error = match try_connect(server.port()).await {
                Ok(mut second) => fail(&mut second, "INCR n").await,
                Err(error) => error,
            };
            assert!(error.is_io_error(), "{error}: a row of `data/errors.csv` says otherwise");
            assert_eq!(seen(&error), Some((true, false, Health::Failing, false)), "{error}");
        }
        assert!(!tell::<bool>(&mut to, "EXISTS n").await);
    })
    .await;
}
