use std::fmt::Write;

/// One trap: the trial, and its result for each crate.
pub struct Section {
    pub title: &'static str,
    pub tried: &'static str,
    pub columns: &'static [&'static str],
    /// The name of the crate and a cell for each column.
    pub rows: Vec<(&'static str, Vec<String>)>,
}

impl Section {
    pub fn markdown(&self) -> String {
        let mut text = format!("#### {}\n\n{}\n\n", self.title, self.tried);
        let _ = writeln!(text, "| | {} |", self.columns.join(" | "));
        let _ = writeln!(text, "|---|{}", "---|".repeat(self.columns.len()));
        for (who, cells) in &self.rows {
            let _ = writeln!(text, "| {who} | {} |", cells.join(" | "));
        }
        text
    }
}
