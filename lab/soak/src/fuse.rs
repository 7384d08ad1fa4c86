//! Panics of foreign code: the operation, the classifier and the observer.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use crate::dice::mixed;

/// The payload of a panic that the program makes. Any other panic is a fault of the crate.
pub(crate) struct Injected;

/// Decides which passage of foreign code panics.
pub(crate) struct Fuse {
    is_armed: AtomicBool,
    passages: AtomicU64,
    seed: u64,
}

impl Fuse {
    pub(crate) const fn new(seed: u64) -> Self {
        Self { is_armed: AtomicBool::new(true), passages: AtomicU64::new(0), seed }
    }

    pub(crate) fn arm(&self, is_armed: bool) {
        self.is_armed.store(is_armed, Relaxed);
    }

    /// Panics at one passage in `bound`. The panic passes the panic hook.
    pub(crate) fn pass(&self, bound: u64) {
        if self.blows(bound) {
            resume_unwind(Box::new(Injected));
        }
    }

    /// Returns whether this passage panics: one in `bound` does.
    pub(crate) fn blows(&self, bound: u64) -> bool {
        if !self.is_armed.load(Relaxed) || std::thread::panicking() {
            return false;
        }
        let passage = self.passages.fetch_add(1, Relaxed);
        mixed(self.seed ^ mixed(passage)).is_multiple_of(bound)
    }
}
