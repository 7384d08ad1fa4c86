//! The calls of the scripts, and what a real server does to them.

use std::time::Duration;

use proptest::prelude::*;
use redis::aio::MultiplexedConnection;
use redis::{Connection, Value, cmd};

use super::tests::connect;
use super::tests::server::Server;
use super::*;

/// Long enough for a busy machine, and only waited for in full by a server that is stopped.
const PATIENCE: Duration = Duration::from_secs(20);
const SECOND: Duration = Duration::from_secs(1);

fn lease(id: &str) -> LeaseRequest<'_> {
    LeaseRequest {
        id,
        capacity: 100_000_000,
        rate: 1,
        scale: 1_000_000,
        ttl: 10 * SECOND,
        base: 0,
        spent: 0,
        least: 0,
        want: 30,
        memory: None,
        told: None,
        pause: Duration::ZERO,
        own: 0,
        calm: 100_000_000,
        weight: 1,
        away: 0,
        floor: 0,
    }
}

fn hold(remaining: Duration) -> HoldRequest<'static> {
    HoldRequest { id: "one two", channel: "holds", remaining, elapsed: SECOND, hint: SECOND }
}

fn vote() -> VoteRequest<'static> {
    VoteRequest { id: "a", calls: 9, failures: 5, open: true, ttl: SECOND }
}

fn probe(id: &str, step: ProbeStep) -> ProbeRequest<'_> {
    ProbeRequest { id, ttl: 10 * SECOND, step }
}

async fn connect_async(server: &Server) -> MultiplexedConnection {
    let client = redis::Client::open(server.url()).unwrap();
    client.get_multiplexed_async_connection().await.unwrap()
}

#[tokio::test]
async fn each_script_runs_on_the_time_of_the_server() {
    let Some(server) = Server::start(&[]) else { return };
    let mut connection = connect_async(&server).await;
    let time = async |connection: &mut MultiplexedConnection| {
        let (seconds, micros): (u64, u64) = cmd("TIME").query_async(connection).await.unwrap();
        seconds * 1_000_000 + micros
    };

    let before = time(&mut connection).await;
    let stepped = Duration::ZERO;
    let reply = run(&mut connection, "lease", &lease("a")).await.unwrap();
    let after = time(&mut connection).await;
    let expected = LeaseReply {
        granted: 30,
        level: 70,
        wait: Some(Duration::ZERO),
        is_new: true,
        stepped,
        room: 0,
    };
    assert_eq!(reply, expected);
    let stored: u64 = cmd("HGET").arg("lease").arg("t").query_async(&mut connection).await.unwrap();
    assert!((before..=after).contains(&stored), "{before} {stored} {after}");

    let reply = run(&mut connection, "hold", &hold(10 * SECOND)).await.unwrap();
    let by = Some("one two".to_owned());
    let (remaining, elapsed, hint) = (10 * SECOND, SECOND, SECOND);
    let expected = HoldReply { remaining, elapsed, hint, grew: true, by };
    assert_eq!(reply, expected);
    for (id, members) in [("a", 1), ("b", 2), ("a", 2)] {
        let request = MemberRequest { id, ttl: 10 * SECOND, channel: "channel" };
        let reply = run(&mut connection, "members", &request).await.unwrap();
        assert_eq!(reply, MemberReply { members, stepped });
    }
    let reply = run(&mut connection, "votes", &vote()).await.unwrap();
    assert_eq!(reply, VoteReply { members: 1, open: 1, ids: vec!["a".to_owned()] });

    let reply = run(&mut connection, "probe", &probe("a", ProbeStep::Acquire)).await.unwrap();
    assert_eq!(reply, ProbeReply { held: true, ..free() });
    for step in [ProbeStep::Acquire, ProbeStep::Release] {
        let reply = run(&mut connection, "probe", &probe("b", step)).await.unwrap();
        assert!(!reply.held && reply.remaining <= 10 * SECOND, "{reply:?}");
        assert_eq!(reply.prober.as_deref(), Some("a"));
        assert!(reply.remaining > Duration::ZERO, "{reply:?}");
    }
    let reply = run(&mut connection, "probe", &probe("a", ProbeStep::Release)).await.unwrap();
    assert_eq!(reply, free());
    let reply = run(&mut connection, "probe", &probe("a", ProbeStep::Failed)).await.unwrap();
    let failed_by = Some("a".to_owned());
    let (remaining, pause) = (10 * SECOND, 10 * SECOND);
    assert_eq!(reply, ProbeReply { remaining, pause, failed_by, ..free() });
    let reply = run(&mut connection, "probe", &probe("a", ProbeStep::Passed)).await.unwrap();
    let passed = Some(Duration::ZERO);
    assert_eq!(reply, ProbeReply { passed, ..free() });
}

