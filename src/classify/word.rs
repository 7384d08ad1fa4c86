//! The word of the error that the closure of an [`Over`](super::Over) has asked about.
//!
//! The closure returns a verdict only. So the question for the word runs it once more: while a question is
//! open on this thread, each classifier that is asked for a verdict notes its word too.

use std::borrow::Cow;
use std::cell::Cell;

thread_local! {
    static IS_ASKED: Cell<bool> = const { Cell::new(false) };
    static WORD: Cell<Option<String>> = const { Cell::new(None) };
}

/// Sets the outer question again, also if the closure panics.
struct Outer {
    is_asked: bool,
    word: Option<String>,
}

impl Drop for Outer {
    fn drop(&mut self) {
        let _ = IS_ASKED.try_with(|is_asked| is_asked.set(self.is_asked));
        let _ = WORD.try_with(|word| word.set(self.word.take()));
    }
}

/// Runs `closure` and returns the last word that is noted meanwhile.
#[cold]
pub(super) fn noted_by(closure: impl FnOnce()) -> Option<String> {
    let is_asked = IS_ASKED.try_with(|is_asked| is_asked.replace(true)).unwrap_or(true);
    let _outer = Outer { is_asked, word: WORD.try_with(Cell::take).unwrap_or_default() };
    closure();
    WORD.try_with(Cell::take).unwrap_or_default()
}

/// Notes the type of an error in one word, as [`error_type`](crate::Classify::error_type) returns it.
///
/// Call this where a classifier that you publish with an [`over`](super::Over::new) returns the verdict on
/// an error. [`Over`](super::Over) then has this word for the error around it. `word` runs only while
/// [`Over`](super::Over) is asked for its word, so a verdict costs nothing more. The last word that is
/// noted counts, and `None` notes nothing.
///
/// # Examples
///
/// ```
/// use resile::classify::{Opinion, Over, note_error_type};
/// use resile::{Classify, Verdict};
/// use std::borrow::Cow;
///
/// struct Refused(u16);
///
/// /// The classifier of a client.
/// #[derive(Clone, Copy)]
/// pub struct Classifier;
///
/// impl Classify<Refused> for Classifier {
///     fn classify(&self, refused: &Refused) -> Option<Verdict> {
///         note_error_type(|| self.error_type(refused));
///         (refused.0 == 7).then(Verdict::throttled)
///     }
///
///     fn error_type<'e>(&self, refused: &'e Refused) -> Option<Cow<'e, str>> {
///         Some(refused.0.to_string().into())
///     }
/// }
///
/// impl Classifier {
///     pub fn over<E, F, V>(self, map: F) -> Over<Self, F>
///     where
///         F: Fn(&Self, &E) -> V,
///         V: Opinion,
///     {
///         Over::new(self, Verdict::transient().not_again(), map)
///     }
/// }
///
/// struct CallError(Refused);
///
/// let over = Classifier.over(|client, error: &CallError| client.classify(&error.0));
/// assert_eq!(over.error_type(&CallError(Refused(7))).as_deref(), Some("7"));
/// ```
pub fn note_error_type<'e>(word: impl FnOnce() -> Option<Cow<'e, str>>) {
    if !IS_ASKED.try_with(Cell::get).unwrap_or(false) {
        return;
    }
    if let Some(word) = word() {
        let _ = WORD.try_with(|last| last.set(Some(word.into_owned())));
    }
}
