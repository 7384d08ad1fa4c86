use std::sync::atomic::{AtomicU16, Ordering};

use super::payment::Payment;
use crate::observe::{CallKind, HeldBy};

/// The progress of a call, packed into one word.
pub(crate) struct Progress {
    /// The number of attempts begun.
    pub(crate) attempts: u32,
    /// The number that tells this call apart from others, or 0 before its first event.
    number: AtomicU16,
    pub(super) payment: Payment,
    /// The kind of the call in the lowest bits, then `MUST_YIELD` and `NESTING_NOTED`, and the part
    /// that refused the latest attempt in the highest bits.
    flags: u8,
}

const KIND: u8 = 0b111;
const MUST_YIELD: u8 = 1 << 3;
const NESTING_NOTED: u8 = 1 << 4;
const REFUSER_SHIFT: u32 = 5;

const KINDS: [CallKind; 6] = [
    CallKind::Retry,
    CallKind::Run,
    CallKind::Stream,
    CallKind::Hedge,
    CallKind::Fallback,
    CallKind::Single,
];

/// The part that refused an attempt or made it wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refuser {
    Budget,
    Bulkhead,
    /// The bulkhead, after the longest wait in its queue.
    BulkheadWait,
    Quota,
    Cooldown,
    Throttle,
    Breaker,
}

impl Refuser {
    const ALL: [Self; 7] = [
        Self::Budget,
        Self::Bulkhead,
        Self::BulkheadWait,
        Self::Quota,
        Self::Cooldown,
        Self::Throttle,
        Self::Breaker,
    ];

    pub(crate) const fn part(self) -> HeldBy {
        match self {
            Self::Budget => HeldBy::Budget,
            Self::Bulkhead | Self::BulkheadWait => HeldBy::Bulkhead,
            Self::Quota => HeldBy::Quota,
            Self::Cooldown => HeldBy::Cooldown,
            Self::Throttle => HeldBy::Throttle,
            Self::Breaker => HeldBy::Breaker,
        }
    }
}

impl Progress {
    pub(super) fn new(kind: CallKind) -> Self {
        let flags = kind as u8;
        let number = AtomicU16::new(0);
        Self { attempts: 0, number, payment: Payment::default(), flags }
    }

    #[inline]
    pub(crate) const fn kind(&self) -> CallKind {
        // The index is that of a kind. The remainder saves a check.
        KINDS[(self.flags & KIND) as usize % KINDS.len()]
    }

    /// Returns true for a kind whose attempts repeat one request. Within the other kinds a retry is
    /// intended.
    #[inline]
    pub(crate) const fn repeats(&self) -> bool {
        self.flags & KIND < CallKind::Hedge as u8
    }

    /// Returns true if the next attempt repeats a request that an earlier one has sent.
    #[inline]
    pub(super) const fn is_retry(&self) -> bool {
        self.attempts > 0 && self.repeats()
    }

    /// Returns true if the call must yield to other tasks before the next attempt. `poll_wait` yields.
    #[inline]
    pub(crate) const fn must_yield(&self) -> bool {
        self.flags & MUST_YIELD != 0
    }

    #[inline]
    pub(crate) const fn set_must_yield(&mut self, must_yield: bool) {
        self.flags = self.flags & !MUST_YIELD | if must_yield { MUST_YIELD } else { 0 };
    }

    /// Notes the check for a nested call. Returns true if it was noted before.
    pub(crate) const fn note_nesting(&mut self) -> bool {
        let before = self.flags & NESTING_NOTED != 0;
        self.flags |= NESTING_NOTED;
        before
    }

    /// Sets the part that refused the latest attempt or made it wait.
    #[inline]
    pub(crate) const fn set_refuser(&mut self, refuser: Option<Refuser>) {
        let index = match refuser {
            None => 0,
            Some(refuser) => refuser as u8 + 1,
        };
        self.flags = self.flags & !(u8::MAX << REFUSER_SHIFT) | index << REFUSER_SHIFT;
    }

    /// Returns the part that refused the latest attempt or made it wait.
    pub(crate) fn refuser(&self) -> Option<Refuser> {
        let index = usize::from(self.flags >> REFUSER_SHIFT);
        Refuser::ALL.get(index.checked_sub(1)?).copied()
    }

    /// Returns the number of the call. It is given at the first event: the one after `latest`. It
    /// counts up to 65,535 before it starts again at 1.
    #[cold]
    pub(crate) fn number(&self, latest: Option<&AtomicU16>) -> u16 {
        /// The latest number of a call without an upstream.
        static LATEST: AtomicU16 = AtomicU16::new(0);
        let mut number = self.number.load(Ordering::Relaxed);
        while number == 0 {
            number = latest.unwrap_or(&LATEST).fetch_add(1, Ordering::Relaxed).wrapping_add(1);
            self.number.store(number, Ordering::Relaxed);
        }
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flags_do_not_disturb_each_other() {
        for kind in KINDS {
            let mut progress = Progress::new(kind);
            assert_eq!((progress.kind(), progress.must_yield()), (kind, false));
            let repeats = matches!(kind, CallKind::Retry | CallKind::Run | CallKind::Stream);
            assert_eq!(progress.repeats(), repeats);
            assert_eq!(progress.refuser(), None);
            assert!(!progress.note_nesting());
            for refuser in Refuser::ALL {
                progress.set_must_yield(true);
                progress.set_refuser(Some(refuser));
                assert_eq!((progress.kind(), progress.must_yield()), (kind, true));
                assert_eq!(progress.refuser(), Some(refuser));
                progress.set_must_yield(false);
                assert_eq!((progress.must_yield(), progress.refuser()), (false, Some(refuser)));
            }
            progress.set_refuser(None);
            assert_eq!((progress.kind(), progress.refuser()), (kind, None));
            assert!(progress.note_nesting());
            let number = progress.number(None);
            assert!(number != 0 && progress.number(None) == number);
            assert_eq!(size_of::<Progress>(), 8);
        }
    }

    #[test]
    fn calls_have_numbers_of_their_own() {
        let latest = AtomicU16::new(u16::MAX - 2);
        let number = || Progress::new(CallKind::Retry).number(Some(&latest));
        let numbers: Vec<_> = (0..4).map(|_| number()).collect();
        assert_eq!(numbers, [u16::MAX - 1, u16::MAX, 1, 2]);
    }
}
