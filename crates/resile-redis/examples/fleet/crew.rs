//! The worker processes, as their parent sees them.

use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::plan::PROCESSES;
use crate::worker::{COMMAND, Job};

/// The time for a worker to start or to end.
const PATIENCE: Duration = Duration::from_secs(20);

/// A worker process, which ends with this value.
struct Worker {
    child: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

/// All workers, ready to begin.
pub(crate) struct Crew(Vec<Worker>);

/// The report of a worker.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// The states of its fleet, each with the time since the beginning.
    pub(crate) states: Vec<(Duration, String)>,
    pub(crate) made: u64,
    pub(crate) answered: u64,
}

impl Crew {
    /// Starts all workers and waits until they are ready.
    ///
    /// # Errors
    ///
    /// Returns an error if one does not start.
    pub(crate) async fn start(job: impl Fn(usize) -> Job) -> anyhow::Result<Self> {
        let mut workers = Vec::new();
        for process in 0..PROCESSES {
            let mut command = Command::new(std::env::current_exe()?);
            command.arg(COMMAND).args(job(process).arguments()).kill_on_drop(true);
            let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
            let stdin = child.stdin.take().context("no stdin")?;
            let stdout = child.stdout.take().context("no stdout")?;
            workers.push(Worker { child, stdin, lines: BufReader::new(stdout).lines() });
        }
        for worker in &mut workers {
            let line = timeout(PATIENCE, worker.lines.next_line()).await;
            if line.context("a worker did not start")??.as_deref() != Some("ready") {
                bail!("a worker ended before its begin");
            }
        }
        Ok(Self(workers))
    }

    /// Lets all workers begin, and waits for their ends. `began` is the beginning of all times.
    ///
    /// # Errors
    ///
    /// Returns an error if one fails.
    pub(crate) async fn work(self, began: Instant, length: Duration) -> anyhow::Result<Vec<Told>> {
        let mut ends = JoinSet::new();
        for (process, mut worker) in self.0.into_iter().enumerate() {
            worker.stdin.write_all(b"go\n").await?;
            ends.spawn(async move {
                let told = timeout(length + PATIENCE, worker.listen(began)).await;
                (process, told.context("a worker did not end").and_then(|told| told))
            });
        }
        let mut ends = ends.join_all().await;
        ends.sort_by_key(|(process, _)| *process);
        ends.into_iter().map(|(_, told)| told).collect()
    }
}

impl Worker {
    /// Reads what the worker tells until it ends.
    async fn listen(&mut self, began: Instant) -> anyhow::Result<Told> {
        let mut told = Told::default();
        while let Some(line) = self.lines.next_line().await? {
            match line.split(' ').collect::<Vec<_>>()[..] {
                ["state", word] => told.states.push((began.elapsed(), word.to_owned())),
                ["made", made, "answered", answered] => {
                    (told.made, told.answered) = (made.parse()?, answered.parse()?);
                }
                _ => bail!("a worker said {line:?}"),
            }
        }
        let status = self.child.wait().await?;
        if !status.success() {
            bail!("a worker ended with {status}");
        }
        Ok(told)
    }
}
