//! Text for a terminal: colours, and lines of at most 80 columns. The examples share this file.

#![allow(dead_code, reason = "no example uses every colour")]

use std::env::var_os;
use std::fmt::Display;
use std::io::IsTerminal as _;
use std::sync::LazyLock;

/// The columns of a line.
const WIDTH: usize = 80;

/// True if stdout is a terminal and `NO_COLOR` is unset or empty. Other output stays plain.
static HAS_COLOUR: LazyLock<bool> = LazyLock::new(|| {
    let is_set = |name| var_os(name).is_some_and(|value| !value.is_empty());
    let is_dumb = var_os("TERM").is_some_and(|term| term == "dumb");
    std::io::stdout().is_terminal() && !is_set("NO_COLOR") && !is_dumb
});

pub(crate) fn bold(text: impl Display) -> String {
    paint("1", text)
}

pub(crate) fn dim(text: impl Display) -> String {
    paint("2", text)
}

pub(crate) fn red(text: impl Display) -> String {
    paint("31", text)
}

pub(crate) fn green(text: impl Display) -> String {
    paint("32", text)
}

pub(crate) fn yellow(text: impl Display) -> String {
    paint("33", text)
}

fn paint(code: &str, text: impl Display) -> String {
    if *HAS_COLOUR { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_string() }
}

/// Breaks a text between words, so that no line is longer than 80 columns. Indents every line after
/// the first by `indent` columns, also those of the text itself. A word that is too long stays whole.
pub(crate) fn wrap(text: &str, indent: usize) -> String {
    let mut lines = text.lines();
    let mut wrapped = wrap_line(lines.next().unwrap_or_default(), 0, indent);
    for line in lines {
        wrapped.push('\n');
        if !line.trim().is_empty() {
            wrapped.extend(std::iter::repeat_n(' ', indent));
            wrapped.push_str(&wrap_line(line, indent, indent));
        }
    }
    wrapped
}

/// Breaks one line that begins at a column.
fn wrap_line(line: &str, mut column: usize, indent: usize) -> String {
    let mut wrapped = String::new();
    for word in line.split_inclusive(' ') {
        if column > indent && column + columns(word.trim_end()) > WIDTH {
            wrapped.truncate(wrapped.trim_end().len());
            wrapped.push('\n');
            wrapped.extend(std::iter::repeat_n(' ', indent));
            column = indent;
        }
        wrapped.push_str(word);
        column += columns(word);
    }
    wrapped
}

/// Counts the characters that are no part of a colour code.
fn columns(text: &str) -> usize {
    let mut in_code = false;
    let is_shown = |c: &char| {
        in_code |= *c == '\x1b';
        let is_shown = !in_code;
        in_code &= *c != 'm';
        is_shown
    };
    text.chars().filter(is_shown).count()
}
