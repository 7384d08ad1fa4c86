use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use resile::quota::Usage;

use crate::failure::Failure;
use crate::kind::Kind;
use crate::rule::Rule;
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
/// The sum is the least that a question cost: a provider may charge an attempt that broke off or was cut
/// before it reported a usage. [`unreported`](Self::unreported) counts such attempts. A refusal has no
/// usage and costs nothing.
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
    /// The number of ended attempts without a usage that may have been charged.
    unreported: u32,
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
        let (used, may_cost) = match &answer {
            Ok(body) => (usage(body.as_ref()).unwrap_or_default(), true),
            Err(failure) => (failure.usage(), may_cost(failure)),
        };
        self.lock().end(used, may_cost);
        answer
    }

    /// Returns the usage of all attempts so far. Each number saturates at 4,294,967,295.
    pub fn total(&self) -> Usage {
        self.sums().0
    }

    /// Returns the number of attempts that ended without a usage although the provider may have charged
    /// them. The [total](Self::total) is incomplete if it is above 0.
    ///
    /// | the attempt | it counts if it has no usage |
    /// |---|---|
    /// | a good answer, a stream that ended well, broke off or was dropped | yes |
    /// | an answer that the program cannot use, such as a filtered one | yes |
    /// | a failed connection or a timeout, given to [`note`](Self::note) | yes, unless the request surely never left |
    /// | a refusal: 4xx, 5xx, or an error in place of the first word | no |
    /// | an attempt that was cut before `note` or before its stream began | no: the bill does not know it |
    ///
    /// A stream of OpenAI counts too if its request did not ask for the usage.
    ///
    /// # Examples
    ///
    /// ```
    /// use resile_llm::{Bill, Failure};
    ///
    /// let bill = Bill::new();
    /// let body = r#"{"usage":{"prompt_tokens":12,"completion_tokens":3}}"#;
    /// bill.note(Ok(body)).unwrap();
    /// let reset = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
    /// bill.note(Err::<&str, _>(Failure::from(reset))).unwrap_err();
    /// bill.note(Err::<&str, _>(Failure::from_text(429, ""))).unwrap_err();
    /// assert_eq!(bill.unreported(), 1);
    /// let words = "15 tokens: 12 input, 3 output, and 1 attempt without a usage";
    /// assert_eq!(bill.to_string(), words);
    /// ```
    #[must_use]
    pub fn unreported(&self) -> u32 {
        self.sums().1
    }

    /// Returns the total, and the number of attempts that are not in it.
    fn sums(&self) -> (Usage, u32) {
        let sum = self.lock();
        (sum.total(), sum.unreported)
    }

    fn lock(&self) -> MutexGuard<'_, Sum> {
        // Nothing foreign runs under the lock, so a poisoned sum is whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sum {
    fn total(&self) -> Usage {
        self.open.iter().fold(self.ended, |total, (_, used)| total.plus(*used))
    }

    /// Counts an attempt that has ended. `may_cost` says that the provider may have charged it.
    fn end(&mut self, used: Usage, may_cost: bool) {
        self.ended = self.ended.plus(used);
        let is_unreported = may_cost && used.is_empty();
        self.unreported = self.unreported.saturating_add(u32::from(is_unreported));
    }
}

/// Returns whether the provider may have charged an attempt that failed. It does not charge what it
/// refuses.
fn may_cost(failure: &Failure) -> bool {
    let is_refusal = failure.status().is_some_and(|status| status >= 400);
    let is_answer = matches!(
        failure.kind(),
        Kind::Timeout
            | Kind::Network
            | Kind::ContentFilter
            | Kind::InvalidOutput
            | Kind::Cancelled
            | Kind::Unknown
    );
    let is_answer = is_answer || matches!(failure.rule(), Rule::Finish(_));
    failure.phase().is_committed() || is_answer && !is_refusal && !failure.is_not_sent()
}

/// Writes the [total](Self::total), and how many attempts are [not in it](Self::unreported).
impl fmt::Display for Bill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (total, unreported) = self.sums();
        if unreported == 0 {
            return total.fmt(f);
        }
        if !total.is_empty() {
            write!(f, "{total}, and ")?;
        }
        let plural = if unreported == 1 { "" } else { "s" };
        write!(f, "{unreported} attempt{plural} without a usage")
    }
}

impl fmt::Debug for Bill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (total, unreported) = self.sums();
        f.debug_struct("Bill").field("total", &total).field("unreported", &unreported).finish()
    }
}

/// The entry of one stream. Its usage stays on the bill when it is dropped.
#[cfg(feature = "stream")]
pub(crate) struct Entry {
    bill: Bill,
    number: u64,
    /// The provider may charge the stream.
    may_cost: bool,
}

#[cfg(feature = "stream")]
impl Entry {
    /// Opens an entry with the usage that is known so far. A stream that `is_refused` costs nothing.
    pub(crate) fn open(bill: &Bill, used: Usage, is_refused: bool) -> Self {
        let mut sum = bill.lock();
        sum.last += 1;
        let number = sum.last;
        sum.open.push((number, used));
        drop(sum);
        Self { bill: bill.clone(), number, may_cost: !is_refused }
    }

    /// Closes the entry of a stream that goes on with another bill.
    pub(crate) fn leave(mut self) {
        self.may_cost = false;
    }

    /// Notes the failure that ends the stream.
    pub(crate) fn fail(&mut self, failure: &Failure) {
        self.may_cost &= may_cost(failure);
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
            sum.end(used, self.may_cost);
        }
    }
}
