use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use http::Extensions;
use reqwest::{Request, Response};
use reqwest_middleware::{Error, Middleware, Next, Result};
use resile::cancel::Cancel;
use resile::classify::Always;
use resile::error::Boxed;
use resile::upstream::markers::ByError;
use resile::upstream::{Target, TargetFor, Via};
use resile::{GaveUp, Never, RetryPolicy, Run, Verdict};

use super::attempt::{Answers, Rule};
use super::on::{HTTP, On, Place};
use super::place;
use crate::Failed;
use crate::deadline::until_deadline;
use crate::ended::ended;
use crate::failed::NoRequest;
use crate::foreign::Site;
use crate::http::judge::{classifier_of, watch};
use crate::judge::NoClassifier;

/// A middleware that retries the requests of a client of `reqwest-middleware`.
///
/// The rule is that of [`Http`](crate::http::Http): status, `Retry-After` and idempotency decide.
///
/// * A `POST` or a `PATCH` is sent again only if it surely was not executed, as after a 429, or if it has
///   an `Idempotency-Key`. The key is the same in each attempt, because a request is cloned.
/// * A [`Classifier`](resile::http::Classifier) among the extensions of a request replaces this rule, by
///   `.with_extension(Classifier::idempotent())`.
/// * A function that [judges](Self::judging) answers is asked before both.
/// * A request whose body is a stream cannot be cloned. It is sent once, and the error says so.
///
/// The words of a failure begin with the method and the URL of the request, without its query and its
/// credentials. So do those of an attempt that was cut. An error of `reqwest` has the URL in its own words,
/// so only the method stands before it.
///
/// Middlewares that were added after this one see each attempt, and those before it see the call. An error
/// that one of those after it returns is judged by itself or by its first source that this table has:
///
/// | error | verdict |
/// |---|---|
/// | a [`GaveUp`](resile::GaveUp) of a middleware of this type | that of the [call below](resile::GaveUp::verdict) |
/// | a `reqwest::Error` or a [`Failure`](resile::http::Failure) | that of the [`Classifier`](resile::http::Classifier), as without that middleware |
/// | an `io::Error` | a `GET` is sent again as [`resile::io`] says, and a `POST` is in doubt. The health of the upstream is unknown |
/// | any other, such as a token that is missing | final. The health of the upstream is unknown, so no breaker counts it. A `POST` is in doubt, because the middleware may have failed after the answer |
///
/// Switch the retries of `reqwest` itself off, or attempts multiply.
///
/// # Errors
///
/// A [`GaveUp<Boxed>`](resile::GaveUp) as `Error::Middleware`. The error of `reqwest` is in the chain of
/// its sources, without the query and the credentials of the URL. The error that a middleware made itself is
/// the source of "a middleware failed". A call that ended with an answer, such
/// as a 503, returns the answer with its [end](crate::judge) among the extensions.
///
/// `reqwest` follows redirects below the middleware, and the answer does not tell it. So a client that sends a
/// `POST` or a `PATCH` needs `.redirect(reqwest::redirect::Policy::none())`. Otherwise a `POST` that was executed before
/// a 303 is sent again if the target of the redirect fails.
///
/// # Cancel safety
///
/// Dropping the call drops the attempt in flight and gives back what it holds at the upstream. The log tells of it
/// by a line `dropped in flight`, at WARN for a `POST` or a `PATCH` without a key.
///
/// # Examples
///
/// ```no_run
/// use std::time::Duration;
///
/// use reqwest_middleware::ClientBuilder;
/// use resile_tower::reqwest_middleware_0_5::RetryMiddleware;
/// use resile_tower::resile::{Breaker, Budget, RetryPolicy, Upstream};
///
/// static STORE: Upstream =
///     Upstream::new("store").with_budget(Budget::new()).with_breaker(Breaker::new());
///
/// const POLICY: RetryPolicy =
///     RetryPolicy::new().with_total_timeout(Duration::from_secs(20));
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let http = reqwest::Client::builder().retry(reqwest::retry::never()).build()?;
/// let http = ClientBuilder::new(http).with(RetryMiddleware::new(POLICY).on(&STORE)).build();
/// let answer = http.get("http://127.0.0.1:8080/weather").send().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "a middleware does nothing until a client has it"]
pub struct RetryMiddleware<K = Never> {
    policy: RetryPolicy,
    on: On,
    token: K,
    answers: Option<Answers>,
    site: Site,
}

