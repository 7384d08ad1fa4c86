use std::borrow::Cow;
use std::cell::Cell;
use std::error::Error;
use std::fmt::{self, Write as _};

use super::one_line::OneLine;
use super::urls;
use crate::question;

/// An error with its sources, each text once: "request failed: connection refused".
///
/// An error whose own words end with those of its innermost source has chosen what to say of its sources, so
/// the ones between are left out. A bracket may follow these words.
///
/// Many errors repeat the text of their source, so such a text is left out. Some, such as `tonic::Status`,
/// end with the `Debug` of their source, which has the same facts in the form of the source code. It is
/// left out too.
pub(crate) struct Chain<'a>(pub(crate) &'a (dyn Error + 'static));

/// The most sources that are printed, because an error may be its own source.
const MOST: usize = 32;

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = own_words(self.0);
        let sources = std::iter::successors(below(self.0), |error| below(*error));
        let texts: Vec<_> = sources.take(MOST).map(own_words).collect();
        let is_whole = |text: &str| texts.last().is_some_and(|last| ends_with(text, last));
        let mut before_whole = !is_whole(&line);
        for text in &texts {
            if before_whole {
                append(&mut line, text);
                before_whole = !is_whole(text);
            }
        }
        f.write_str(&line)
    }
}

thread_local! {
    /// True while an error is asked for a source that is to be printed.
    static PRINTS: Cell<bool> = const { Cell::new(false) };
}

/// Returns the source of an error, to print it.
fn below<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    let mut source = None;
    question::ask(&PRINTS, true, || source = error.source());
    source
}

/// Returns whether an error is asked for a source that is to be printed. One that has other words for its source
/// returns none then.
pub(crate) fn prints_source() -> bool {
    PRINTS.try_with(Cell::get).unwrap_or(false)
}

/// Returns the words of an error in the alternate form, which is anyhow's own chain and a status without
/// its hint. The `Debug` of its source at their end is cut, with what leads to it.
fn own_words(error: &(dyn Error + 'static)) -> String {
    let words = text_of(format_args!("{error:#}"));
    // Anything else may be a word of the error itself.
    let Some(source) = error.source().filter(|_| words.ends_with([')', '}'])) else { return words };
    let Some(own) = words.strip_suffix(&*text_of(format_args!("{source:?}"))) else { return words };
    let own = own.trim_end_matches([':', '=', ' ']);
    own.strip_suffix(", source").unwrap_or(own).trim_end_matches([',', ' ']).to_owned()
}

/// Returns the words without the secrets of their URLs. An error whose `Display` fails has the words
/// that it has written until then.
pub(crate) fn text_of(words: fmt::Arguments<'_>) -> String {
    let mut text = String::new();
    let _ = text.write_fmt(words);
    match urls::without_secrets(&text) {
        Cow::Borrowed(_) => text,
        Cow::Owned(text) => text,
    }
}

/// Appends the text of a source unless the line has it already.
pub(crate) fn append(line: &mut String, text: &str) {
    // The line of a call has its last error escaped.
    if text.is_empty() || has_words(line, text) || has_words(line, &OneLine(text).to_string()) {
        return;
    }
    if !line.is_empty() {
        line.push_str(": ");
    }
    line.push_str(text);
}

/// Returns whether `line` ends with `text` behind a colon, but for a bracket such as the name of a provider.
fn ends_with(line: &str, text: &str) -> bool {
    let bare = line.strip_suffix(')').and_then(|line| line.rsplit_once(" (")).map(|(line, _)| line);
    let ends = |line: &str| line.strip_suffix(text).is_some_and(|line| line.ends_with(": "));
    !text.is_empty() && (ends(line) || bare.is_some_and(ends))
}

/// Returns whether `line` has `text` as whole words: "shutdown" does not have "down".
fn has_words(line: &str, text: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(text).any(|(at, _)| {
        let (before, after) = (&line[..at], &line[at + text.len()..]);
        let begins = !text.starts_with(is_word) || !before.ends_with(is_word);
        let ends = !text.ends_with(is_word) || !after.starts_with(is_word);
        begins && ends
    })
}

/// Words made by a function, without the secrets of their URLs.
pub(crate) struct Words<F>(F);

impl<F: Fn(&mut fmt::Formatter<'_>) -> fmt::Result> Words<F> {
    pub(crate) const fn new(write: F) -> Self {
        Self(write)
    }
}

impl<F: Fn(&mut fmt::Formatter<'_>) -> fmt::Result> fmt::Display for Words<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        struct Raw<'a, F>(&'a F);
        impl<F: Fn(&mut fmt::Formatter<'_>) -> fmt::Result> fmt::Display for Raw<'_, F> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                (self.0)(f)
            }
        }
        f.write_str(&text_of(format_args!("{}", Raw(&self.0))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Layer(&'static str, Option<Box<Layer>>);

    impl fmt::Display for Layer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }

    impl Error for Layer {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            self.1.as_deref().map(|source| source as &(dyn Error + 'static))
        }
    }

    fn chain(texts: &[&'static str]) -> String {
        let layer =
            texts.iter().rev().fold(None, |source, text| Some(Box::new(Layer(text, source))));
        Chain(&*layer.unwrap()).to_string()
    }

    #[test]
    fn each_text_of_a_chain_is_printed_once() {
        assert_eq!(chain(&["request failed", "refused"]), "request failed: refused");
        assert_eq!(chain(&["request failed: refused", "refused"]), "request failed: refused");
        assert_eq!(chain(&["a", "a", "b", "a: b"]), "a: b");
        assert_eq!(chain(&["", "b", ""]), "b");
        // Whoever ends with the innermost text has left out those between.
        assert_eq!(chain(&["no line to x: refused", "layer", "refused"]), "no line to x: refused");
        assert_eq!(
            chain(&["ask", "no line: refused", "layer", "refused"]),
            "ask: no line: refused"
        );
        let named = "no line to x: refused (os error 1) (local)";
        assert_eq!(chain(&[named, "layer", "refused (os error 1)"]), named);
        // A part of a word is another word.
        assert_eq!(chain(&["shutdown", "down"]), "shutdown: down");
        assert_eq!(chain(&["it is down", "down"]), "it is down");
    }

    /// A status whose `Display` ends with the `Debug` of its source, as that of `tonic`.
    #[derive(Debug)]
    struct Status(Layer);

    impl fmt::Display for Status {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "code: 'unavailable', message: \"no connection\", source: {:?}", self.0)
        }
    }

    impl Error for Status {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&self.0)
        }
    }

    #[test]
    fn the_debug_of_a_source_is_left_out() {
        let refused = Layer("refused", None);
        let status = Status(Layer("no connection", Some(Box::new(refused))));
        assert!(status.to_string().contains("Layer(\"refused\", None)"));
        let line = "code: 'unavailable', message: \"no connection\": refused";
        assert_eq!(Chain(&status).to_string(), line);
        // An error that ends with a bracket of its own keeps it.
        assert_eq!(chain(&["status (503)", "(503)"]), "status (503)");
    }

    /// An error that is its own source.
    #[derive(Debug)]
    struct Circle;

    impl fmt::Display for Circle {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("circle")
        }
    }

    impl Error for Circle {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&Circle)
        }
    }

    #[test]
    fn an_error_may_be_its_own_source() {
        assert_eq!(Chain(&Circle).to_string(), "circle");
    }
}
