//! The configuration file of the cookbook: it has every setting, and each default is that of the code.

use std::fmt::Debug;

use resile::{FallbackPolicy, HedgePolicy, RetryPolicy, Upstream};
use serde::Deserialize;
use toml::{Table, Value};

use crate::page::{blocks, read};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    retry: RetryPolicy,
    hedge: HedgePolicy,
    fallback: FallbackPolicy,
    weather: Upstream,
    model: Upstream,
}

/// A setting of the file: the path of its map, its name and the default that the comment states.
struct Setting {
    map: Vec<String>,
    name: String,
    default: Option<String>,
}

/// Defaults that no value stands for.
const WORDS: [&str; 3] = ["not there", "required", "as many as"];

/// Settings that no method and no `Debug` shows, with their map and their default.
const UNSEEN: [(&str, &str, &str); 4] = [
    ("bulkhead", "max_wait", "\"none\""),
    ("cooldown", "jitter", "0.25"),
    ("cooldown", "cap", "\"2m\""),
    ("adaptive_timeout", "quantile", "0.95"),
];

/// Returns the file of the page.
fn file() -> String {
    let blocks = blocks(&read("docs/guide/cookbook.md"));
    let mut files = blocks.into_iter().filter(|block| block.language == "toml");
    files.nth(1).unwrap().text
}

fn settings(file: &str) -> Vec<Setting> {
    let (mut map, mut settings) = (Vec::new(), Vec::new());
    for line in file.lines().filter(|line| !line.is_empty()) {
        let (code, comment) = line.split_once(" # ").unwrap_or((line, ""));
        let code = code.trim();
        if let Some(header) = code.strip_prefix('[') {
            map = header.trim_end_matches(']').split('.').map(str::to_owned).collect();
            continue;
        }
        let (name, _) = code.split_once(" = ").unwrap();
        let default = comment.split_once("Default: ").map(|(_, default)| default.to_owned());
        settings.push(Setting { map: map.clone(), name: name.to_owned(), default });
    }
    settings
}

/// Returns a file with the map at this path, and what the maps around it require.
fn with_map(map: &[String], inner: Table) -> Table {
    let mut table = inner;
    if map.last().is_some_and(|name| name == "bulkhead") && !table.contains_key("learned") {
        table.entry("limit").or_insert(Value::Integer(64));
    }
    for at in (0..map.len()).rev() {
        if at == 0 && ["weather", "model"].contains(&&*map[0]) {
            table.entry("name").or_insert(Value::String("it".to_owned()));
        }
        table = Table::from_iter([(map[at].clone(), Value::Table(table))]);
    }
    table
}

/// Reads the only entry of the file as its type, and returns all that can be seen of it.
fn seen(file: &Table) -> Result<String, toml::de::Error> {
    fn debug<'de, T: Deserialize<'de> + Debug>(value: Value) -> Result<String, toml::de::Error> {
        Ok(format!("{:?}", T::deserialize(value)?))
    }
    let (name, value) = file.iter().next().unwrap();
    let value = value.clone();
    match &**name {
        "retry" => debug::<RetryPolicy>(value),
        "hedge" => debug::<HedgePolicy>(value),
        "fallback" => debug::<FallbackPolicy>(value),
        _ => {
            let upstream = Upstream::deserialize(value)?;
            let quota = upstream.quota().map(|quota| {
                (quota.queue(), quota.learning(), quota.shadow().is_some(), quota.charge())
            });
            let mut text = format!("{upstream:?} {quota:?}");
            if let Some(budget) = upstream.budget() {
                while budget.withdraw() {}
                (0..60).for_each(|_| budget.deposit());
                text.push_str(&budget.available().to_string());
            }
            Ok(text)
        }
    }
}

#[test]
fn the_file_is_read() {
    let config: Config = toml::from_str(&file()).unwrap();
    assert_eq!(config.retry.attempts(), 4);
    assert_eq!(config.hedge.hedges(), 2);
    assert!(config.fallback.attempt_timeout().is_some());
    assert!(config.weather.adaptive_timeout().is_some());
    assert_eq!(config.model.bulkhead().unwrap().limit(), 20);
}

