//! Published series with their labels, and the series that a query needs.

use std::collections::{BTreeMap, BTreeSet};

use promql_parser::label::{MatchOp, Matcher};
use promql_parser::parser::{self, Expr, VectorSelector};
use promql_parser::util::{ExprVisitor, walk_expr};

/// The labels of a series, each with its values. Without values any value is right.
type Labels = BTreeMap<String, BTreeSet<String>>;

/// Series by their names.
#[derive(Default)]
pub(crate) struct Series(BTreeMap<String, Labels>);

impl Series {
    /// Reads the text of an exporter.
    pub(crate) fn of(text: &str) -> Self {
        let mut series = Self::default();
        for line in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
            let (name, labels) = line.split_once('{').unwrap();
            let (labels, _) = labels.rsplit_once('}').unwrap();
            let known = series.0.entry(name.to_owned()).or_default();
            for label in labels.split("\",") {
                let (key, value) = label.split_once("=\"").unwrap();
                let values = known.entry(key.to_owned()).or_default();
                values.insert(value.trim_end_matches('"').to_owned());
            }
        }
        series
    }

    /// Adds the series that a source publishes by the macros of the facade.
    pub(crate) fn add_source(&mut self, source: &str) {
        // A name may stand in a variable before its macro.
        let mut variable = "";
        for statement in source.split(';') {
            if let Some((_, name)) = statement.split_once("let series = \"") {
                variable = name.trim_end_matches('"');
            }
            for kind in ["counter!(", "gauge!(", "histogram!("] {
                let Some((before, call)) = statement.split_once(kind) else { continue };
                if before.ends_with("describe_") {
                    continue;
                }
                let call = call.split(").").next().unwrap();
                let name = call.strip_prefix('"').and_then(|name| name.split('"').next());
                let name = name.unwrap_or(variable);
                let keys = call.split(" => ").filter_map(|before| before.rsplit('"').nth(1));
                let mut labels: Labels = keys
                    .filter(|key| *key != name)
                    .map(|key| (key.to_owned(), BTreeSet::new()))
                    .collect();
                let is_histogram = kind == "histogram!(";
                if is_histogram {
                    labels.insert("le".to_owned(), BTreeSet::new());
                }
                let end = if is_histogram { "_bucket" } else { "" };
                self.0.insert(format!("{name}{end}"), labels);
            }
        }
    }

    /// Returns the names without the ends of a histogram's three series.
    pub(crate) fn families(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(|name| family(name))
    }
}

fn family(name: &str) -> &str {
    let ends = ["_bucket", "_sum", "_count"];
    ends.iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name)
}

/// What a query asks for.
#[derive(Default)]
pub(crate) struct Query {
    /// The names, each with its matchers.
    selected: Vec<(String, Vec<Matcher>)>,
    /// The labels of each `by`, with the names below it.
    grouped: Vec<(String, String)>,
}

impl Query {
    pub(crate) fn of(expr: &str) -> Self {
        let parsed = parser::parse(expr).unwrap_or_else(|error| panic!("{expr}: {error}"));
        let mut query = Self::default();
        let Ok(_) = walk_expr(&mut query, &parsed);
        assert!(!query.selected.is_empty(), "{expr}");
        query
    }

    /// Returns the names without the ends of a histogram's three series.
    pub(crate) fn families(&self) -> Vec<&str> {
        self.selected.iter().map(|(name, _)| family(name)).collect()
    }

    /// Returns whether the answer keeps the label.
    pub(crate) fn has_label(&self, label: &str) -> bool {
        self.grouped.iter().any(|(by, _)| by == label)
    }

    /// Returns one message for each name, label or value that is not published.
    pub(crate) fn faults(&self, published: &Series) -> Vec<String> {
        let mut faults = Vec::new();
        for (name, matchers) in &self.selected {
            let Some(labels) = published.0.get(name) else {
                faults.push(format!("nobody publishes {name}"));
                continue;
            };
            for Matcher { op, name: label, value } in matchers {
                let Some(values) = labels.get(label) else {
                    faults.push(format!("{name} has no label {label}"));
                    continue;
                };
                let alternatives: Vec<_> = match op {
                    MatchOp::Equal | MatchOp::NotEqual => vec![&**value],
                    MatchOp::Re(_) | MatchOp::NotRe(_) => value.split('|').collect(),
                };
                for value in alternatives.into_iter().filter(|value| *value != ".*") {
                    if !values.is_empty() && !values.contains(value) {
                        faults.push(format!("{name} has no {label}={value}"));
                    }
                }
            }
        }
        for (by, name) in &self.grouped {
            let labels = published.0.get(name);
            if labels.is_some_and(|labels| !labels.contains_key(by)) {
                faults.push(format!("{name} has no label {by}"));
            }
        }
        faults
    }
}

impl ExprVisitor for Query {
    type Error = std::convert::Infallible;

    fn pre_visit(&mut self, expr: &Expr) -> Result<bool, Self::Error> {
        let mut select = |selector: &VectorSelector| {
            let name = selector.name.clone().expect("a name");
            self.selected.push((name, selector.matchers.matchers.clone()));
        };
        match expr {
            Expr::VectorSelector(selector) => select(selector),
            Expr::MatrixSelector(matrix) => select(&matrix.vs),
            Expr::Aggregate(aggregate) => {
                let below = Self::of(&aggregate.expr.to_string());
                let by = aggregate.modifier.as_ref().expect("a `by`").labels();
                for (name, _) in &below.selected {
                    let labels = by.labels.iter().map(|label| (label.clone(), name.clone()));
                    self.grouped.extend(labels);
                }
            }
            _ => {}
        }
        Ok(true)
    }
}
