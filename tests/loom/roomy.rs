//! Models whose body builds an upstream by value: each copy of it is some 10 KB in a model.

use std::sync::Arc;

use loom::thread;

/// The stack of the body, in words. A thread of loom has 4,096 words.
const STACK: usize = 1 << 14;

/// Checks all interleavings of this body, see [`roomy`].
pub(crate) fn model(check: impl Fn() + Send + Sync + 'static) {
    loom::model(roomy(check));
}

/// Runs the body on a thread with a larger stack, for which the first thread waits.
pub(crate) fn roomy(check: impl Fn() + Send + Sync + 'static) -> impl Fn() + Send + Sync + 'static {
    let check = Arc::new(check);
    move || {
        let check = Arc::clone(&check);
        let body = thread::Builder::new().stack_size(STACK).spawn(move || check());
        body.unwrap().join().unwrap();
    }
}
