use std::future::pending;
use std::pin::Pin;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{Instant, timeout};

use super::job::{Answer, Desk, Job};
use crate::scripts::ScriptError;

/// The exchanges that run now. All run at once, on one connection.
pub(super) struct Round(Option<Pin<Box<dyn Future<Output = Vec<Outcome>> + Send>>>);

/// A job, its answer and the time that it took.
pub(super) type Outcome = (Job, Result<Answer, Failure>, Duration);

/// The reason for which a job has no answer.
#[derive(Debug)]
pub(super) enum Failure {
    /// The server did not answer within this time.
    Timeout(Duration),
    Script(ScriptError),
}

impl Failure {
    /// Returns whether the server has answered, with an error or in another form than expected.
    pub(super) fn is_answer(&self) -> bool {
        matches!(self, Self::Script(error) if error.is_answer())
    }
}

impl Round {
    pub(super) const fn none() -> Self {
        Self(None)
    }

    pub(super) const fn is_idle(&self) -> bool {
        self.0.is_none()
    }

    /// Begins a round. An earlier round is dropped, and its answers are ignored.
    pub(super) fn begin(&mut self, desk: &Desk, jobs: Vec<Job>, limit: Duration) {
        if jobs.is_empty() {
            return;
        }
        let desk = desk.clone();
        self.0 = Some(Box::pin(async move {
            let exchanges = jobs.into_iter().map(|job| {
                let desk = &desk;
                async move {
                    let began = Instant::now();
                    let answer = match timeout(limit, desk.run(&job)).await {
                        Ok(answer) => answer.map_err(Failure::Script),
                        Err(_) => Err(Failure::Timeout(limit)),
                    };
                    let took = began.elapsed();
                    desk.meter.exchanged(took, answer.is_ok());
                    (job, answer, took)
                }
            });
            join_all(exchanges).await
        }));
    }

    /// Completes with the answers of the round. Without a round it never completes.
    pub(super) async fn end(&mut self) -> Vec<Outcome> {
        let Some(round) = &mut self.0 else { return pending().await };
        let outcomes = round.await;
        self.0 = None;
        outcomes
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Timeout(limit) => write!(f, "no answer within {limit:.0?}"),
            Self::Script(error) => error.fmt(f),
        }
    }
}
