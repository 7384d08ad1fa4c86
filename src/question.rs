//! A question that is open on this thread while an error or an attempt is dropped, polled or printed.
//!
//! The code that asks does not know the type of what is dropped, so that answers by itself.

use std::cell::Cell;
use std::thread::LocalKey;

/// Sets `question` to `open` while `run` runs. Returns what `run` returns, and the last value of the question.
/// The value before is set again afterwards, also if foreign code panics. The last value is `None` at the end of
/// the thread, when it has no values any more.
pub(crate) fn ask<T: Copy + 'static, R>(
    question: &'static LocalKey<Cell<T>>,
    open: T,
    run: impl FnOnce() -> R,
) -> (R, Option<T>) {
    struct Outer<T: Copy + 'static>(&'static LocalKey<Cell<T>>, T);
    impl<T: Copy + 'static> Drop for Outer<T> {
        fn drop(&mut self) {
            let _ = self.0.try_with(|question| question.set(self.1));
        }
    }
    let _outer = question.try_with(|cell| Outer(question, cell.replace(open)));
    let result = run();
    (result, question.try_with(Cell::get).ok())
}
