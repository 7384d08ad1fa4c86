use std::error::Error;

use super::gave_up::GaveUp;
use super::source::Boxed;

impl GaveUp<Boxed> {
    /// Puts another error in place of the last one, and keeps the words of that for `{:#}`.
    ///
    /// It is for a layer whose callers know another type of error than its log: each of them finds its own
    /// by [`source`](Error::source), and `{:#}` has the words of the log. A call without a last error has none
    /// after it either.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use resile::{Never, RetryPolicy, retry};
    /// use std::error::Error;
    /// use std::fmt::Error as Code;
    ///
    /// let call = retry(async |_| Err::<(), _>("503 of a proxy"), RetryPolicy::none(), Never);
    /// let gave_up = call.await.unwrap_err().into_boxed().with_last(Code);
    /// assert_eq!(format!("{gave_up:#}"), "gave up after 1 attempt: 503 of a proxy");
    /// assert!(gave_up.source().unwrap().is::<Code>());
    /// # }
    /// ```
    #[must_use]
    pub fn with_last(mut self, error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        if let Some(last) = self.0.last.take() {
            self.0.last = Some(last.replaced_by(error.into()));
            self.0.writer = Some(Boxed::explain);
        }
        self
    }
}
