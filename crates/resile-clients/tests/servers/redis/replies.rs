//! Error replies that a command provokes. None of these commands was executed.

use super::start::{connect, fail, seen, start, tell};
use crate::row::{row, within};

#[tokio::test]
async fn a_wrong_command_stays_wrong() {
    within(async {
        let server = start(&[]);
        let mut to = connect(server.port()).await;
        let () = tell(&mut to, "SET k value").await;
        assert_eq!(seen(&fail(&mut to, "LPUSH k x").await), row("redis", "WRONGTYPE"));
        assert_eq!(seen(&fail(&mut to, "INCR k").await), row("redis", "ERR"));
        assert_eq!(tell::<String>(&mut to, "GET k").await, "value");
        let hash = "0".repeat(40);
        let no_script = fail(&mut to, &format!("EVALSHA {hash} 0")).await;
        assert_eq!(seen(&no_script), row("redis", "NOSCRIPT"));
        assert_eq!(seen(&fail(&mut to, "SCRIPT KILL").await), row("redis", "NOTBUSY"));
    })
    .await;
}

#[tokio::test]
async fn a_transaction_with_a_wrong_command_does_nothing() {
    within(async {
        let server = start(&[]);
        let mut to = connect(server.port()).await;
        let () = tell(&mut to, "MULTI").await;
        let _queued: String = tell(&mut to, "INCR n").await;
        assert_eq!(seen(&fail(&mut to, "NOSUCH").await), row("redis", "ERR"));
        assert_eq!(seen(&fail(&mut to, "EXEC").await), row("redis", "EXECABORT"));
        assert!(!tell::<bool>(&mut to, "EXISTS n").await);
    })
    .await;
}

#[tokio::test]
async fn a_missing_right_is_not_the_fault_of_the_server() {
    within(async {
        let server = start(&["--requirepass", "secret"]);
        let mut to = connect(server.port()).await;
        assert_eq!(seen(&fail(&mut to, "INCR n").await), row("redis", "NOAUTH"));
        assert_eq!(seen(&fail(&mut to, "AUTH wrong").await), row("redis", "WRONGPASS"));
        let () = tell(&mut to, "AUTH secret").await;
        let () = tell(&mut to, "ACL SETUSER reader on >pass ~* +get").await;
        let () = tell(&mut to, "AUTH reader pass").await;
        assert_eq!(seen(&fail(&mut to, "INCR n").await), row("redis", "NOPERM"));
        let () = tell(&mut to, "AUTH default secret").await;
        assert!(!tell::<bool>(&mut to, "EXISTS n").await);
    })
    .await;
}
