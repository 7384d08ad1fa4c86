use std::sync::PoisonError;
use std::sync::atomic::Ordering;
#[cfg(feature = "fleet")]
use std::task::Poll;
use std::task::Waker;

use crate::sync::{AtomicU64, Mutex};

/// A signal to one listener. It stays set until the listener has seen it.
pub(crate) struct Signal {
    state: AtomicU64,
    waker: Mutex<Option<Waker>>,
}

/// No signal, and no listener waits.
const IDLE: u64 = 0;
/// The listener waits.
const AWAITED: u64 = 1;
/// The signal is set.
const SET: u64 = 2;

impl Signal {
    pub(crate) const fn new() -> Self {
        Self { state: AtomicU64::new(IDLE), waker: Mutex::new(None) }
    }

    /// Sets the signal and wakes the listener.
    ///
    /// Both sides exchange `state`. So either the listener sees what the caller changed before, or
    /// the caller sees that the listener waits.
    #[cold]
    pub(crate) fn set(&self) {
        if self.state.swap(SET, Ordering::AcqRel) == AWAITED {
            let waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }

    /// Sets the signal unless it seems to be set. The listener may miss it: use this where the
    /// listener looks again by itself.
    #[inline]
    pub(crate) fn hint(&self) {
        if self.state.load(Ordering::Relaxed) != SET {
            self.set();
        }
    }

    /// Forgets the listener. A later listener finds the signal set.
    #[cfg(feature = "fleet")]
    pub(crate) fn forget(&self) {
        self.state.store(SET, Ordering::Release);
        let waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(waker);
    }

    /// Clears the signal. If it is not set, registers the waker.
    #[cfg(feature = "fleet")]
    pub(crate) fn poll(&self, waker: &Waker) -> Poll<()> {
        let waker = waker.clone();
        let old = {
            let mut place = self.waker.lock().unwrap_or_else(PoisonError::into_inner);
            place.replace(waker)
        };
        drop(old);
        if self.state.swap(AWAITED, Ordering::AcqRel) == SET {
            // A second signal after the exchange only wakes once too often.
            let _ = self.state.compare_exchange(AWAITED, IDLE, Ordering::AcqRel, Ordering::Relaxed);
            return Poll::Ready(());
        }
        Poll::Pending
    }
}
