use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aws_smithy_runtime::client::retries::TokenBucket;
use aws_smithy_runtime::client::retries::strategy::StandardRetryStrategy;
use aws_smithy_runtime_api::client::interceptors::context::{Input, InterceptorContext, Output};
use aws_smithy_runtime_api::client::orchestrator::OrchestratorError;
use aws_smithy_runtime_api::client::retries::classifiers::{
    ClassifyRetry, RetryAction, SharedRetryClassifier,
};
use aws_smithy_runtime_api::client::retries::{RequestAttempts, RetryStrategy, ShouldAttempt};
use aws_smithy_runtime_api::client::runtime_components::{
    RuntimeComponents, RuntimeComponentsBuilder,
};
use aws_smithy_types::config_bag::{ConfigBag, Layer};
use aws_smithy_types::retry::{ErrorKind, RetryConfig, RetrySpec};
use resile::policy::Decision;
use resile::time::{ManualTimer, Timer as _};
use resile::{Attempt, Budget, RetryPolicy, Upstream, Verdict};
use serde::Deserialize;

use crate::call::call;
use crate::delay::near;
use crate::script::{Difference, same};

/// Calls of up to three attempts with the standard retries of the AWS SDKs for Rust.
///
/// An outcome is a letter as in the other scripts, and the milliseconds that the upstream asks for.
#[derive(Deserialize)]
pub(crate) struct Smithy {
    calls: Vec<Vec<(char, Option<u64>)>>,
    attempts: Vec<u32>,
    delays: Vec<f64>,
}

const ATTEMPTS: u32 = 3;

impl Smithy {
    /// Draws a script and makes its calls with the original, which runs in this process.
    pub(crate) fn draw(draw: &ManualTimer) -> Self {
        let below = |bound: u64| draw.draw_within(0..=bound - 1);
        let weights = [[8, 1, 1], [1, 8, 1], [1, 1, 8], [1, 1, 1], [0, 1, 1]];
        let weights = weights[usize::try_from(below(5)).unwrap_or(0)];
        let outcome = || {
            let drawn = below(weights.iter().sum());
            let letter = if drawn < weights[0] {
                's'
            } else if drawn < weights[0] + weights[1] {
                'f'
            } else {
                't'
            };
            (letter, (below(4) == 0).then(|| below(30_000)))
        };
        let call = || (0..ATTEMPTS).map(|_| outcome()).collect();
        let calls: Vec<Vec<_>> = (0..=below(80)).map(|_| call()).collect();
        let (mut attempts, mut delays) = (Vec::new(), Vec::new());
        let mut client = Client::new();
        for outcomes in &calls {
            attempts.push(client.call(outcomes, &mut delays));
        }
        Self { calls, attempts, delays }
    }

    /// Compares the attempts of each call, and the upper ends of all delays.
    pub(crate) fn compare(&self) -> Result<(), Difference> {
        let upstream = Upstream::new("aws").with_budget(Budget::aws());
        let policy = RetryPolicy::aws();
        let (mut attempts, mut delays) = (Vec::new(), Vec::new());
        for outcomes in &self.calls {
            let letters: String = outcomes.iter().map(|(letter, _)| *letter).collect();
            let made = call(&upstream, &letters, ATTEMPTS);
            attempts.push(made);
            for (number, (letter, hint)) in (1..made).zip(outcomes) {
                let verdict =
                    if *letter == 't' { Verdict::throttled() } else { Verdict::transient() };
                let hinted = hint.map(|hint| verdict.after(Duration::from_millis(hint)));
                let failed = Attempt::new(number);
                let verdict = Some(hinted.unwrap_or(verdict));
                let decision = policy.decide(failed, verdict, |range| *range.end());
                if let Decision::Retry(delay) = decision {
                    delays.push(delay.as_secs_f64());
                }
            }
        }
        same(&attempts, &self.attempts, &self.calls)?;
        same(&near(&delays, &self.delays), &self.delays, &self.calls)
            .map_err(|difference| Difference { at: 0, ..difference }) // of a delay, and of no call
    }

