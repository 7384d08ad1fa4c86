/// A guard that runs a step if foreign code (an observer, a timer, a curve) panics before
/// [`disarm`](Self::disarm).
pub(super) struct OnUnwind<F: FnMut()>(pub(super) F);

impl<F: FnMut()> OnUnwind<F> {
    #[inline]
    pub(super) fn disarm(self) {
        std::mem::forget(self); // the step only borrows, so nothing leaks
    }
}

impl<F: FnMut()> Drop for OnUnwind<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}
