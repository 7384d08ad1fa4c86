//! A user with few rights.

use std::time::Duration;

use resile::{Breaker, Budget, Cooldown};
use resile_redis::Fleet;

use crate::crew::{Mate, all_share, limited, until};
use crate::server::Server;

/// The rights in the README are enough.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_with_the_rights_of_the_readme() {
    let Some(server) = Server::start(&[]) else { return };
    grant(&server, &[]).await;

    let url = server.url().replace("redis://", "redis://resile:password@");
    let upstream = || {
        limited(100, 10)
            .with_budget(Budget::new())
            .with_cooldown(Cooldown::new())
            .with_breaker(Breaker::new())
    };
    let crew: Vec<_> = (0..2)
        .map(|_| Mate::join(&Fleet::new(&url).unwrap().with_votes(true), upstream()))
        .collect();
    all_share(&crew).await;
    crew[0].upstream.hold(Duration::from_secs(3));
    let is_held = || crew[1].upstream.held().is_some();
    until("the hold", is_held, || format!("{:?}", crew[1].member.snapshot())).await;
    // A machine under load may miss an answer, but the server refuses nothing.
    let is_late = |error: &String| error.starts_with("no answer within");
    for mate in &crew {
        let error = mate.member.snapshot().last_error;
        assert!(error.as_ref().is_none_or(is_late), "{error:?}");
    }
}

/// Creates the user `resile` with the rights of the README and further ones.
pub(crate) async fn grant(server: &Server, more: &[&str]) {
    let readme = include_str!("../../README.md");
    let line = readme.split("```text\nACL ").nth(1).unwrap().split("```").next().unwrap();
    let mut command = redis::cmd("ACL");
    for word in line.split_whitespace().filter(|word| *word != "\\") {
        command.arg(word);
    }
    command.arg(more);
    let client = redis::Client::open(server.url()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let _: () = command.query_async(&mut connection).await.unwrap();
}
