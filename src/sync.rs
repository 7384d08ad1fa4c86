//! The atomics and locks of shared state: from the standard library or, in models, from loom and
//! shuttle.

#[cfg(loom)]
pub(crate) use checked::{AtomicU64, Mutex, MutexGuard};
#[cfg(all(shuttle, not(loom)))]
pub(crate) use shuttle::sync::{Mutex, MutexGuard, atomic::AtomicU64};
#[cfg(not(any(loom, shuttle)))]
pub(crate) use std::sync::{Mutex, MutexGuard, atomic::AtomicU64};

/// loom's types have no `const` constructor. They are made here at first use: their owners keep a
/// `const fn new`. A model must use a value once before it shares the value.
#[cfg(loom)]
mod checked {
    use std::mem::ManuallyDrop;
    use std::ops::Deref;
    use std::sync::{LockResult, OnceLock, PoisonError};

    pub(crate) use loom::sync::MutexGuard;

    pub(crate) struct AtomicU64 {
        start: u64,
        // Never dropped: a `const fn` cannot take values with a destructor apart.
        made: ManuallyDrop<OnceLock<loom::sync::atomic::AtomicU64>>,
    }

    impl AtomicU64 {
        pub(crate) const fn new(start: u64) -> Self {
            Self { start, made: ManuallyDrop::new(OnceLock::new()) }
        }
    }

    impl Deref for AtomicU64 {
        type Target = loom::sync::atomic::AtomicU64;

        fn deref(&self) -> &Self::Target {
            self.made.get_or_init(|| loom::sync::atomic::AtomicU64::new(self.start))
        }
    }

    pub(crate) struct Mutex<T> {
        start: std::sync::Mutex<Option<T>>,
        made: OnceLock<loom::sync::Mutex<T>>,
    }

    impl<T: Default> Mutex<T> {
        pub(crate) const fn new(start: T) -> Self {
            Self { start: std::sync::Mutex::new(Some(start)), made: OnceLock::new() }
        }

        pub(crate) fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
            let made = self.made.get_or_init(|| {
                let start = self.start.lock().unwrap_or_else(PoisonError::into_inner).take();
                loom::sync::Mutex::new(start.unwrap_or_default())
            });
            made.lock()
        }
    }
}
