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
/// | a stream (feature `stream`) | `bill.events(request.send()).await?`, as each event comes |
/// | a whole answer | `bill.note(async { read_answer(request.send().await?).await }).await?` |
///
/// Parse the body of a whole answer after `note`, which reads the usage from its bytes.
///
/// Give both the request too, so that the bill sees an attempt that is cut or dropped before its answer
/// came. The sum is the least that a question cost: a provider may charge an attempt that broke off or was
/// cut before it reported its whole usage. [`unreported`](Self::unreported) counts such attempts. A refusal has
/// no usage and costs nothing.
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
/// let ask = |attempt| bill.note(read(attempt));
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
    /// The number of ended attempts without a whole usage that may have been charged.
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

    /// Makes an attempt that returns the body of a whole answer, and counts the usage of the body or of the
    /// failure. `answer` is the attempt from its request to its body as bytes or text, so parse the body
    /// after this: `let body = bill.note(read).await?`. Call this once for each attempt.
    ///
    /// # Errors
    ///
    /// Returns the failure of `answer`.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops `answer`. If it was polled before, it counts as
    /// [unreported](Self::unreported), so a timeout of the attempt and the loss of a hedge are on the bill.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use std::time::Duration;
    ///
    /// use resile::{Never, retry};
    /// use resile_llm::Bill;
    ///
    /// # async fn hang() -> Result<String, resile_llm::Failure> { std::future::pending().await }
    /// let bill = Bill::new();
    /// let policy = resile_llm::interactive().with_attempt_timeout(Duration::from_secs(9));
    /// retry(|_| bill.note(hang()), policy, Never).await.unwrap_err();
    /// assert_eq!(bill.to_string(), "4 attempts without a whole usage");
    /// # }
    /// ```
    pub fn note<F, B>(&self, answer: F) -> impl Future<Output = Result<B, Failure>> + use<F, B>
    where
        F: Future<Output = Result<B, Failure>>,
        B: AsRef<[u8]>, // the bytes of the body: parse them after `note`
    {
        let bill = self.clone();
        async move {
            let sent = Sent::on(&bill);
            let answer = answer.await;
            match &answer {
                Ok(body) => sent.end(usage(body.as_ref()).unwrap_or_default(), true),
                Err(failure) => sent.fail(failure),
            }
            answer
        }
    }

    /// Returns the usage of all attempts so far. Each number saturates at 4,294,967,295.
    pub fn total(&self) -> Usage {
        self.sums().0
    }

    /// Returns the number of attempts that ended without a whole usage although the provider may have charged
    /// them. The [total](Self::total) is incomplete if it is above 0.
    ///
    /// The usage of a stream is whole if its last event or its ending came too, such as `message_delta` of
    /// Anthropic. What a stream without it has reported is in the total, such as the input.
    ///
    /// | the attempt | it counts if it has no whole usage |
    /// |---|---|
    /// | a good answer, a stream that ended well, broke off or was dropped | yes |
    /// | an answer that the program cannot use, such as a filtered one | yes |
    /// | a prompt that the content filter refused, also with 400 | yes, because Azure charges it |
    /// | cut or dropped before its answer came, in [`note`](Self::note) or `events` | yes, because its request may have left |
    /// | a failed connection or a timeout, there | yes, unless the request surely never left |
    /// | a refusal: 4xx, 5xx, or an error as an event before the first word or thought | no |
    /// | held by a part of the upstream and never begun, or made and never polled | no: nothing was sent |
    ///
    /// A stream of OpenAI counts too if its request did not ask for the usage. So does a stream whose ending
    /// only a function of the program knows (`with_parts`).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use resile_llm::{Bill, Failure};
    ///
    /// let bill = Bill::new();
    /// let body = r#"{"usage":{"prompt_tokens":12,"completion_tokens":3}}"#;
    /// bill.note(async { Ok(body) }).await.unwrap();
    /// let reset = Failure::from(std::io::Error::from(std::io::ErrorKind::ConnectionReset));
    /// for failure in [reset, Failure::from_text(429, "")] {
    ///     bill.note(async { Err::<&str, _>(failure) }).await.unwrap_err();
    /// }
    /// assert_eq!(bill.unreported(), 1);
    /// let words = "15 tokens: 12 input, 3 output, and 1 attempt without a whole usage";
    /// assert_eq!(bill.to_string(), words);
    /// # }
    /// ```
    #[must_use]
    pub fn unreported(&self) -> u32 {
        self.sums().1
    }

    /// Returns the total, and the number of attempts that are not wholly in it.
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

    /// Counts an attempt that has ended. `may_cost` says that the provider may have charged it, and `is_whole`
    /// that it reports nothing more.
    fn end(&mut self, used: Usage, may_cost: bool, is_whole: bool) {
        self.ended = self.ended.plus(used);
        let is_unreported = may_cost && (used.is_empty() || !is_whole);
        self.unreported = self.unreported.saturating_add(u32::from(is_unreported));
    }
}

