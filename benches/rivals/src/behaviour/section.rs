use std::fmt::Write;

/// One trap: what was tried, and what was seen of each.
pub struct Section {
    pub title: &'static str,
    pub tried: &'static str,
    pub columns: &'static [&'static str],
    /// Who, and a cell for each column.
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