/// The error on an unknown setting lists those that a map has.
#[test]
fn the_file_has_every_setting() {
    let settings = settings(&file());
    let mut maps: Vec<_> = settings.iter().map(|it| it.map.clone()).collect();
    maps.dedup();
    let mut count = 0;
    for map in maps {
        let unknown = Table::from_iter([("unknown".to_owned(), Value::Integer(1))]);
        let error = seen(&with_map(&map, unknown)).unwrap_err().to_string();
        let names = error.lines().next().and_then(|line| line.split("expected ").nth(1));
        let names = names.unwrap_or_else(|| panic!("{error}"));
        for name in names.split('`').skip(1).step_by(2) {
            count += 1;
            // A map of its own, or the same map of the other upstream.
            let last = map.last().unwrap();
            let is_upstream =
                |map: &[String]| ["weather", "model"].map(|it| map == [it]).contains(&true);
            let has = settings.iter().any(|it| {
                let is_same =
                    it.map.last() == Some(last) || is_upstream(&map) && is_upstream(&it.map);
                let is_there = is_same && it.name == name;
                let is_map = it.map.len() > 1 && it.map.last().is_some_and(|it| it == name);
                is_there || is_map
            });
            let is_elsewhere = ["backoff", "throttled_backoff", "healthy_backoff", "open_time"]
                .contains(&&**last)
                && settings.iter().any(|it| it.map == ["retry", "backoff"] && it.name == name);
            let is_learned = last == "bulkhead" && name == "learned";
            assert!(has || is_elsewhere || is_learned, "{map:?} has no `{name}`");
        }
    }
    assert!(count > 60, "{count}");
}

#[test]
fn each_default_of_the_file_is_that_of_the_code() {
    let file = file();
    let all: Table = toml::from_str(&file).unwrap();
    let mut compared = 0;
    for Setting { map, name, default } in settings(&file) {
        let Some(default) = default else { continue };
        if WORDS.iter().any(|words| default.starts_with(words)) {
            continue;
        }
        let value =
            |text: &str| toml::from_str::<Table>(&format!("x = {text}")).unwrap()["x"].clone();
        let with = |value: Value| seen(&with_map(&map, Table::from_iter([(name.clone(), value)])));
        let without = seen(&with_map(&map, Table::new())).unwrap();
        assert_eq!(with(value(&default)).unwrap(), without, "{map:?} {name}");
        compared += 1;
        // The comparison can see the setting at all.
        let mut here = &all;
        for step in &map {
            here = here[step].as_table().unwrap();
        }
        let is_default = here[&name] == value(&default);
        let last = map.last().unwrap();
        let unseen = UNSEEN.iter().find(|(of, unseen, _)| of == last && *unseen == name);
        if let Some((_, _, known)) = unseen {
            assert_eq!(default, *known, "{name}");
        } else if !is_default {
            let changed = with(here[&name].clone());
            assert!(changed.is_err() || changed.unwrap() != without, "{name} is not seen");
        }
    }
    assert!(compared > 35, "{compared}");
}

/// The picture and the list ask the same questions.
#[test]
fn the_picture_says_what_the_list_says() {
    let picture = read("docs/which-part.svg");
    let page = read("docs/guide/cookbook.md");
    let table = page.split("\n# Cargo.toml\n").next().unwrap();
    let rows: Vec<_> = table.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    let texts: Vec<_> = picture
        .split("<text ")
        .skip(1)
        .map(|text| text.split_once('>').unwrap().1.split_once('<').unwrap().0)
        .collect();
    assert_eq!(texts.len(), 2 * rows.len());
    for (pair, row) in texts.chunks(2).zip(rows) {
        let (question, part) = (pair[0], pair[1].split(',').next().unwrap());
        assert!(row.starts_with(&format!("| {question} | ")), "{row}");
        assert!(row.contains(&format!("`{part}`")), "{row}: {part}");
    }
}