/// Nobody holds the lease, and all may probe.
const fn free() -> ProbeReply {
    ProbeReply {
        held: false,
        remaining: Duration::ZERO,
        passed: None,
        pause: Duration::ZERO,
        failed_by: None,
        prober: None,
    }
}

#[tokio::test]
async fn a_script_that_the_server_forgot_is_loaded_again() {
    let Some(server) = Server::start(&[]) else { return };
    let mut connection = connect_async(&server).await;
    for is_new in [true, false] {
        let reply = run(&mut connection, "lease", &lease("a")).await.unwrap();
        assert_eq!(reply.is_new, is_new);
        let () = cmd("SCRIPT").arg("FLUSH").query_async(&mut connection).await.unwrap();
    }
}

/// Runs the script on a key that holds a list.
async fn refused<R: Request<Reply: fmt::Debug>>(
    connection: &mut MultiplexedConnection,
    request: &R,
) {
    match run(connection, "list", request).await {
        Err(error @ ScriptError::Server(_)) => {
            assert!(error.to_string().contains("WRONGTYPE"), "{error}");
            assert!(error.source().is_some());
        }
        other => panic!("{}: {other:?}", R::NAME),
    }
}

#[tokio::test]
async fn a_key_of_another_type_is_an_error_and_stays() {
    let Some(server) = Server::start(&[]) else { return };
    let mut connection = connect_async(&server).await;
    let () = cmd("RPUSH").arg("list").arg("mine").query_async(&mut connection).await.unwrap();
    refused(&mut connection, &lease("a")).await;
    refused(&mut connection, &hold(SECOND)).await;
    refused(&mut connection, &MemberRequest { id: "a", ttl: SECOND, channel: "channel" }).await;
    refused(&mut connection, &vote()).await;
    refused(&mut connection, &probe("a", ProbeStep::Acquire)).await;
    let mine: Vec<String> =
        cmd("LRANGE").arg("list").arg(0).arg(-1).query_async(&mut connection).await.unwrap();
    assert_eq!(mine, ["mine"]);
}

#[test]
fn fields_of_another_program_are_an_error() {
    let Some(server) = Server::start(&[]) else { return };
    let mut connection = connect(&server);
    for (field, value) in [("t", "soon"), ("s", ""), ("m:a", "many"), ("u", "?"), ("v", "")] {
        let mut store = cmd("HSET");
        store.arg("lease").arg("l").arg(1).arg("t").arg(1).arg("s").arg(1).arg("b").arg(1);
        let () = store
            .arg("o")
            .arg(1)
            .arg("w")
            .arg(1)
            .arg(field)
            .arg(value)
            .query(&mut connection)
            .unwrap();
        let reply: Result<Value, _> = lease("a").invocation("lease").invoke(&mut connection);
        assert!(reply.is_err(), "{field} {value}: {reply:?}");
        let () = cmd("DEL").arg("lease").query(&mut connection).unwrap();
    }
}

