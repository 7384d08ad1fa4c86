//! Each row of the data file is what its function says.

use std::collections::BTreeSet;
use std::time::Duration;

use resile_clients::Idempotency::{self, Idempotent, NotIdempotent};
use resile_clients::grpc::Pushback;
use resile_clients::resile::{Health, Verdict};
use resile_clients::{
    amqp, aws, azure, elasticsearch, gcs, grpc, http2, kafka, kubernetes, mcp, mongodb, mysql,
    nats, postgres, redis, sqlite,
};

/// A line of the data file.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) family: &'static str,
    pub(crate) code: &'static str,
    pub(crate) says: Says,
    wait: &'static str,
    evidence: &'static str,
}

/// Sent again if idempotent, sent again if not, the health, and whether it is a limit of the caller.
pub(crate) type Says = (bool, bool, Health, bool);

/// Returns the rows of the data file.
pub(crate) fn rows() -> Vec<Row> {
    let mut lines = include_str!("../../data/errors.csv").lines();
    let head = "family,code,name,idempotent,not_idempotent,health,wait,note,evidence";
    assert_eq!(lines.next(), Some(head));
    lines.map(row).collect()
}

fn row(line: &'static str) -> Row {
    let fields: Vec<_> = line.split(',').collect();
    let [family, code, _, safe, booking, health, wait, _, evidence] = fields[..] else {
        panic!("not nine fields: {line}")
    };
    let answer = |word| match word {
        "yes" => true,
        "no" => false,
        _ => panic!("neither yes nor no: {line}"),
    };
    let (health, own) = match health {
        "healthy" => (Health::Healthy, false),
        "failing" => (Health::Failing, false),
        "unknown" => (Health::Unknown, false),
        "overload" => (Health::Throttling, false),
        "own_limit" => (Health::Throttling, true),
        _ => panic!("no such health: {line}"),
    };
    Row { family, code, says: (answer(safe), answer(booking), health, own), wait, evidence }
}

/// Returns what a function says under both idempotencies.
pub(crate) fn says(ask: impl Fn(Idempotency) -> Option<Verdict>) -> Option<Says> {
    match (ask(Idempotent), ask(NotIdempotent)) {
        (None, None) => None,
        (Some(safe), Some(booking)) => {
            assert_eq!(safe.health(), booking.health());
            assert_eq!(safe.is_own_limit(), booking.is_own_limit());
            Some((safe.is_again(), booking.is_again(), safe.health(), safe.is_own_limit()))
        }
        (safe, booking) => panic!("one opinion is missing: {safe:?} and {booking:?}"),
    }
}

/// Asks the function of a family about a code as it stands in the data file.
pub(crate) fn function(family: &str, code: &str) -> Option<Says> {
    let number = || code.parse::<i32>().ok();
    let small = || code.parse::<u16>().ok();
    match family {
        "postgres" => says(|it| postgres::sqlstate(code, it)),
        "mysql" => says(|it| mysql::number(small()?, it)),
        "sqlite" => says(|it| sqlite::code(number()?, it)),
        "redis" => says(|it| redis::prefix(code, it)),
        "grpc" => match code.split_once('+') {
            Some((code, "RetryInfo")) => {
                says(|it| grpc::with_retry_info(code.parse().ok()?, Duration::ZERO, it))
            }
            _ => says(|it| grpc::code(number()?, Pushback::None, it)),
        },
        "http2" => says(|it| http2::reset(code.parse().ok()?, it)),
        "http2-goaway" => {
            let (code, unprocessed) = match code.split_once('+') {
                Some((code, "unprocessed")) => (code, true),
                _ => (code, false),
            };
            says(|it| http2::goaway(code.parse().ok()?, unprocessed, it))
        }
        "aws" => says(|it| aws::code(code, it)),
        "gcs" => match small() {
            Some(status) => says(|it| gcs::status(status, it)),
            None => says(|it| gcs::reason(code, it)),
        },
        "azure" => says(|it| azure::code(code, it)),
        "kafka" => says(|it| kafka::code(number()?, it)),
        "amqp" => match small() {
            Some(reply) => says(|it| amqp::reply(reply, it)),
            None => says(|it| amqp::confirmation(code, it)),
        },
        "nats" => match small() {
            Some(code) => says(|it| nats::api(code, it)),
            None => says(|it| nats::kind(code, it)),
        },
        "nats-connect" => says(|it| nats::connect(code, it)),
        "mongodb" => {
            let labels: Vec<_> = code.split('+').filter(|_| number().is_none()).collect();
            says(|it| mongodb::error(&labels, number(), it))
        }
        "elasticsearch" => {
            let (status, kind) = code.split_once(' ')?;
            says(|it| elasticsearch::error(status.parse().ok()?, kind, it))
        }
        "kubernetes" => says(|it| kubernetes::reason(code, it)),
        "mcp" => says(|it| mcp::code(number()?, it)),
        _ => panic!("no such family: {family}"),
    }
}

/// Returns codes that a row stands for: itself, or some of its class.
fn codes(row: &Row) -> Vec<String> {
    match (row.family, row.code.strip_suffix('*')) {
        ("postgres", Some(class)) => vec![format!("{class}000"), format!("{class}ZZZ")],
        // A primary code and an extended one that is not in the table.
        ("sqlite", Some(code)) => {
            let code: i32 = code.parse().unwrap();
            vec![code.to_string(), (code + (200 << 8)).to_string()]
        }
        ("elasticsearch", Some(status)) => vec![format!("{status}any"), status.to_owned()],
        _ => vec![row.code.to_owned()],
    }
}

#[test]
fn each_row_is_what_its_function_says() {
    let rows = rows();
    assert!(rows.len() > 300, "{}", rows.len());
    for row in &rows {
        if row.family == "grpc" && row.code.starts_with('*') {
            continue; // `laws` has them: they hold for each code
        }
        for code in codes(row) {
            assert_eq!(function(row.family, &code), Some(row.says), "{} {code}", row.family);
        }
    }
}

#[test]
fn each_row_stands_once_and_has_known_words() {
    let rows = rows();
    let keys: BTreeSet<_> = rows.iter().map(|row| (row.family, row.code)).collect();
    assert_eq!(keys.len(), rows.len());
    for row in &rows {
        let is_again = row.says.0 || row.says.1;
        assert!(["soon", "backoff", "hint", "none"].contains(&row.wait), "{row:?}");
        assert_eq!(row.wait == "none", !is_again, "{row:?}");
        let evidence = ["real-server", "real-type", "code-only", "manual"];
        assert!(evidence.contains(&row.evidence), "{row:?}");
    }
}

/// A request that is not repeated if that is safe is not repeated if it is not safe.
#[test]
fn doubt_is_never_sent_again() {
    for row in rows() {
        assert!(row.says.0 || !row.says.1, "{row:?}");
    }
}
