use crate::error::inherited::{Left, note_part};

/// The part of an answer that the consumer of a stream has.
///
/// A stream that is dropped in the middle of its answer tells the call around it.
pub(crate) struct Shown {
    /// True if the consumer has content, and no item since has told it to start again.
    pub(crate) has_content: bool,
    /// True if the answer is complete.
    pub(crate) is_complete: bool,
    /// True if content of the attempt in flight has come, or of the one that has just finished.
    pub(crate) has_begun: bool,
    /// The doubt and the key that a drop of the stream leaves while its content comes.
    pub(crate) left: Left,
}

impl Shown {
    pub(super) const fn nothing() -> Self {
        let left = Left::nothing();
        Self { has_content: false, is_complete: false, has_begun: false, left }
    }
}

impl Drop for Shown {
    #[inline]
    fn drop(&mut self) {
        if self.is_complete {
            self.left.clear();
        } else if self.has_content {
            note_part();
        }
    }
}
