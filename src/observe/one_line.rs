use std::fmt::{self, Write as _};

/// Prints a value in its alternate form (`{:#}`) in one line. Control characters are escaped, so
/// an error with a line break cannot forge a line of the log.
pub(super) struct OneLine<T>(pub(super) T);

impl<T: fmt::Display> fmt::Display for OneLine<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Escape(f), "{:#}", self.0)
    }
}

struct Escape<'a, 'f>(&'a mut fmt::Formatter<'f>);

impl fmt::Write for Escape<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for part in text.split_inclusive(char::is_control) {
            match part.char_indices().next_back().filter(|(_, last)| last.is_control()) {
                Some((at, control)) => {
                    write!(self.0, "{}{}", &part[..at], control.escape_default())?;
                }
                None => self.0.write_str(part)?,
            }
        }
        Ok(())
    }
}
