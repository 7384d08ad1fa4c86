//! A client of OpenAI-compatible chat completions, which stream.
//!
//! ```text
//! retry_stream                        attempts, backoff, hints, deadline; budget
//! └─ open
//!    ├─ cooldown                      whoever is told to wait makes all wait
//!    │  └─ breaker                    refused while the provider is down
//!    │     └─ POST, limited           the answer's head
//!    └─ events, each limited          the first one; each next one; the attempt as a whole
//! ```
//!
//! The agent uses whole answers only. So an answer that breaks off half-way is dropped and asked for again, and no call of a
//! tool that was cut short ever leaves this module.

mod fault;
mod reader;
mod sse;
mod wire;

use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, Stream, StreamExt, TryStreamExt, stream};
use resile::llm::{self, Classifier, Failure};
use resile::stream::Mend;
use resile::{
    Attempt, Breaker, Budget, Cooldown, Error, Lift, ResilienceExt, RetryPolicy, StreamResilienceExt, breaker,
    retry_stream,
};
use tokio::time::Instant;

use crate::agent::{Ask, Event, Model, ModelError, Told, Turn, Waits, Who, millis};
use reader::Reader;
use wire::Delta;

/// How long each part of a call may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// One attempt.
    pub(crate) attempt: Duration,
    /// The head of the answer; and the first event after it.
    pub(crate) first: Duration,
    /// Silence: between two events, and before the first one, so it is no shorter than `first`.
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

/// What goes wrong with an attempt.
type CallError = Error<Failure>;

pub(crate) struct ChatModel {
    settings: Settings,
    url: String,
    client: reqwest::Client,
    breaker: Breaker<Classifier>,
    cooldown: Cooldown<Classifier>,
    seen: Mutex<breaker::State>,
    /// What the provider last failed with: the cause, once the breaker only refuses.
    failed: Mutex<Option<Told>>,
    budget: &'static Budget,
}

impl ChatModel {
    /// # Errors
    ///
    /// The client cannot be built.
    pub(crate) fn new(settings: Settings, budget: &'static Budget) -> Result<Self, reqwest::Error> {
        // Retries at two levels multiply: the client makes none of its own.
        let client = reqwest::Client::builder().retry(reqwest::retry::never());
        let client = if settings.is_loopback { client.no_proxy() } else { client }.build()?;
        let breaker = Breaker::new()
            .with_consecutive(3)
            // One caller that works alone: a rate over its few calls is noise.
            .without_failure_rate()
            .with_classify(*settings.policy.classify());
        let cooldown = Cooldown::new().with_classify(*settings.policy.classify());
        Ok(Self {
            url: format!("{}/chat/completions", settings.base_url.trim_end_matches('/')),
            settings,
            client,
            seen: Mutex::new(breaker.state()),
            failed: Mutex::new(None),
            breaker,
            cooldown,
            budget,
        })
    }

