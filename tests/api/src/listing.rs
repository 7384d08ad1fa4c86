//! The public items of a crate, and the foreign crates in them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use public_api::{Builder, PublicItem};
use serde_json::Value;

/// The lines of the public items. Each line has the foreign crates that it names.
pub struct Listing {
    items: Vec<(String, BTreeSet<String>)>,
}

impl Listing {
    /// Reads the JSON of rustdoc.
    pub fn read(file: &Path) -> Result<Self, String> {
        let failed = |why: String| format!("{}: {why}", file.display());
        let text = fs::read_to_string(file).map_err(|why| failed(why.to_string()))?;
        let json: Value = serde_json::from_str(&text).map_err(|why| failed(why.to_string()))?;
        let api = Builder::from_rustdoc_json(file)
            .omit_blanket_impls(true)
            .omit_auto_trait_impls(true)
            .build()
            .map_err(|why| failed(why.to_string()))?;
        let mut known = BTreeSet::new(); // an `impl` stands at its type and at its trait
        let items = api
            .items()
            .filter(|item| !is_noise(item, &json) && known.insert(item.to_string()))
            .map(|item| (item.to_string(), foreign(item, &json)))
            .collect();
        Ok(Self { items })
    }

    /// Returns the lines that the other listing lacks.
    pub fn without(mut self, other: &Self) -> Self {
        let known: BTreeSet<&str> = other.lines().collect();
        self.items.retain(|(line, _)| !known.contains(line.as_str()));
        self
    }

    pub fn lines(&self) -> impl Iterator<Item = &str> {
        self.items.iter().map(|(line, _)| line.as_str())
    }

    /// Returns the text of the file.
    pub fn text(&self) -> String {
        self.lines().flat_map(|line| [line, "\n"]).collect()
    }

    /// Returns the foreign crates, each with the first line that names it.
    pub fn foreign(&self) -> BTreeMap<&str, &str> {
        let mut found = BTreeMap::new();
        for (line, names) in &self.items {
            for name in names {
                found.entry(name.as_str()).or_insert(line.as_str());
            }
        }
        found
    }
}

/// Returns whether the item tells nothing: a chapter of the guide, what a macro adds, or a method that
/// its trait demands.
fn is_noise(item: &PublicItem, json: &Value) -> bool {
    let line = item.to_string();
    if line.starts_with("pub mod resile::guide")
        || line.contains(" core::marker::StructuralPartialEq ")
        || line.contains("pin_project_lite::__private")
    {
        return true;
    }
    let Some(parent) = item.parent_id() else { return false };
    let own = &json["index"][item.id().0.to_string()]["inner"];
    let parent = &json["index"][parent.0.to_string()]["inner"];
    own["function"].is_object() && parent["impl"]["trait"].is_object()
}

/// Returns the names of the foreign crates in the signature of an item.
fn foreign(item: &PublicItem, json: &Value) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    walk(&json["index"][item.id().0.to_string()]["inner"], json, &mut names);
    for standard in ["core", "alloc", "std"] {
        names.remove(standard);
    }
    names
}

/// Collects the crates of all paths in a part of the JSON. A path is an object with an `id`.
fn walk(part: &Value, json: &Value, names: &mut BTreeSet<String>) {
    match part {
        Value::Object(fields) => {
            names.extend(fields.get("id").and_then(|id| krate(id, json)));
            fields.values().for_each(|field| walk(field, json, names));
        }
        Value::Array(parts) => parts.iter().for_each(|part| walk(part, json, names)),
        _ => {}
    }
}

/// Returns the name of the crate that defines an item, if it is a foreign one.
fn krate(id: &Value, json: &Value) -> Option<String> {
    let number = json["paths"][id.as_u64()?.to_string()]["crate_id"].as_u64()?;
    let name = &json["external_crates"][number.to_string()]["name"];
    name.as_str().map(str::to_owned)
}

/// Returns the lines of the old text that are gone, and those that are new, in the order of the
/// listings.
pub fn difference(old: &str, new: &str) -> Vec<String> {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<BTreeSet<_>>();
    let (before, after) = (lines(old), lines(new));
    let gone = old.lines().filter(|line| !after.contains(*line)).map(|line| format!("- {line}"));
    let come = new.lines().filter(|line| !before.contains(*line)).map(|line| format!("+ {line}"));
    let all: Vec<_> = gone.chain(come).collect();
    if all.is_empty() { vec!["(only the order or the number of lines)".to_owned()] } else { all }
}
