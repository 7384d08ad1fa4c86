//! A client of OpenAI-compatible chat completions, which stream.
//!
//! ```text
//! retry_stream, on the model's upstream   cooldown, breaker, budget, for each time that the stream is opened
//! │                                       attempts, backoff, hints; until content: attempt timeout, total timeout
//! └─ open
//!    ├─ POST                              the answer's head
//!    └─ events                            each within the idle limit; the attempt as a whole within its own
//! ```
//!
//! The policy's classifier is the only one. The agent uses whole answers only. So an answer that breaks off half-way is
//! dropped and asked for again, and no call of a tool that was cut short ever leaves this module.

mod fault;
mod reader;
mod sse;
mod wire;

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, Stream, StreamExt, TryStreamExt, stream};
use resile::llm::{self, Classifier, Failure};
use resile::stream::Resumption;
use resile::{
    Attempt, Breaker, Budget, Cooldown, RetryPolicy, StreamResilienceExt, Upstream, breaker,
    retry_stream,
};
use tokio::time::Instant;

use crate::agent::{Ask, Event, Model, ModelError, Turn, WaitReporter, Who};
use reader::Reader;
use wire::Delta;

/// What the policy does not bound, as it bounds no stream that flows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// One attempt as a whole.
    pub(crate) attempt: Duration,
    /// Silence between two events, and before the first one.
    pub(crate) idle: Duration,
    /// The call: all attempts and waits.
    pub(crate) total: Duration,
}

/// Which model, where, and with how much effort.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) base_url: String,
    pub(crate) key: Option<String>,
    pub(crate) model: String,
    pub(crate) policy: RetryPolicy<Classifier>,
    pub(crate) limits: Limits,
    /// It runs on this machine, so no proxy is asked for it.
    pub(crate) is_loopback: bool,
}

pub(crate) struct ChatModel {
    settings: Settings,
    url: String,
    client: reqwest::Client,
    /// What all calls to this model share.
    upstream: Upstream,
}

impl ChatModel {
    /// # Errors
    ///
    /// The client cannot be built.
    pub(crate) fn new(settings: Settings) -> Result<Self, reqwest::Error> {
        // Retries at two levels multiply: the client makes none of its own.
        let client = reqwest::Client::builder().retry(reqwest::retry::never());
        let client = if settings.is_loopback { client.no_proxy() } else { client }.build()?;
        // One caller that works alone: a rate over its few calls is noise.
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
        let attempts = AtomicU32::new(0);
        // The observer has an error's words; its kind is known here.
        let told = |attempt: u32, failure: Failure| {
            let failure = failure.with_provider(self.name());
            (ask.emit)(fault::event(&failure, attempt, policy.attempts()));
            failure
        };
        let open = |attempt: Attempt| {
            let (told, body, attempt) = (&told, &body, attempt.number());
            attempts.store(attempt, Ordering::Relaxed);
            let told = move |failure| told(attempt, failure);
            async move { Ok(self.open(body).await.map_err(told)?.map_err(told)) }
        };
        let answer = retry_stream(open, policy, ask.token)
            .with_parts(Delta::part)
            .with_required_end()
            .with_resumption(|_| Resumption::Restart(Delta::restart()))
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
        if let Ok(ended) = tokio::time::timeout(total, whole).await {
            return ended.map_err(|gave_up| fault::given_up(&gave_up, self.back()));
        }
        let attempts = attempts.into_inner();
        (ask.emit)(Event::GaveUp { who: Who::Model, attempts, why: "the total limit".to_owned() });
        Err(fault::too_slow(total))
    }

    /// One attempt: the answer's head, and the stream of what follows.
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

    /// When the breaker lets calls through again, if it does not now.
    fn back(&self) -> Option<Duration> {
        self.upstream.snapshot()?.retry_after
    }

    /// What all calls to this model share.
    pub(crate) fn upstream(&self) -> &Upstream {
        &self.upstream
    }

    /// The breaker's state, for people.
    pub(crate) fn breaker(&self) -> &'static str {
        match self.upstream.breaker().map(Breaker::state) {
            Some(breaker::State::Open) => "open",
            Some(breaker::State::HalfOpen) => "half-open",
            Some(breaker::State::Isolated) => "isolated",
            _ => "closed",
        }
    }

    /// Who answers, for people.
    pub(crate) fn name(&self) -> String {
        if self.settings.is_loopback {
            return "embedded".to_owned();
        }
        let url = reqwest::Url::parse(&self.settings.base_url).ok();
        url.and_then(|url| url.host_str().map(ToOwned::to_owned))
            .unwrap_or_else(|| "provider".to_owned())
    }
}

/// Shared, so that its breaker can be asked after the run.
impl Model for Arc<ChatModel> {
    fn turn<'a>(&'a self, ask: Ask<'a>) -> BoxFuture<'a, Result<Turn, ModelError>> {
        self.call(ask).boxed()
    }
}
