//! A question that is open on this thread while an error or an attempt is dropped or printed.
//!
//! The code that asks does not know the type of what it drops, so what is dropped answers by itself.

use std::cell::Cell;
use std::thread::LocalKey;

/// Sets `question` to `open` while `run` runs, and returns its last value. The value before is set again
/// afterwards, also if foreign code panics. `None` at the end of the thread, when it has no values any more.
pub(crate) fn ask<T: Copy + 'static>(
    question: &'static LocalKey<Cell<T>>,
    open: T,
    run: impl FnOnce(),
) -> Option<T> {
    struct Outer<T: Copy + 'static>(&'static LocalKey<Cell<T>>, T);
    impl<T: Copy + 'static> Drop for Outer<T> {
        fn drop(&mut self) {
            let _ = self.0.try_with(|question| question.set(self.1));
        }
    }
    let _outer = question.try_with(|cell| Outer(question, cell.replace(open)));
    run();
    question.try_with(Cell::get).ok()
}
