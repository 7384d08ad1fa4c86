//! Each row of the data file is what its function says.

use std::collections::BTreeSet;
use std::time::Duration;

use resile_clients::grpc::Pushback;
use resile_clients::{
    amqp, aws, azure, elasticsearch, gcs, grpc, http2, hyper, kafka, kubernetes, mcp, mongodb,
    mysql, nats, opendal, postgres, redis, sqlite,
};

pub(crate) use super::data::{Row, Says, rows, says};

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
        "hyper" => says(|it| hyper::kind(code, it)),
        "aws" => says(|it| aws::code(code, it)),
        "opendal" => match code.split_once('+') {
            Some((code, "temporary")) => says(|it| opendal::kind(code, true, it)),
            _ => says(|it| opendal::kind(code, false, it)),
        },
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
            says(|it| mongodb::code(&labels, number(), it))
        }
        "mongodb-kind" => says(|it| mongodb::kind(code, it)),
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
        ("postgres", Some("")) => ["BK001", "25001", "44000", "99999"].map(String::from).into(),
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
        let evidence = ["real-server", "real-client", "seen", "real-type", "code-only", "manual"];
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