    async fn call(&self, ask: Ask<'_>) -> Result<Turn, ModelError> {
        let body = wire::request(&self.settings.model, &ask);
        let policy = self.settings.policy.with_classify(Lift(*self.settings.policy.classify()));
        let waits = Waits::new(Who::Model, ask.emit);
        let attempts = AtomicU32::new(0);
        let open = |attempt: Attempt| {
            waits.over();
            attempts.store(attempt.number(), Ordering::Relaxed);
            (ask.emit)(Event::Attempt { attempt: attempt.number(), of: policy.attempts() });
            self.guarded(&body, ask)
        };
        let answer = retry_stream(open, &policy, ask.token)
            .with_parts(Delta::part)
            .with_required_end()
            .with_mend(|_| Mend::Restart(Delta::restart()))
            .with_budget(self.budget)
            .with_observer(|event: &resile::Event<'_, CallError>| waits.tell(event, fault::describe));
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
        let total = self.settings.limits.total;
        if let Ok(ended) = tokio::time::timeout(total, whole).await {
            return ended.map_err(|gave_up| {
                fault::given_up(
                    &gave_up,
                    self.back(),
                    self.failed.lock().unwrap_or_else(PoisonError::into_inner).take(),
                )
            });
        }
        let attempts = attempts.into_inner();
        (ask.emit)(Event::GaveUp { who: Who::Model, attempts, why: "the total limit".to_owned() });
        Err(fault::too_slow(total))
    }

    /// Opens the stream, when the cooldown lets it and if the breaker does.
    async fn guarded(
        &self,
        body: &str,
        ask: Ask<'_>,
    ) -> Result<impl Stream<Item = Result<Delta, CallError>> + use<>, CallError> {
        let began = Instant::now();
        // It is waited for here, where the wait can be told; a stop is noticed by the retry around.
        if self.cooldown.remaining().is_some() && self.cooldown.until(ask.token).await.is_ok() {
            (ask.emit)(Event::Held { wait_ms: millis(began.elapsed()) });
        }
        let opened = self.open(body).guarded_by(&self.breaker).paced_by(&self.cooldown).await;
        if !matches!(opened, Err(Error::Open(_))) {
            *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = opened.as_ref().err().map(fault::describe);
        }
        let state = self.breaker.state();
        let before = std::mem::replace(&mut *self.seen.lock().unwrap_or_else(PoisonError::into_inner), state);
        if before != state {
            (ask.emit)(Event::Breaker { state: word(state).to_owned() });
        }
        opened
    }

    /// One attempt: the answer's head, and the stream of what follows.
    async fn open(&self, body: &str) -> Result<impl Stream<Item = Result<Delta, CallError>> + use<>, CallError> {
        let Limits { attempt, first, idle, .. } = self.settings.limits;
        let began = Instant::now();
        let mut request = self.client.post(&self.url).header("content-type", "application/json").body(body.to_owned());
        if let Some(key) = &self.settings.key {
            request = request.bearer_auth(key);
        }
        let answer = async { llm::check(request.send().await?).await }.timeout(first.min(attempt));
        let answer = answer.await.map_err(|failure: Failure| Error::Operation(self.named(failure)))?;
        let is_stream = (answer.headers().get("content-type"))
            .is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
        let reader = Reader::new(answer, began, attempt);
        let name = self.name();
        let deltas = if is_stream {
            stream::try_unfold(reader, |mut reader| async { Ok(reader.next().await?.map(|delta| (delta, reader))) })
                .left_stream()
        } else {
            // Judged here, so that the breaker hears of it.
            let whole = reader.whole().await.map_err(|failure| Error::Operation(self.named(failure)))?;
            stream::iter([Ok(whole)]).right_stream()
        };
        let deltas = deltas.map_err(move |failure: Failure| Error::Operation(failure.with_provider(name.clone())));
        Ok(Box::pin(deltas.first_item_timeout(first).idle_timeout(idle)))
    }

    /// When the breaker lets calls through again, if it does not now.
    fn back(&self) -> Option<Duration> {
        self.breaker.permit().err().and_then(|open| open.retry_after())
    }

    /// The breaker's state, for people.
    pub(crate) fn breaker(&self) -> &'static str {
        word(self.breaker.state())
    }

    /// Who answers, for people.
    pub(crate) fn name(&self) -> String {
        if self.settings.is_loopback {
            return "embedded".to_owned();
        }
        let url = reqwest::Url::parse(&self.settings.base_url).ok();
        url.and_then(|url| url.host_str().map(ToOwned::to_owned)).unwrap_or_else(|| "provider".to_owned())
    }

    fn named(&self, failure: Failure) -> Failure {
        failure.with_provider(self.name())
    }
}

/// Shared, so that its breaker can be asked after the run.
impl Model for Arc<ChatModel> {
    fn turn<'a>(&'a self, ask: Ask<'a>) -> BoxFuture<'a, Result<Turn, ModelError>> {
        self.call(ask).boxed()
    }
}

fn word(state: breaker::State) -> &'static str {
    match state {
        breaker::State::Closed => "closed",
        breaker::State::Open => "open",
        breaker::State::HalfOpen => "half-open",
        breaker::State::Isolated => "isolated",
        _ => "in another state",
    }
}
