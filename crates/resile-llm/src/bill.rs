use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use resile::quota::Usage;

use crate::failure::Failure;
use crate::usage::usage;

/// The tokens that a question cost with all its attempts: good ones, failed ones and dropped ones.
///
/// A provider charges an answer that the program cannot use too. Each clone adds to the same bill, so a
/// clone may go into each attempt, into each model of a fallback and into another task. A bill may be for
/// one question or for a whole conversation.
///
/// | the attempt | how it is counted |
/// |---|---|
/// | a stream of `events` (feature `stream`) | `events(answer).billed(&bill)`, as each event comes |
/// | a whole answer | `bill.note(read_answer(answer).await)?` |
///
/// The sum is the least that a question cost: a provider may charge an attempt that was cut before it
/// reported a usage, and such an attempt counts as nothing. A refusal has no usage.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use resile::{Attempt, Never, retry};
/// use resile_llm::{Bill, Failure};
///
/// # async fn read(attempt: Attempt) -> Result<&'static str, Failure> {
/// #     if attempt.is_first() { return Err(Failure::from_text(529, "")); }
/// #     Ok(r#"{"usage":{"prompt_tokens":700,"completion_tokens":90}}"#)
/// # }
/// let bill = Bill::new();
/// let ask = async |attempt| bill.note(read(attempt).await);
/// retry(ask, resile_llm::interactive(), Never).await.unwrap();
/// assert_eq!(bill.to_string(), "790 tokens: 700 input, 90 output");
/// # }
/// ```
#[derive(Clone, Default)]
#[must_use = "a bill counts nothing until answers are noted"]
pub struct Bill(Arc<Mutex<Sum>>);

/// The sum of the attempts that have ended, and the usage of each one that may still report more.
#[derive(Default)]
struct Sum {
    ended: Usage,
    open: Vec<(u64, Usage)>,
    /// The number of the last stream.
    #[cfg(feature = "stream")]
    last: u64,
}

impl Bill {
    /// Creates an empty bill.
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts a whole answer, or the usage of its failure, and returns it. Call this once for each attempt.
    ///
    /// # Errors
    ///
    /// Returns the failure of `answer`.
    pub fn note<B: AsRef<[u8]>>(&self, answer: Result<B, Failure>) -> Result<B, Failure> {
        let used = match &answer {
            Ok(body) => usage(body.as_ref()).unwrap_or_default(),
            Err(failure) => failure.usage(),
        };
        let mut sum = self.lock();
        sum.ended = sum.ended.plus(used);
        answer
    }

    /// Returns the usage of all attempts so far. Each number saturates at 4,294,967,295.
    pub fn total(&self) -> Usage {
        let sum = self.lock();
        sum.open.iter().fold(sum.ended, |total, (_, used)| total.plus(*used))
    }

    fn lock(&self) -> MutexGuard<'_, Sum> {
        // Nothing foreign runs under the lock, so a poisoned sum is whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes the [total](Self::total).
impl fmt::Display for Bill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.total().fmt(f)
    }
}

impl fmt::Debug for Bill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Bill").field(&self.total()).finish()
    }
}

/// The entry of one stream. Its usage stays on the bill when it is dropped.
#[cfg(feature = "stream")]
pub(crate) struct Entry {
    bill: Bill,
    number: u64,
}

#[cfg(feature = "stream")]
impl Entry {
    /// Opens an entry with the usage that is known so far.
    pub(crate) fn open(bill: &Bill, used: Usage) -> Self {
        let mut sum = bill.lock();
        sum.last += 1;
        let number = sum.last;
        sum.open.push((number, used));
        drop(sum);
        Self { bill: bill.clone(), number }
    }

    /// Sets the usage of the stream so far.
    pub(crate) fn set(&self, used: Usage) {
        let mut sum = self.bill.lock();
        if let Some((_, own)) = sum.open.iter_mut().find(|(number, _)| *number == self.number) {
            *own = used;
        }
    }
}

#[cfg(feature = "stream")]
impl Drop for Entry {
    fn drop(&mut self) {
        let mut sum = self.bill.lock();
        if let Some(at) = sum.open.iter().position(|(number, _)| *number == self.number) {
            let (_, used) = sum.open.swap_remove(at);
            sum.ended = sum.ended.plus(used);
        }
    }
}
