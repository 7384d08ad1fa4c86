//! One of the processes. It makes calls until its time is over.
//!
//! The parent starts it with the values of [`Job`]. It prints `ready`, and begins with the next
//! line on its stdin. While it runs, it prints `state WORD` for each new state of its fleet. At the
//! end it prints `made CALLS answered CALLS`.

use std::ffi::OsString;
use std::io::Write as _;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use resile::fleet::State;
use resile::http::{Classifier, Failure, error_for_status};
use resile::{Budget, Cooldown, Never, Quota, RetryPolicy, Upstream, retry};
use resile_redis::Fleet;
use tokio::sync::mpsc::{Receiver, channel};
use tokio::time::{Instant, sleep, sleep_until};

use crate::demand;
use crate::plan::{PATIENCE, QUEUE, Scheme};
use crate::provider::PROCESS;

/// The first argument of a worker.
pub(crate) const COMMAND: &str = "worker";

/// The settings that the parent passes to its workers.
pub(crate) struct Job {
    pub(crate) process: usize,
    pub(crate) scheme: Scheme,
    pub(crate) length: Duration,
    pub(crate) provider: String,
    pub(crate) redis: String,
    /// The start of all keys of this run.
    pub(crate) prefix: String,
}

impl Job {
    pub(crate) fn arguments(&self) -> [String; 6] {
        [
            self.process.to_string(),
            self.scheme.word().to_owned(),
            self.length.as_millis().to_string(),
            self.provider.clone(),
            self.redis.clone(),
            self.prefix.clone(),
        ]
    }

    fn read(arguments: impl Iterator<Item = OsString>) -> Option<Self> {
        let words: Option<Vec<_>> = arguments.map(|word| word.into_string().ok()).collect();
        let [process, scheme, length, provider, redis, prefix] = words?.try_into().ok()?;
        Some(Self {
            process: process.parse().ok()?,
            scheme: Scheme::from_word(&scheme)?,
            length: Duration::from_millis(length.parse().ok()?),
            provider,
            redis,
            prefix,
        })
    }
}

/// Makes one attempt.
async fn get(http: &reqwest::Client, job: &Job) -> Result<(), Failure> {
    let answer = http.get(&job.provider).header(PROCESS, job.process).send().await?;
    error_for_status(answer).await.map(drop)
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn start(arguments: impl Iterator<Item = OsString>) -> anyhow::Result<()> {
    let job = Rc::new(Job::read(arguments).context("wrong arguments")?);
    let upstream = Arc::new(
        Upstream::new("provider")
            .with_budget(Budget::new())
            .with_cooldown(Cooldown::new())
            .with_quota(Quota::new().with_requests(job.scheme.rate()).with_queue(QUEUE)),
    );
    if job.scheme.shares() {
        let fleet = Fleet::new(&job.redis)?.with_prefix(&job.prefix);
        fleet.join(Arc::clone(&upstream))?;
        while upstream.fleet().is_none_or(|status| status.state == State::Joining) {
            sleep(Duration::from_millis(5)).await;
        }
    }
    let mut lines = listen();
    say("ready");
    lines.recv().await.context("the parent has ended")?;
    let (made, answered) = tokio::select! {
        counts = work(&job, &upstream) => counts?,
        // The parent keeps the pipe open while it lives.
        _ = lines.recv() => return Ok(()),
        never = tell_states(&upstream) => never,
    };
    say(&format!("made {made} answered {answered}"));
    Ok(())
}

/// Makes calls at the pace of the demand until the time is over. Returns the number of calls made
/// and answered.
async fn work(job: &Rc<Job>, upstream: &Arc<Upstream>) -> anyhow::Result<(usize, usize)> {
    let http = reqwest::Client::builder().no_proxy().retry(reqwest::retry::never()).build()?;
    let policy = RetryPolicy::new()
        .with_attempt_timeout(Duration::from_secs(1))
        .with_total_timeout(PATIENCE)
        .with_classifier(Classifier::idempotent());
    let answered = Rc::new(std::cell::Cell::new(0));
    let (began, mut at, mut made) = (Instant::now(), Duration::ZERO, 0);
    let tasks = tokio::task::LocalSet::new();
    let calls = async {
        loop {
            at += Duration::from_secs_f64(1.0 / demand::per_second(job.process, at, job.length));
            if at >= job.length {
                break;
            }
            sleep_until(began + at).await;
            made += 1;
            let (http, job, answered) = (http.clone(), Rc::clone(job), Rc::clone(&answered));
            let upstream = Arc::clone(upstream);
            tokio::task::spawn_local(async move {
                let call = retry(|_| get(&http, &job), policy, Never).on(upstream);
                if call.await.is_ok() {
                    answered.set(answered.get() + 1);
                }
            });
        }
        sleep_until(began + job.length).await;
    };
    tasks.run_until(calls).await;
    Ok((made, answered.get()))
}

/// Prints each new state of the fleet.
async fn tell_states(upstream: &Upstream) -> (usize, usize) {
    let mut told = None;
    loop {
        let state = upstream.fleet().map(|status| status.state);
        if told != state {
            told = state;
            say(&format!("state {}", state.map_or("none", State::as_str)));
        }
        sleep(Duration::from_millis(10)).await;
    }
}

/// Receives the lines of the parent. The end of the parent ends the receiver.
fn listen() -> Receiver<String> {
    let (sender, receiver) = channel(1);
    // tokio's own reader of stdin would keep the runtime from ending.
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            if sender.blocking_send(line).is_err() {
                break;
            }
        }
    });
    receiver
}

/// Prints a line for the parent.
fn say(line: &str) {
    _ = writeln!(std::io::stdout(), "{line}");
}
