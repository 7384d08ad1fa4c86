use std::sync::atomic::{AtomicU64, Ordering};

/// The attempts that a quota in shadow mode has admitted, and those that it would have
/// refused or delayed. `Display` prints them in a few words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Shadow {
    /// The number of attempts. All were admitted at once.
    pub attempts: u64,
    /// The number of attempts that would have waited.
    pub delayed: u64,
    /// The number of attempts that would have been refused: the queue would have been full, or the
    /// cost is larger than a burst.
    pub refused: u64,
}

impl std::fmt::Display for Shadow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { attempts, delayed, refused } = self;
        write!(f, "would have refused {refused} and delayed {delayed} of {attempts} attempts")
    }
}

/// The counts of a shadow. They are never the subject of a model.
#[derive(Debug)]
pub(super) struct Counts {
    attempts: AtomicU64,
    delayed: AtomicU64,
    refused: AtomicU64,
}

impl Counts {
    pub(super) const fn new() -> Self {
        Self { attempts: AtomicU64::new(0), delayed: AtomicU64::new(0), refused: AtomicU64::new(0) }
    }

    pub(super) fn admit(&self) {
        self.attempts.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn delay(&self) {
        self.delayed.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn refuse(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> Shadow {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Shadow {
            attempts: get(&self.attempts),
            delayed: get(&self.delayed),
            refused: get(&self.refused),
        }
    }
}
