//! A client for streaming chat completions of OpenAI-compatible providers.
//!
//! ```text
//! retry_stream on the upstream   per attempt: cooldown, breaker, budget
//! │                              attempts, backoff, hints
//! │                              until content: attempt timeout, total timeout
//! │                              the whole stream: the total limit
//! └─ open
//!    ├─ POST                     returns the head of the answer
//!    └─ events                   each within the idle limit,
//!                                all within the limit of the attempt
//! ```
//!
//! The classifier of the policy classifies every error. The agent uses complete answers only. If a
//! stream breaks off, its parts are dropped, and the next attempt starts the answer again. So no
//! incomplete tool call leaves this module.

mod fault;
mod reader;
mod sse;
mod wire;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, Stream, StreamExt, TryStreamExt, stream};
use resile::stream::Resumption;
use resile::{
    Attempt, Breaker, Budget, Cooldown, RetryPolicy, StreamResilienceExt, Upstream, breaker,
    retry_stream,
};
use resile_llm::{self as llm, Classifier, Failure};
use tokio::time::Instant;

use crate::agent::{Ask, Event, Model, ModelError, Turn, WaitReporter, Who};
use reader::Reader;
use wire::Delta;

/// The limits of a call beside its policy. A policy does not limit a stream that has begun.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The time limit of one whole attempt.
    pub(crate) attempt: Duration,
    /// The longest wait for the first event and between two events.
    pub(crate) idle: Duration,
    /// The time limit of the call with all its attempts and waits.
    pub(crate) total: Duration,
}

/// The model, its address, and the limits of its calls.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) base_url: String,
    pub(crate) key: Option<String>,
    pub(crate) model: String,
    pub(crate) policy: RetryPolicy<Classifier>,
    pub(crate) limits: Limits,
    /// True if the model runs on this machine. The client then uses no proxy.
    pub(crate) is_loopback: bool,
}

/// A model behind an HTTP API.
pub(crate) struct ChatModel {
    settings: Settings,
    url: String,
    client: reqwest::Client,
    /// The state that all calls to this model share.
    upstream: Upstream,
}

impl ChatModel {
    /// # Errors
    ///
    /// Returns an error if the client cannot be built.
    pub(crate) fn new(settings: Settings) -> Result<Self, reqwest::Error> {
        // Retries at two levels multiply, so the client makes none.
        let client = reqwest::Client::builder().retry(reqwest::retry::never());
        let client = if settings.is_loopback { client.no_proxy() } else { client }.build()?;
        // A single caller makes few calls, so a failure rate would be noise.
        let breaker = Breaker::new().with_consecutive(3).without_failure_rate();
        let upstream = Upstream::named(settings.model.as_str())
            .with_budget(Budget::new().with_capacity(20))
            .with_breaker(breaker)
            .with_cooldown(Cooldown::new());
        let url = format!("{}/chat/completions", settings.base_url.trim_end_matches('/'));
        Ok(Self { settings, url, client, upstream })
    }

    async fn call(&self, ask: Ask<'_>) -> Result<Turn, ModelError> {
        let Settings { policy, limits: Limits { total, .. }, .. } = self.settings;
        let body = wire::request(&self.settings.model, &ask);
        let waits = WaitReporter::new(Who::Model, ask.emit);
        // The observer gets the text of an error. Only this function knows its kind.
        let told = |attempt: u32, failure: Failure| {
            let failure = failure.with_provider(self.name());
            (ask.emit)(fault::event(&failure, attempt, policy.attempts()));
            failure
        };
        let open = |attempt: Attempt| {
            let (told, body, attempt) = (&told, &body, attempt.number());
            let told = move |failure| told(attempt, failure);
            async move { Ok(self.open(body).await.map_err(told)?.map_err(told)) }
        };
        let answer = retry_stream(open, policy, ask.token)
            .with_parts(Delta::part)
            .with_required_end()
            .with_resumption(|_| Resumption::Restart(Delta::restart()))
            .with_whole_timeout(total)
            .on(self.upstream.observed_by(&waits));
        let whole = async {
            let mut answer = pin!(answer);
            let mut turn = Turn::default();
            while let Some(delta) = answer.try_next().await? {
                if delta.restart {
                    (ask.emit)(Event::Restarted);
                    turn = Turn::default();
                }
                delta.add_to(&mut turn);
            }
            Ok(turn)
        };
        whole.await.map_err(|gave_up| fault::given_up(&gave_up, self.back()))
    }

    /// Makes one attempt. Returns the stream of its events after the head of the answer.
    async fn open(
        &self,
        body: &str,
    ) -> Result<impl Stream<Item = Result<Delta, Failure>> + use<>, Failure> {
        let Limits { attempt, idle, .. } = self.settings.limits;
        let began = Instant::now();
        let mut request = self
            .client
            .post(&self.url)
            .header("content-type", "application/json")
            .body(body.to_owned());
        if let Some(key) = &self.settings.key {
            request = request.bearer_auth(key);
        }
        let answer = llm::error_for_status(request.send().await?).await?;
        let is_stream = (answer.headers().get("content-type"))
            .is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
        let reader = Reader::new(answer, began, attempt);
        let deltas = if is_stream {
            stream::try_unfold(reader, |mut reader| async {
                Ok(reader.next().await?.map(|delta| (delta, reader)))
            })
            .left_stream()
        } else {
            stream::iter([reader.whole().await]).right_stream()
        };
        Ok(deltas.idle_timeout(idle))
    }

    /// Returns the time until the breaker allows calls again, if it refuses them now.
    fn back(&self) -> Option<Duration> {
        self.upstream.snapshot()?.retry_after
    }

    /// Returns the state that all calls to this model share.
    pub(crate) fn upstream(&self) -> &Upstream {
        &self.upstream
    }

    /// Returns the state of the breaker in words.
    pub(crate) fn breaker(&self) -> &'static str {
        match self.upstream.breaker().map(Breaker::state) {
            Some(breaker::State::Open) => "open",
            Some(breaker::State::HalfOpen) => "half-open",
            Some(breaker::State::Isolated) => "isolated",
            _ => "closed",
        }
    }

    /// Returns the name of the provider: `embedded`, or the host of its URL.
    pub(crate) fn name(&self) -> String {
        if self.settings.is_loopback {
            return "embedded".to_owned();
        }
        let url = reqwest::Url::parse(&self.settings.base_url).ok();
        url.and_then(|url| url.host_str().map(ToOwned::to_owned))
            .unwrap_or_else(|| "provider".to_owned())
    }
}

/// An `Arc`, so that the program can read the state of the breaker after the run.
impl Model for Arc<ChatModel> {
    fn turn<'a>(&'a self, ask: Ask<'a>) -> BoxFuture<'a, Result<Turn, ModelError>> {
        self.call(ask).boxed()
    }
}
