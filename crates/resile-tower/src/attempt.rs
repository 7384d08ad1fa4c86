//! One attempt: readiness, the call, and the judgement of its outcome.

use std::borrow::Cow;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pin_project_lite::pin_project;
use resile::Verdict;
use tower_service::Service;

use crate::Failed;
use crate::deadline::Deadline;
use crate::failed::NoRequest;
use crate::judge::{Judged, Known, SealedRule};
use crate::replay::Check;

pin_project! {
    /// The future of one attempt on the service `S`.
    pub struct Attempting<S, Q, L, H>
    where
        S: Service<Q>,
    {
        #[pin]
        state: State<S, Q>,
        rule: L,
        check: H,
        // What is left for the attempt, for the layers below.
        deadline: Option<Deadline>,
        // The limit of an attempt that has not begun.
        limit: Option<Duration>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<S, Q>
    where
        S: Service<Q>,
    {
        // The service is not ready yet, or is ready and was not called yet.
        Waiting { service: S, is_ready: bool, request: Option<Q> },
        Calling { #[pin] future: S::Future },
        // There is no request for this attempt.
        Gone,
    }
}

impl<S, Q, L, H> Attempting<S, Q, L, H>
where
    S: Service<Q>,
{
    /// Makes an attempt on a service. Its first poll calls it. It waits for the readiness unless
    /// `is_ready`.
    pub(crate) fn new(
        service: S,
        is_ready: bool,
        request: Option<Q>,
        known: Known<L, H, S::Error>,
        deadline: Option<Deadline>,
    ) -> Self {
        let Known { rule, check, .. } = known;
        Self {
            state: State::Waiting { service, is_ready, request },
            rule,
            check,
            deadline,
            limit: None,
        }
    }

    /// Sets the limit of the attempt, from its first poll.
    pub(crate) const fn limited(mut self, limit: Option<Duration>) -> Self {
        self.limit = limit;
        self
    }

    /// Calls a service that is ready.
    pub(crate) fn call(
        service: &mut S,
        request: Option<Q>,
        known: Known<L, H, S::Error>,
        deadline: Option<Deadline>,
    ) -> Self {
        let _current = deadline.map(Deadline::enter);
        let Known { rule, check, .. } = known;
        let state = match request {
            Some(request) => State::Calling { future: service.call(request) },
            None => State::Gone,
        };
        Self { state, rule, check, deadline, limit: None }
    }
}

impl<S, Q, L, H> Future for Attempting<S, Q, L, H>
where
    S: Service<Q>,
    L: SealedRule<S::Response, S::Error>,
    H: Check,
{
    type Output = Result<S::Response, Failed<S::Response>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        if let Some(limit) = this.limit.take() {
            let own = Deadline::after(limit);
            *this.deadline = Some(this.deadline.map_or(own, |deadline| deadline.min(own)));
        }
        let _current = this.deadline.map(Deadline::enter);
        let (judged, answer) = loop {
            match this.state.as_mut().project() {
                StateProj::Waiting { service, is_ready, request } => {
                    if !*is_ready {
                        if let Err(error) = ready!(service.poll_ready(cx)) {
                            break (this.rule.error(error, false), None);
                        }
                    }
                    match request.take() {
                        Some(request) => {
                            let future = service.call(request);
                            this.state.set(State::Calling { future });
                        }
                        None => this.state.set(State::Gone),
                    }
                }
                StateProj::Calling { future } => match ready!(future.poll(cx)) {
                    Ok(answer) => match this.rule.answer(&answer) {
                        None => return Poll::Ready(Ok(answer)),
                        Some(judged) => break (judged, Some(answer)),
                    },
                    Err(error) => break (this.rule.error(error, true), None),
                },
                StateProj::Gone => break (gone(), None),
            }
        };
        let once = judged.verdict.filter(Verdict::is_again).and_then(|_| this.check.once());
        Poll::Ready(Err(Failed::new(answer, judged).at(this.rule.place()).once(once)))
    }
}

/// Returns the failure of an attempt without a request.
#[cold]
fn gone() -> Judged {
    let word = Some(Cow::Borrowed("no_request"));
    Judged::new(NoRequest.into(), Some(Verdict::fatal()), word)
}
