//! No connection: a pool that is used up, a server that is full, and limits of a user.

use std::time::Duration;

use server::Server;
use sqlx::mysql::MySqlPoolOptions;

use super::{MariaDb, Session, options, shared};
use crate::data::says;
use crate::row::{row, within};
use crate::sql::failure::{Failure, NO_CONNECTION, OWN_LIMIT};

#[tokio::test]
async fn a_pool_that_is_used_up() {
    within(async {
        let server = shared();
        let pool = MySqlPoolOptions::new().max_connections(1);
        let pool = pool.acquire_timeout(Duration::from_millis(100));
        let pool = pool.connect_with(options(&server)).await.unwrap();
        let held = pool.acquire().await.unwrap();
        Failure::from(pool.acquire().await.unwrap_err()).check(NO_CONNECTION, false);
        drop(held);
    })
    .await;
}

#[tokio::test]
async fn limits_of_a_server_and_of_a_user() {
    within(async {
        let server = Server::start(MariaDb);
        let mut admin = Session::new(&server).await;
        admin.table("limited").await;
        for user in [
            "CREATE USER slots@'127.0.0.1' WITH MAX_USER_CONNECTIONS 1",
            "CREATE USER hourly@'127.0.0.1' WITH MAX_UPDATES_PER_HOUR 1",
            "CREATE USER plain@'127.0.0.1'",
            "GRANT ALL ON mysql.* TO hourly@'127.0.0.1'",
        ] {
            admin.run(user).await.unwrap();
        }
        let open = |user| Session::open(options(&server).username(user));

        // The number alone leaves a doubt, because it has two meanings.
        let number = says(|it| resile_clients::mysql::number(1226, it));
        assert_eq!(number, row("mysql", "1226"));
        // Slots pass when a session ends.
        let held = open("slots").await.unwrap();
        let failure = open("slots").await.err().unwrap();
        failure.has("number: 1226");
        failure.check(OWN_LIMIT, false);
        drop(held);

        // A quota of an hour does not pass soon. The earlier statement is kept.
        let mut hourly = open("hourly").await.unwrap();
        hourly.run("UPDATE mysql.limited SET n = 1 WHERE id = 1").await.unwrap();
        let failure = hourly.fail("UPDATE mysql.limited SET n = 2 WHERE id = 1").await;
        failure.has("number: 1226");
        let never = OWN_LIMIT.map(|(.., health, own)| (false, false, health, own));
        failure.check(never, admin.sum("limited").await != 1);

        admin.run("SET GLOBAL max_user_connections = 1").await.unwrap();
        let held = open("plain").await.unwrap();
        let failure = open("plain").await.err().unwrap();
        failure.check(row("mysql", "1203"), false);
        drop(held);

        admin.run("SET GLOBAL max_user_connections = 100, max_connections = 10").await.unwrap();
        let mut held = Vec::new();
        let failure = loop {
            match open("plain").await {
                Ok(session) => held.push(session),
                Err(failure) => break failure,
            }
        };
        failure.check(row("mysql", "1040"), false);
    })
    .await;
}