    /// Returns the place of the first call that succeeds at once and gets the tokens of an earlier call,
    /// whose last retry has failed.
    pub(crate) fn first_gift(&self) -> Option<usize> {
        let mut is_kept = false;
        for (nth, (outcomes, made)) in self.calls.iter().zip(&self.attempts).enumerate() {
            let last = usize::try_from(*made).ok()?.checked_sub(1)?;
            let succeeds = outcomes.get(last).is_some_and(|(letter, _)| *letter == 's');
            if is_kept && succeeds && last == 0 {
                return Some(nth);
            }
            is_kept = !succeeds && (is_kept || last > 0);
        }
        None
    }
}

/// The answer of the classifier of the client to the next failure.
#[derive(Clone, Debug)]
struct Said(Arc<Mutex<RetryAction>>);

impl Said {
    fn set(&self, action: RetryAction) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = action;
    }
}

impl ClassifyRetry for Said {
    fn classify_retry(&self, _: &InterceptorContext) -> RetryAction {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn name(&self) -> &'static str {
        "the script"
    }
}

/// A client of the original, with its tokens.
struct Client {
    said: Said,
    /// A client has one strategy for all calls, with what the last retry has paid.
    strategy: StandardRetryStrategy,
    components: RuntimeComponents,
    config: ConfigBag,
    failed: InterceptorContext,
    succeeded: InterceptorContext,
}

impl Client {
    fn new() -> Self {
        let said = Said(Arc::new(Mutex::new(RetryAction::NoActionIndicated)));
        let components = RuntimeComponentsBuilder::for_tests()
            .with_retry_classifier(SharedRetryClassifier::new(said.clone()))
            .build()
            .expect("the components of a client");
        // The costs are those that the runtime gives the version 2.1.
        let bucket = TokenBucket::builder().retry_cost(14).timeout_retry_cost(14);
        let mut layer = Layer::new("originals");
        layer.store_put(bucket.throttling_retry_cost(5).build());
        layer.store_put(
            RetryConfig::standard()
                .with_max_attempts(ATTEMPTS)
                .with_use_static_exponential_base(true)
                .with_retry_spec(RetrySpec::v2_1()),
        );
        let context = |outcome| {
            let mut context = InterceptorContext::new(Input::doesnt_matter());
            context.set_output_or_error(outcome);
            context
        };
        Self {
            said,
            strategy: StandardRetryStrategy::new(),
            components,
            config: ConfigBag::of_layers(vec![layer]),
            failed: context(Err(OrchestratorError::other("failed"))),
            succeeded: context(Ok(Output::doesnt_matter())),
        }
    }

    /// Makes one call. Returns the number of its attempts, and adds its delays in seconds.
    fn call(&mut self, outcomes: &[(char, Option<u64>)], delays: &mut Vec<f64>) -> u32 {
        let mut made = 0;
        for (letter, hint) in outcomes {
            made += 1;
            self.config.interceptor_state().store_put(RequestAttempts::new(made));
            let kind = match letter {
                's' => None,
                't' => Some(ErrorKind::ThrottlingError),
                _ if made == 1 => Some(ErrorKind::TransientError),
                _ => Some(ErrorKind::ServerError),
            };
            self.said.set(match (kind, hint) {
                (None, _) => RetryAction::NoActionIndicated,
                (Some(kind), None) => RetryAction::retryable_error(kind),
                (Some(kind), Some(hint)) => RetryAction::retryable_error_with_explicit_delay(
                    kind,
                    Duration::from_millis(*hint),
                ),
            });
            let context = if kind.is_some() { &self.failed } else { &self.succeeded };
            let next = self.strategy.should_attempt_retry(context, &self.components, &self.config);
            let Ok(ShouldAttempt::YesAfterDelay(delay)) = next else { break };
            delays.push(delay.as_secs_f64());
        }
        made
    }
}
