//! Tables in Markdown.

use std::fmt::Write;

use crate::measure::{Line, Table};

/// Returns all tables, with a summary first.
pub fn numbers(tables: &[Table]) -> String {
    let mut text = String::from("#### Summary\n\n");
    text.push_str("| | resile, ns | by hand, ns | quickest rival, ns | resile ÷ rival | in instructions | rival | ");
    text.push_str("quickest that does less °, ns | resile ÷ it | crate |\n");
    text.push_str("|---|--:|--:|--:|--:|--:|---|--:|--:|---|\n");
    for table in tables {
        text.push_str(&summary(table).unwrap_or_default());
    }
    for one in tables {
        let _ = write!(text, "\n{}", self::table(one));
    }
    text
}

/// Returns the summary of one row: the crate, its quickest rival, and the quickest one that does
/// less. Returns `None` for a row without the crate.
fn summary(table: &Table) -> Option<String> {
    let own = quickest(table, &is_own)?;
    let rival = |less| quickest(table, &|line: &Line| is_rival(line) && line.less == less);
    let ratio = |line: &Line| format!("{:.2}", table.figure(own).ratio / table.figure(line).ratio);
    let time = |line: &Line| nanos(table.figure(line).nanos);
    let mut text =
        format!("| {} | {} | {} |", capital(&table.title), time(own), time(&table.lines[0]));
    if let Some(rival) = rival(false) {
        let instructions = own
            .instructions
            .zip(rival.instructions)
            .map(|(own, rival)| format!("{:.2}", own / rival));
        let instructions = instructions.as_deref().unwrap_or("–");
        text.push_str(&format!(
            " {} | {} | {instructions} | {} |",
            time(rival),
            ratio(rival),
            rival.name
        ));
    } else {
        text.push_str(" | | | |");
    }
    if let Some(rival) = rival(true) {
        text.push_str(&format!(" {} | {} | {} |\n", time(rival), ratio(rival), rival.name));
    } else {
        text.push_str(" | | |\n");
    }
    Some(text)
}

fn quickest<'a>(table: &'a Table, wanted: &dyn Fn(&Line) -> bool) -> Option<&'a Line> {
    let lines = table.lines.iter().filter(|line| wanted(line));
    lines.min_by(|a, b| table.figure(a).ratio.total_cmp(&table.figure(b).ratio))
}

fn is_own(line: &Line) -> bool {
    line.name.contains("**resile**")
}

/// Returns whether a line is neither the crate, nor its layer, nor written by hand.
fn is_rival(line: &Line) -> bool {
    !is_own(line) && !line.name.contains("**resile-tower**") && !by_hand(line)
}

fn by_hand(line: &Line) -> bool {
    line.name.starts_with("hand-written") || line.name.starts_with("an atomic")
}

/// Returns one table. The ratios compare with its first line.
fn table(table: &Table) -> String {
    let mut text = format!("#### {}\n\n", capital(&table.title));
    text.push_str("| | ns | ratio | spread | instructions | allocations | bytes |\n|---|--:|--:|--:|--:|--:|--:|\n");
    for line in &table.lines {
        let figure = table.figure(line);
        let instructions =
            line.instructions.map_or("–".to_owned(), |count| format!("{count:.0}"));
        let _ = writeln!(
            text,
            "| {}{} | {} | {:.2} | {:.0} % | {} | {} | {} |",
            line.name,
            if line.less { " °" } else { "" },
            nanos(figure.nanos),
            figure.ratio,
            figure.spread * 100.0,
            instructions,
            short(line.allocations),
            // A contender that does not wait has no future of its own.
            if line.bytes > 1 { line.bytes.to_string() } else { "–".to_owned() },
        );
    }
    text
}

fn nanos(nanos: f64) -> String {
    if nanos < 100.0 { format!("{nanos:.1}") } else { format!("{nanos:.0}") }
}

/// Formats a number, without a fraction if it has none.
fn short(value: f64) -> String {
    if (value - value.round()).abs() < 0.01 { format!("{value:.0}") } else { format!("{value:.2}") }
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().collect::<String>() + chars.as_str())
}

/// Returns the rows in which another contender is ahead of the crate by more than a twentieth.
pub fn losses(tables: &[Table]) -> String {
    let mut text = String::new();
    for table in tables {
        let Some(own) = quickest(table, &is_own) else { continue };
        let ratio = table.figure(own).ratio;
        let reported = |line: &Line| {
            let figure = table.figure(line);
            let instructions =
                line.instructions.map_or("–".to_owned(), |count| format!("{count:.0}"));
            format!(
                "{}: {} ns ({:.2}), {instructions} instructions",
                line.name,
                nanos(figure.nanos),
                figure.ratio
            )
        };
        let mut ahead: Vec<_> =
            table.lines.iter().filter(|line| table.figure(line).ratio * 1.05 < ratio).collect();
        ahead.sort_by(|a, b| table.figure(a).ratio.total_cmp(&table.figure(b).ratio));
        if !ahead.is_empty() {
            let _ = writeln!(text, "{}\n    {}", table.title, reported(own));
            for line in ahead {
                let _ = writeln!(text, "    {}", reported(line));
            }
        }
    }
    text
}

/// Puts `new` between the markers `<!-- name -->` and `<!-- /name -->`.
pub fn replace(text: &str, name: &str, new: &str) -> Result<String, String> {
    let (open, close) = (format!("<!-- {name} -->\n"), format!("<!-- /{name} -->"));
    let (Some(begin), Some(end)) = (text.find(&open), text.find(&close)) else {
        return Err(format!("the file has no markers `<!-- {name} -->`"));
    };
    Ok(format!("{}{new}{}", &text[..begin + open.len()], &text[end..]))
}
