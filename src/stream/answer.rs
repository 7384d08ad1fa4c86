use std::collections::VecDeque;

/// The answer so far: what has come of it, and what the consumer has.
pub(super) struct Answer<T> {
    /// Invariant: if not `flowing`, the preamble of this attempt. Otherwise, items to yield before
    /// the next item of the stream.
    pub(super) held: VecDeque<T>,
    /// True if content has come since the consumer's stream was last opened.
    pub(super) flowing: bool,
    pub(super) rules: Rules,
}

/// The rules of the answer, set by the caller.
#[derive(Clone, Copy)]
pub(super) struct Rules {
    pub(super) preamble_cap: usize,
    pub(super) requires_end: bool,
    pub(super) renews: bool,
}

const PREAMBLE_CAP: usize = 64;

impl<T> Answer<T> {
    #[inline]
    pub(super) const fn new() -> Self {
        Self {
            held: VecDeque::new(),
            flowing: false,
            rules: Rules { preamble_cap: PREAMBLE_CAP, requires_end: false, renews: false },
        }
    }

    /// Returns the next item to yield, or `None` while items must be held or none is.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<T> {
        if self.flowing { self.held.pop_front() } else { None }
    }
}