#[test]
fn a_hold_is_published_if_it_grew() {
    let Some(server) = Server::start(&[]) else { return };
    let (mut connection, mut listener) = (connect(&server), connect(&server));
    let mut listener = listener.as_pubsub();
    listener.subscribe("holds").unwrap();
    listener.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut hold = |seconds| {
        let request = hold(seconds * SECOND);
        let reply: Value = request.invocation("hold").invoke(&mut connection).unwrap();
        HoldRequest::parse(&reply).unwrap()
    };
    let first = hold(100);
    assert!(!hold(50).grew, "a shorter hold");
    assert!(!hold(0).grew, "only read");
    let second = hold(200);
    for reply in [first, second] {
        let message: String = listener.get_message().unwrap().get_payload().unwrap();
        let HoldReply { remaining, elapsed, hint, grew, .. } = reply;
        assert!(grew);
        let expected = HoldNotice { id: "one two", remaining, elapsed, hint };
        assert_eq!(HoldNotice::parse(&message), Some(expected), "{message}");
    }
}

#[tokio::test]
async fn the_first_eight_votes_for_open_have_names() {
    let Some(server) = Server::start(&[]) else { return };
    let mut connection = connect_async(&server).await;
    for number in (0..20).rev() {
        let id = format!("web-{number:02}");
        let request = VoteRequest { id: &id, open: number % 2 > 0, ..vote() };
        let reply = run(&mut connection, "votes", &request).await.unwrap();
        let odd = (number..20).filter(|number| number % 2 > 0);
        let ids: Vec<_> = odd.map(|number| format!("web-{number:02}")).collect();
        assert_eq!(reply.open, ids.len() as u64);
        assert_eq!(reply.ids, ids[..ids.len().min(8)]);
    }
}

#[test]
fn a_hold_is_of_the_member_that_set_its_end() {
    let Some(server) = Server::start(&[]) else { return };
    let mut connection = connect(&server);
    let mut by = |id, seconds| {
        let request = HoldRequest { id, ..hold(seconds * SECOND) };
        let reply: Value = request.invocation("hold").invoke(&mut connection).unwrap();
        HoldRequest::parse(&reply).unwrap().by
    };
    assert_eq!(by("a", 0), None);
    assert_eq!(by("a", 50).as_deref(), Some("a"));
    assert_eq!(by("b", 20).as_deref(), Some("a"), "it ends later");
    assert_eq!(by("b", 90).as_deref(), Some("b"));
    assert_eq!(by("a", 0).as_deref(), Some("b"), "only read");
}

#[test]
fn a_notice_of_another_form_is_none() {
    for message in ["", "a", "a 1", "a 1 2", "a 1 2 x", "a -1 2 3", "a 1.5 2 3", "a  1 2"] {
        assert_eq!(HoldNotice::parse(message), None, "{message}");
    }
}

/// Replies of any form, often nearly right.
fn reply() -> impl Strategy<Value = Value> {
    let near = (-2_i64..4).prop_map(Value::Int);
    let leaf = prop_oneof![
        6 => near,
        1 => any::<i64>().prop_map(Value::Int),
        1 => Just(Value::Nil),
        1 => any::<f64>().prop_map(Value::Double),
        1 => any::<Vec<u8>>().prop_map(Value::BulkString),
        1 => any::<String>().prop_map(Value::SimpleString),
    ];
    let named =
        (prop::collection::vec(0_i64..4, 0..6), prop::collection::vec(any::<Vec<u8>>(), 0..4))
            .prop_map(|(numbers, texts)| {
                let texts = texts.into_iter().map(Value::BulkString);
                Value::Array(numbers.into_iter().map(Value::Int).chain(texts).collect())
            });
    let any = leaf.prop_recursive(2, 12, 6, |inner| {
        prop::collection::vec(inner, 0..6).prop_map(Value::Array)
    });
    prop_oneof![2 => any, 1 => named]
}

/// Returns the integers of a reply and the number of the texts after them.
fn parts(reply: &Value) -> Option<(Vec<i64>, usize)> {
    let Value::Array(values) = reply else { return None };
    let number = |value: &Value| if let Value::Int(value) = value { Some(*value) } else { None };
    let numbers: Vec<_> = values.iter().map_while(number).collect();
    let texts = &values[numbers.len()..];
    let are_texts = texts.iter().all(|value| matches!(value, Value::BulkString(_)));
    are_texts.then_some((numbers, texts.len()))
}

/// Holds for each parser: the result is an error exactly for a reply that the script cannot give.
fn checks<R: Request>(reply: &Value, texts: usize, is_valid: impl Fn(&[i64]) -> bool) {
    checks_all::<R>(reply, |n, count| count == texts && is_valid(n));
}

