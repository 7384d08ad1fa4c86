use std::collections::VecDeque;

use crate::engine::Shown;

/// The answer so far: what has come of it, and what the consumer has.
pub(super) struct Answer<T> {
    /// Invariant: if not `flowing`, the preamble of this attempt. Otherwise, items to yield before
    /// the next item of the stream.
    pub(super) held: VecDeque<T>,
    /// The item that tells the consumer to start again. It is held back until a new answer begins,
    /// because the consumer keeps its part of the earlier one until then.
    pub(super) marker: Option<T>,
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
            marker: None,
            flowing: false,
            rules: Rules { preamble_cap: PREAMBLE_CAP, requires_end: false, renews: false },
        }
    }

    /// Returns the next item to yield, or `None` while items must be held or none is. Notes in `shown`
    /// what the consumer has with this item.
    #[inline]
    pub(super) fn pop(&mut self, shown: &mut Shown) -> Option<T> {
        if !self.flowing {
            return None;
        }
        if let Some(marker) = self.marker.take() {
            shown.has_content = false;
            return Some(marker);
        }
        let item = self.held.pop_front()?;
        // The content comes behind its preamble.
        shown.has_content |= self.held.is_empty();
        Some(item)
    }

    /// Drops the items that the consumer never gets.
    pub(super) fn drop_held(&mut self) {
        self.held.clear();
        self.marker = None;
    }
}
