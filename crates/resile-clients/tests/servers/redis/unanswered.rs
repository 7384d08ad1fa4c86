//! Commands without an answer: was the command executed?

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, RedisError, RedisResult, RetryMethod};
use resile_clients::Idempotency::{self, Idempotent, NotIdempotent};
use resile_clients::resile::{Attempt, Backoff, Health, Never, RetryPolicy, retry};

use super::start::{client, cmd, connect, fail, seen, start, tell, until};
use crate::data::Says;
use crate::forward::Forwarder;
use crate::row::within;

/// Again only if it is idempotent.
const IN_DOUBT: Option<Says> = Some((true, false, Health::Failing, false));
/// Again in any case.
const NEVER_SENT: Option<Says> = Some((true, true, Health::Failing, false));

/// Connects with a short time for answers.
async fn hasty(port: u16) -> RedisResult<MultiplexedConnection> {
    let config =
        AsyncConnectionConfig::new().set_response_timeout(Some(Duration::from_millis(100)));
    client(port).get_multiplexed_async_connection_with_config(&config).await
}

/// The client says that an increment may be sent again at once. It has counted already.
#[tokio::test]
async fn a_command_that_timed_out_was_executed() {
    within(async {
        let server = start(&[]);
        let slow = Forwarder::start(server.port()).await;
        let mut to = hasty(slow.port()).await.unwrap();
        slow.hold_answers(true);
        let error = fail(&mut to, "INCR n").await;
        assert!(error.is_timeout(), "{error}");
        assert_eq!(seen(&error), IN_DOUBT);
        assert_eq!(tell::<u64>(&mut connect(server.port()).await, "GET n").await, 1);
        let advice = error.retry_method();
        assert!(
            matches!(advice, RetryMethod::RetryImmediately),
            "the client advises {advice:?} now, so the docs of `redis::error` are out of date",
        );
    })
    .await;
}

/// A server that postpones writes executes a command after its timeout.
#[tokio::test]
async fn a_command_that_timed_out_is_executed_later() {
    within(async {
        let server = start(&[]);
        let mut to = connect(server.port()).await;
        let () = tell(&mut to, "CLIENT PAUSE 60000 WRITE").await;
        let mut hasty = hasty(server.port()).await.unwrap();
        assert_eq!(seen(&fail(&mut hasty, "INCR n").await), IN_DOUBT);
        assert!(!tell::<bool>(&mut to, "EXISTS n").await);
        let () = tell(&mut to, "CLIENT UNPAUSE").await;
        until(&mut to, "STRLEN n", |length| length == "1").await;
        assert_eq!(tell::<u64>(&mut to, "GET n").await, 1);
    })
    .await;
}

#[tokio::test]
async fn a_connection_that_broke_after_the_command_says_the_same_as_one_before() {
    within(async {
        let server = start(&[]);
        let forwarder = Forwarder::start(server.port()).await;
        let mut direct = connect(server.port()).await;
        let mut to = connect(forwarder.port()).await;
        forwarder.hold_answers(true);
        let answer = tokio::spawn(async move { fail(&mut to, "INCR n").await });
        until(&mut direct, "STRLEN n", |length| length == "1").await;
        forwarder.cut();
        let after = answer.await.unwrap();
        assert_eq!(seen(&after), IN_DOUBT, "{after}");

        forwarder.hold_answers(false);
        let mut to = connect(forwarder.port()).await;
        forwarder.cut();
        let before = fail(&mut to, "INCR n").await;
        assert_eq!(seen(&before), IN_DOUBT, "{before}");
        assert_eq!(tell::<u64>(&mut direct, "GET n").await, 1);
    })
    .await;
}

#[tokio::test]
async fn a_server_that_is_killed_leaves_open_whether_it_did_the_work() {
    within(async {
        let mut server = start(&[]);
        let mut to = connect(server.port()).await;
        let mut other = connect(server.port()).await;
        let waits = tokio::spawn(async move { fail(&mut to, "BLPOP list 30").await });
        until(&mut other, "INFO clients", |info| info.contains("blocked_clients:1")).await;
        server.kill();
        let error = waits.await.unwrap();
        assert_eq!(seen(&error), IN_DOUBT, "{error}");
        let refused = client(server.port()).get_multiplexed_async_connection().await;
        assert_eq!(seen(&refused.err().unwrap()), NEVER_SENT);
    })
    .await;
}

/// The command is executed before the client finds out that its answer has another type.
#[tokio::test]
async fn an_answer_of_another_type_comes_after_the_work() {
    within(async {
        let server = start(&[]);
        let mut to = connect(server.port()).await;
        let answer: RedisResult<Vec<String>> = cmd("INCR n").query_async(&mut to).await;
        let (again_if_idempotent, again, ..) = seen(&answer.unwrap_err()).unwrap();
        assert!(again_if_idempotent && !again);
        assert_eq!(tell::<u64>(&mut to, "GET n").await, 1);
    })
    .await;
}

/// A call whose first answer is lost counts twice if it says that it is idempotent, and once otherwise.
#[tokio::test]
async fn an_increment_is_counted_twice_only_if_it_claims_to_be_idempotent() {
    within(async {
        for (idempotency, wanted) in [(Idempotent, 2), (NotIdempotent, 1)] {
            let server = start(&[]);
            let slow = Forwarder::start(server.port()).await;
            let _answer = increment(&slow, idempotency).await;
            let counted: u64 = tell(&mut connect(server.port()).await, "GET n").await;
            assert_eq!(counted, wanted, "{idempotency:?}");
        }
    })
    .await;
}

async fn increment(slow: &Forwarder, idempotency: Idempotency) -> Option<u64> {
    let classify = move |error: &RedisError| resile_clients::redis::error(error, idempotency);
    let policy = RetryPolicy::new()
        .with_backoff(Backoff::fixed(Duration::from_millis(10)))
        .with_classifier(classify);
    let count = async |attempt: Attempt| {
        slow.hold_answers(false);
        let mut to = hasty(slow.port()).await?;
        slow.hold_answers(attempt.is_first());
        cmd("INCR n").query_async::<u64>(&mut to).await
    };
    retry(count, policy, Never).await.ok()
}