impl RetryMiddleware {
    /// Makes a middleware. The log prints the name `http` until [`on`](Self::on) sets another one.
    #[track_caller]
    pub const fn new<C: NoClassifier>(policy: RetryPolicy<C>) -> Self {
        let policy = policy.with_classifier(Always);
        Self { policy, on: On::DEFAULT, token: Never, answers: None, site: Location::caller() }
    }
}

impl<K> RetryMiddleware<K> {
    /// Sets the upstream of all calls, or its name alone: `&'static Upstream`, `Arc<Upstream>` or a name.
    pub fn on(mut self, on: impl Into<On>) -> Self {
        self.on = on.into();
        self
    }

    /// Sets the token that cancels all calls, such as that of a shutdown.
    pub fn with_token<L: Cancel>(self, token: L) -> RetryMiddleware<L> {
        let Self { policy, on, answers, site, .. } = self;
        RetryMiddleware { policy, on, token, answers, site }
    }

    /// Judges answers by a function first. It returns a verdict, or `None` to leave the answer to its status.
    /// [`judge`](crate::judge) says what a verdict on an answer does, and which one makes a bad answer good.
    ///
    /// An answer has no method. So a verdict that allows another attempt also sends a `POST` again, and each
    /// middleware judges for all requests of its client.
    ///
    /// # Examples
    ///
    /// ```
    /// use reqwest::StatusCode;
    /// use resile_tower::reqwest_middleware_0_5::RetryMiddleware;
    /// use resile_tower::resile::{Health, RetryPolicy, Verdict};
    ///
    /// // A replica that lags does not find the new entry yet. It works, so no breaker may open.
    /// const LAGGING: Verdict = Verdict::transient().with_health(Health::Healthy);
    ///
    /// let retries = RetryMiddleware::new(RetryPolicy::new())
    ///     .judging(|answer| (answer.status() == StatusCode::NOT_FOUND).then_some(LAGGING));
    /// # let _ = retries;
    /// ```
    pub fn judging<F>(mut self, answers: F) -> Self
    where
        F: Fn(&Response) -> Option<Verdict> + Send + Sync + 'static,
    {
        self.answers = Some(Arc::new(answers));
        self
    }
}

#[async_trait::async_trait]
impl<K> Middleware for RetryMiddleware<K>
where
    K: Cancel<Cancelled: Send> + Clone + Send + Sync + 'static,
{
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        let policy = until_deadline(self.policy);
        watch(request.headers(), self.site);
        let is_stream = request.body().is_some_and(|body| body.as_bytes().is_none());
        let rule = Rule {
            classifier: classifier_of(extensions, request.method(), request.headers()),
            answers: self.answers.clone(),
            place: place::Place::new(&request),
            is_once: is_stream && policy.attempts() > 1,
            site: self.site,
        };
        let call = Call { policy, rule, token: self.token.clone(), request, extensions, next };
        match self.on.0.clone() {
            Place::Default => call.on(&HTTP).await,
            Place::Static(upstream) => call.on(upstream).await,
            Place::Shared(upstream) => call.on(upstream).await,
        }
    }
}

/// A call and what its attempts need.
struct Call<'a, K> {
    policy: RetryPolicy,
    rule: Rule,
    token: K,
    request: Request,
    extensions: &'a mut Extensions,
    next: Next<'a>,
}

impl<K: Cancel> Call<'_, K> {
    /// Makes attempts on `target` until the call ends.
    async fn on<X: Target>(self, target: X) -> Result<Response>
    where
        Via<X, ByError>: TargetFor<Failed<Response>>,
    {
        let Self { policy, rule, token, request, extensions, next } = self;
        let allowed = policy.attempts();
        let site = rule.site;
        let mut run = Run::new(policy.with_classifier(&rule), token).on(target).called_at(site);
        let mut request = Some(request);
        loop {
            let is_last = rule.is_once || run.attempts().saturating_add(1) >= allowed;
            let copy = request.as_ref().filter(|_| !is_last).and_then(Request::try_clone);
            let Some(copy) = copy.or_else(|| request.take()) else {
                return Err(Error::middleware(NoRequest));
            };
            match run.attempt(rule.attempt(copy, extensions, next.clone())).await {
                Ok(Some(answer)) => return Ok(answer),
                Ok(None) => {}
                Err(gave_up) => return ended(gave_up, note).map_err(Error::middleware),
            }
        }
    }
}

/// Gives the last answer the end of its call.
fn note(answer: &mut Response, gave_up: GaveUp<Boxed>) {
    answer.extensions_mut().insert(Arc::new(gave_up));
}

impl<K> fmt::Debug for RetryMiddleware<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryMiddleware")
            .field("policy", &self.policy)
            .field("on", &self.on)
            .finish_non_exhaustive()
    }
}
