/// Runs a step if foreign code panics before this is [disarmed](Self::disarm): an observer, a timer, a curve.
pub(super) struct OnUnwind<F: FnMut()>(pub(super) F);

impl<F: FnMut()> OnUnwind<F> {
    #[inline]
    pub(super) fn disarm(self) {
        std::mem::forget(self); // the step borrows, and owns nothing
    }
}

impl<F: FnMut()> Drop for OnUnwind<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}
