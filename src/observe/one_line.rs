use std::fmt::{self, Write as _};

/// Prints a value in its alternate form (`{:#}`) in one line. Control characters and line breaks
/// are escaped, so an error with a line break cannot forge a line of the log.
pub(crate) struct OneLine<T>(pub(crate) T);

impl<T: fmt::Display> fmt::Display for OneLine<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Escape(f), "{:#}", self.0)
    }
}

struct Escape<'a, 'f>(&'a mut fmt::Formatter<'f>);

impl fmt::Write for Escape<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for part in text.split_inclusive(is_escaped) {
            match part.char_indices().next_back().filter(|(_, last)| is_escaped(*last)) {
                Some((at, last)) => {
                    write!(self.0, "{}{}", &part[..at], last.escape_default())?;
                }
                None => self.0.write_str(part)?,
            }
        }
        Ok(())
    }
}

/// Returns true for a control character and for the two line breaks that are not control
/// characters.
fn is_escaped(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}')
}
