//! The foreign crates that may stand in a signature.

use std::fs;
use std::path::Path;

use crate::listing::Listing;

/// The rows of `foreign.txt`: package, crate, and the feature that it needs or `always`.
pub struct Allowed {
    rows: Vec<[String; 3]>,
}

impl Allowed {
    pub fn read(file: &Path) -> Result<Self, String> {
        let text = fs::read_to_string(file).map_err(|why| format!("{}: {why}", file.display()))?;
        let mut rows = Vec::new();
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let mut words = line.split_whitespace().map(str::to_owned);
            let row = [words.next(), words.next(), words.next()];
            let [Some(package), Some(name), Some(feature)] = row else {
                return Err(format!(
                    "foreign.txt: a row has a package, a crate, a feature and a reason: {line}"
                ));
            };
            if words.next().is_none() {
                return Err(format!("foreign.txt: a row ends with a reason: {line}"));
            }
            rows.push([package, name, feature]);
        }
        Ok(Self { rows })
    }

    /// Returns what differs from the rows of a package. `bare` is the package without features.
    pub fn wrong(&self, package: &str, full: &Listing, bare: &Listing) -> Vec<String> {
        let mut wrong = self.missing(package, full);
        for (name, line) in bare.foreign() {
            if self.feature(package, name).is_some_and(|feature| feature != "always") {
                wrong.push(format!(
                    "{package}: the crate {name} needs no feature, and foreign.txt names one:\n  {line}"
                ));
            }
        }
        let found = full.foreign();
        for [_, name, _] in self.rows.iter().filter(|[of, ..]| of == package) {
            if !found.contains_key(name.as_str()) {
                wrong
                    .push(format!("{package}: no signature names the crate {name} of foreign.txt"));
            }
        }
        wrong
    }

    /// Returns the crates without a row.
    pub fn missing(&self, package: &str, listing: &Listing) -> Vec<String> {
        let found = listing.foreign().into_iter();
        found
            .filter(|(name, _)| self.feature(package, name).is_none())
            .map(|(name, line)| {
                format!("{package}: foreign.txt has no row for the crate {name}, as in:\n  {line}")
            })
            .collect()
    }

    fn feature(&self, package: &str, name: &str) -> Option<&str> {
        let row = self.rows.iter().find(|[of, crate_, _]| of == package && crate_ == name);
        row.map(|[_, _, feature]| feature.as_str())
    }
}