/// Returns whether the provider may have charged an attempt that failed. It does not charge what it
/// refuses, unless its content filter has read the prompt.
fn may_cost(failure: &Failure) -> bool {
    let is_bad = failure.status().is_some_and(|status| status >= 400);
    let is_refusal = is_bad && !is_filtered(failure);
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

/// Returns whether the content filter stopped the attempt, whatever its status is.
fn is_filtered(failure: &Failure) -> bool {
    failure.kind() == Kind::ContentFilter
}

/// Writes the [total](Self::total), and how many attempts are [not wholly in it](Self::unreported). It is `0 tokens` if
/// nothing was sent or all was refused, and `no usage` while the first stream has reported none.
impl fmt::Display for Bill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (total, unreported) = self.sums();
        if unreported == 0 {
            let is_nothing = total.is_empty() && self.lock().open.is_empty();
            return if is_nothing { f.write_str("0 tokens") } else { total.fmt(f) };
        }
        if !total.is_empty() {
            write!(f, "{total}, and ")?;
        }
        let plural = if unreported == 1 { "" } else { "s" };
        write!(f, "{unreported} attempt{plural} without a whole usage")
    }
}

impl fmt::Debug for Bill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (total, unreported) = self.sums();
        f.debug_struct("Bill").field("total", &total).field("unreported", &unreported).finish()
    }
}

/// A request that may have left, while its answer is awaited. Dropped then, it counts without a whole usage.
pub(crate) struct Sent(Option<Bill>);

impl Sent {
    pub(crate) fn on(bill: &Bill) -> Self {
        Self(Some(bill.clone()))
    }

    /// Counts the attempt by its answer.
    fn end(mut self, used: Usage, may_cost: bool) {
        if let Some(bill) = self.0.take() {
            bill.lock().end(used, may_cost, true);
        }
    }

    /// Counts the attempt by its failure.
    pub(crate) fn fail(self, failure: &Failure) {
        self.end(failure.usage(), may_cost(failure));
    }

    /// Leaves the attempt to the entry of its stream.
    #[cfg(feature = "stream")]
    pub(crate) fn leave(mut self) {
        self.0 = None;
    }
}

impl Drop for Sent {
    fn drop(&mut self) {
        if let Some(bill) = self.0.take() {
            bill.lock().end(Usage::new(), true, false);
        }
    }
}

/// The entry of one stream. Its usage stays on the bill when it is dropped.
#[cfg(feature = "stream")]
pub(crate) struct Entry {
    bill: Bill,
    number: u64,
    /// The provider may charge the stream.
    may_cost: bool,
    /// The stream reports nothing more.
    is_whole: bool,
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
        Self { bill: bill.clone(), number, may_cost: !is_refused, is_whole: false }
    }

    /// Notes that the stream reports nothing more if `is_whole`.
    pub(crate) fn complete(&mut self, is_whole: bool) {
        self.is_whole |= is_whole;
    }

    /// Closes the entry of a stream that goes on with another bill.
    pub(crate) fn leave(mut self) {
        self.may_cost = false;
    }

    /// Notes the failure that ends the stream.
    pub(crate) fn fail(&mut self, failure: &Failure) {
        self.may_cost = may_cost(failure) && (self.may_cost || is_filtered(failure));
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
            sum.end(used, self.may_cost, self.is_whole);
        }
    }
}
