//! Every code that a function knows stands in the data file.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use resile_clients::resile::Health;
use resile_clients::{elasticsearch, postgres};

use super::rows::{Says, function, rows, says};

/// The rows of a family by their codes.
fn family(name: &str) -> BTreeMap<&'static str, Says> {
    let rows = rows().into_iter().filter(|row| row.family == name);
    rows.map(|row| (row.code, row.says)).collect()
}

/// Holds a function of numbers against the file, over a range that has each row.
fn sweep(name: &str, numbers: impl Iterator<Item = i64>, missing: impl Fn(i64) -> Option<Says>) {
    let table = family(name);
    let mut found = 0;
    for number in numbers {
        let code = number.to_string();
        let row = table.get(&*code).copied();
        found += usize::from(row.is_some());
        let wanted = row.or_else(|| missing(number));
        assert_eq!(function(name, &code), wanted, "{name} {code}");
    }
    let numeric = table.keys().filter(|code| code.parse::<i64>().is_ok()).count();
    assert_eq!(found, numeric, "{name}");
}

#[test]
fn each_number_is_in_the_file_or_unknown() {
    let none = |_| None;
    let edges = [i64::from(i32::MIN), i64::from(i32::MAX)];
    sweep("mysql", 0..=65_535, none);
    sweep("amqp", 0..=65_535, none);
    sweep("nats", 0..=65_535, none);
    sweep("gcs", 0..=65_535, none);
    sweep("grpc", (-1_000..=1_000).chain(edges), none);
    sweep("kafka", (-33_000..=33_000).chain(edges), none);
    sweep("mcp", (-33_000..=33_000).chain(edges), none);
    sweep("mongodb", (-1_000..=30_000).chain(edges), none);
    sweep("http2", 0..=70_000, none);
    sweep("http2-goaway", 0..=70_000, none);
}

/// An extended code without a row has that of its primary code, if the family means the same.
#[test]
fn each_code_of_sqlite_is_in_the_file_or_unknown() {
    let table = family("sqlite");
    let edges = [i64::from(i32::MIN), i64::from(i32::MAX)];
    sweep("sqlite", (-1_000..=65_535).chain(edges), |code| {
        if code <= 0 {
            return None;
        }
        table.get(&*format!("{}*", code & 0xff)).copied()
    });
}

/// An unprocessed stream has a row of its own for `NO_ERROR`, and otherwise that of the code.
#[test]
fn an_unprocessed_stream_differs_for_no_error_alone() {
    for code in 0..1_000_u32 {
        let (plain, unprocessed) = (code.to_string(), format!("{code}+unprocessed"));
        let is_same = function("http2-goaway", &plain) == function("http2-goaway", &unprocessed);
        assert_eq!(is_same, code != 0, "{code}");
    }
}

const SIGNS: &[u8; 36] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// The classes whose codes say nothing unless they have rows: the statement may be done, or the code is not
/// one of a statement.
const OPEN: [&str; 14] =
    ["00", "01", "02", "03", "08", "40", "53", "57", "58", "F0", "HV", "HY", "XX", "YB"];

/// All codes of the classes that have rows, and a part of all other ones.
#[test]
fn each_sqlstate_is_in_the_file_or_unknown() {
    let table = family("postgres");
    let classes: BTreeSet<_> = table.keys().filter_map(|code| code.get(..2)).collect();
    let mut code = *b"00000";
    for first in SIGNS {
        for second in SIGNS {
            (code[0], code[1]) = (*first, *second);
            let class = [*first, *second];
            let class = std::str::from_utf8(&class).unwrap();
            let has_rows = classes.contains(class);
            let other = if OPEN.contains(&class) { None } else { table.get("*").copied() };
            let by_class = table.get(&*format!("{class}*")).copied().or(other);
            let last = if has_rows { 36 } else { 10 };
            for index in 0..last * last * last {
                code[2] = SIGNS[index / (last * last)];
                code[3] = SIGNS[index / last % last];
                code[4] = SIGNS[index % last];
                let text = std::str::from_utf8(&code).unwrap();
                let wanted = table.get(text).copied().or(by_class);
                assert_eq!(says(|it| postgres::sqlstate(text, it)), wanted, "{text}");
            }
        }
    }
}

#[test]
fn what_is_no_sqlstate_is_unknown() {
    for text in ["", "4", "400", "4000", "400010", "40001 ", "42xyz", "42é1", "é4000", "22\u{0}00"]
    {
        assert_eq!(says(|it| postgres::sqlstate(text, it)), None, "{text:?}");
    }
}