fn checks_all<R: Request>(reply: &Value, is_valid: impl Fn(&[i64], usize) -> bool) {
    let is_valid = parts(reply).is_some_and(|(numbers, texts)| is_valid(&numbers, texts));
    match R::parse(reply) {
        Ok(_) => assert!(is_valid, "{reply:?}"),
        Err(error) => {
            assert!(!is_valid, "{reply:?}");
            let text = error.to_string();
            assert!(text.starts_with(&format!("the script `{}` returned", R::NAME)), "{text}");
            assert!(text.chars().count() < 300, "{text}");
        }
    }
}

proptest! {
    #[test]
    fn garbage_is_an_error(reply in reply()) {
        let is_flag = |n: i64| n == 0 || n == 1;
        checks::<LeaseRequest<'_>>(&reply, 0, |n| {
            n.len() == 6 && n[2] >= -1 && is_flag(n[3]) && n[4] >= 0
        });
        checks::<HoldRequest<'_>>(&reply, 1, |n| {
            n.len() == 4 && n[..3].iter().all(|n| *n >= 0) && is_flag(n[3])
        });
        checks::<MemberRequest<'_>>(&reply, 0, |n| n.len() == 2 && n[0] >= 0 && n[1] >= 0);
        checks_all::<VoteRequest<'_>>(&reply, |n, texts| {
            n.len() == 2 && n[1] >= 0 && n[0] >= n[1] && i64::try_from(texts) == Ok(n[1].min(8))
        });
        checks::<ProbeRequest<'_>>(&reply, 2, |n| {
            n.len() == 4 && is_flag(n[0]) && n[1] >= 0 && n[2] >= -1 && n[3] >= 0
        });
    }

    /// A duration of 0 has a meaning of its own.
    #[test]
    fn a_short_time_is_not_0(nanos in 1_u64..3_000_000) {
        let time = Duration::from_nanos(nanos);
        let args = MemberRequest { id: "a", ttl: time, channel: "channel" }.args();
        prop_assert_eq!(args[1].parse::<u64>().unwrap(), nanos.div_ceil(1_000));
        let args = ProbeRequest { id: "a", ttl: time, step: ProbeStep::Acquire }.args();
        prop_assert_eq!(args[1].parse::<u64>().unwrap(), nanos.div_ceil(1_000_000));
    }
}

fn is_answered(connection: &mut Connection) -> bool {
    cmd("PING").query::<String>(connection).is_ok()
}

#[test]
fn a_server_can_be_stopped_and_continued() {
    let Some(server) = Server::start(&[]) else { return };
    let mut connection = connect(&server);
    connection.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    server.stop_signal();
    assert!(!is_answered(&mut connection));
    server.cont_signal();
    let mut connection = connect(&server);
    connection.set_read_timeout(Some(PATIENCE)).unwrap();
    assert!(is_answered(&mut connection));
}

#[test]
fn a_server_that_starts_again_is_empty() {
    let Some(mut server) = Server::start(&[]) else { return };
    let mut connection = connect(&server);
    let () = cmd("SET").arg("a").arg(1).query(&mut connection).unwrap();
    server.kill();
    assert!(!is_answered(&mut connection));
    assert!(redis::Client::open(server.url()).unwrap().get_connection().is_err());
    let port = server.port();
    server.restart();
    assert_eq!(server.port(), port);
    let keys: u64 = cmd("DBSIZE").query(&mut connect(&server)).unwrap();
    assert_eq!(keys, 0);
}

#[test]
fn a_server_takes_arguments_and_ends_with_its_value() {
    let Some(server) = Server::start(&["--requirepass", "secret"]) else { return };
    let url = server.url();
    assert!(!is_answered(&mut connect(&server)));
    let with_password = url.replace("redis://", "redis://:secret@");
    let mut connection = redis::Client::open(with_password).unwrap().get_connection().unwrap();
    assert!(is_answered(&mut connection));
    drop(server);
    assert!(!is_answered(&mut connection));
}
