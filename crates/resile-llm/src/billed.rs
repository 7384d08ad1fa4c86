use std::error::Error;

use http_body::Body;

use crate::bill::{Bill, Sent};
use crate::events::{Events, events};
use crate::failure::Failure;

impl Bill {
    /// Makes an attempt that returns a stream. Counts the usage of its [`events`](crate::events()) as each
    /// one comes, like [`billed`](crate::Events::billed), and also an attempt that ends before its stream
    /// began. `answer` sends the request, such as `send` of `reqwest`. Call this once for each attempt.
    ///
    /// # Errors
    ///
    /// Returns the failure of `answer`.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops `answer`. If it was polled before, it counts as
    /// [unreported](Self::unreported).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), resile_llm::Failure> {
    /// use futures_util::TryStreamExt;
    /// use resile_llm::{Bill, Failure};
    ///
    /// # async fn send() -> Result<http::Response<String>, Failure> {
    /// #     let body = "data: {\"choices\":[{\"finish_reason\":\"stop\"}],\
    /// #         \"usage\":{\"prompt_tokens\":700,\"completion_tokens\":90}}\n\ndata: [DONE]\n\n";
    /// #     Ok(http::Response::new(body.to_owned()))
    /// # }
    /// let bill = Bill::new();
    /// let events = bill.events(send()).await?;
    /// events.try_for_each(async |_| Ok(())).await?;
    /// assert_eq!(bill.to_string(), "790 tokens: 700 input, 90 output");
    /// # Ok(())
    /// # }
    /// ```
    pub fn events<F, A, B, E>(
        &self,
        answer: F,
    ) -> impl Future<Output = Result<Events<B>, Failure>> + use<F, A, B, E>
    where
        F: Future<Output = Result<A, E>>,
        A: Into<http::Response<B>>,
        B: Body<Error: Into<Box<dyn Error + Send + Sync>>>,
        E: Into<Failure>,
    {
        let bill = self.clone();
        async move {
            let sent = Sent::on(&bill);
            match answer.await {
                Ok(answer) => {
                    let events = events(answer).billed(&bill);
                    sent.leave();
                    Ok(events)
                }
                Err(error) => {
                    let failure = error.into();
                    sent.fail(&failure);
                    Err(failure)
                }
            }
        }
    }
}