/// The families whose codes are names.
const NAMED: [&str; 13] = [
    "redis",
    "hyper",
    "aws",
    "opendal",
    "gcs",
    "azure",
    "amqp",
    "nats",
    "nats-connect",
    "mongodb",
    "mongodb-kind",
    "kubernetes",
    "elasticsearch",
];

/// Returns names that are nearly `name`.
fn mutations(name: &str) -> Vec<String> {
    let mut all = vec![
        name.to_lowercase(),
        name.to_uppercase(),
        format!(" {name}"),
        format!("{name}Exception"),
        format!("{name}s"),
        format!("X{name}"),
        name.chars().rev().collect(),
        format!("{name}{name}"),
        String::new(),
    ];
    for (at, sign) in name.char_indices() {
        let mut without = name.to_owned();
        without.remove(at);
        all.push(without);
        let mut with = name.to_owned();
        with.insert(at, '_');
        all.push(with);
        let mut other = name.to_owned();
        other.replace_range(at..at + sign.len_utf8(), "q");
        all.push(other);
    }
    all
}

/// The names of all families are asked in each family.
#[test]
fn each_name_is_in_the_file_or_unknown() {
    let names: BTreeSet<_> = rows().iter().map(|row| row.code).collect();
    let mut asked = 0;
    for name in NAMED {
        let table = family(name);
        let near = names.iter().flat_map(|code| mutations(code));
        for code in near.chain(names.iter().map(|code| (*code).to_owned())) {
            // A number is a number, also if it is part of a name.
            if code.parse::<i32>().is_ok() {
                continue;
            }
            asked += 1;
            assert_eq!(function(name, &code), wanted(name, &table, &code), "{name} {code:?}");
        }
    }
    assert!(asked > 50_000, "{asked}");
}

/// Returns what the file says about a name, with the rules that the head of each family states.
fn wanted(name: &str, table: &BTreeMap<&str, Says>, code: &str) -> Option<Says> {
    match name {
        // The first word counts, and for one reply its start.
        "redis" => {
            let whole = table.keys().find(|key| key.contains(' ') && code.starts_with(**key));
            let word = code.split(' ').next().unwrap_or_default();
            whole.map(|key| table[key]).or_else(|| table.get(word).copied())
        }
        // A set of labels: unknown ones do not count.
        "mongodb" => {
            let labels: BTreeSet<_> = code.split('+').collect();
            let known = |key: &str| key.split('+').all(|label| labels.contains(label));
            let order = [
                "SystemOverloadedError+RetryableError",
                "TransientTransactionError",
                "SystemOverloadedError",
                "NoWritesPerformed",
                "UnknownTransactionCommitResult",
                "RetryableWriteError",
                "ResumableChangeStreamError",
            ];
            order.into_iter().find(|key| known(key)).map(|key| table[key])
        }
        "elasticsearch" => {
            let (status, _) = code.split_once(' ')?;
            let status: u16 = status.parse().ok()?;
            table.get(code).or_else(|| table.get(&*format!("{status} *"))).copied()
        }
        _ => table.get(code).copied(),
    }
}

#[test]
fn each_status_of_elasticsearch_is_in_the_file_or_unknown() {
    let table = family("elasticsearch");
    let kinds: BTreeSet<_> = table.keys().filter_map(|code| code.split_once(' ')).collect();
    for status in 0..=1_000 {
        for kind in kinds.iter().map(|(_, kind)| *kind).chain(["", "index_not_found_exception"]) {
            let code = format!("{status} {kind}");
            let row = table.get(&*code).or_else(|| table.get(&*format!("{status} *"))).copied();
            assert_eq!(says(|it| elasticsearch::error(status, kind, it)), row, "{code}");
        }
    }
}

proptest! {
    /// No function knows a name that nobody has written down, and none panics.
    #[test]
    fn any_text_is_in_the_file_or_unknown(text in ".{0,40}") {
        for name in NAMED {
            if text.parse::<i32>().is_err() {
                prop_assert_eq!(function(name, &text), wanted(name, &family(name), &text));
            }
        }
        let by_class = |says: Says| !says.0 && says.2 != Health::Failing;
        if let Some(says) = says(|it| postgres::sqlstate(&text, it)) {
            prop_assert!(text.len() == 5 && (by_class(says) || family("postgres").contains_key(&*text)));
        }
    }
}
