//! Makes one HTTP call to a server that fails four times, each time in another way. It limits the
//! rate, is unavailable, resets the connection, and hangs. Run it with:
//!
//! ```sh
//! cargo run --example quickstart
//! ```
//!
//! The call takes about five seconds. The exit code is 0 after an answer, 1 after giving up, and
//! 130 after Ctrl-C.

use std::process::ExitCode;
use std::time::Duration;

use resile::http::{Classifier, Failure, error_for_status};
use resile::observe::{AttemptFailure, Event, EventKind};
use resile::{
    Backoff, Breaker, Budget, Cooldown, Jitter, RetryPolicy, StopReason, Upstream, retry,
};
use tokio_util::sync::CancellationToken;

/// The limits and delays of a call. A policy is plain data and can come from a configuration file.
const POLICY: RetryPolicy<Classifier> = RetryPolicy::new()
    .with_attempts(6)
    .with_attempt_timeout(LIMIT) // leaves time for the attempt after one that hangs
    .with_total_timeout(Duration::from_secs(15))
    .with_backoff(BACKOFF)
    .with_classifier(Classifier::idempotent()); // a GET may be sent again

const LIMIT: Duration = Duration::from_secs(1);

/// Short delays of at least half their nominal length, so that one can read along. The default suits
/// a real service.
const BACKOFF: Backoff = Backoff::exponential(Duration::from_millis(400))
    .with_cap(Duration::from_millis(1500))
    .with_jitter(Jitter::Equal);

/// The state that all calls to this server share. The budget limits their retries, the breaker
/// refuses them, and the cooldown makes them wait.
static GREETER: Upstream = Upstream::new("greeter")
    .with_budget(Budget::new().with_capacity(10))
    .with_breaker(Breaker::new())
    .with_cooldown(Cooldown::new());

/// Makes one attempt. A `Failure` keeps the `Retry-After` of an answer.
async fn greeting(client: &reqwest::Client, url: &str) -> Result<String, Failure> {
    let answer = error_for_status(client.get(url).send().await?).await?;
    Ok(answer.text().await?)
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    if let Some(argument) = std::env::args_os().nth(1) {
        eprintln!("quickstart: unexpected argument {argument:?}: it takes no arguments");
        return Ok(ExitCode::from(2));
    }

    // Retries at two levels multiply, so the client makes none. It uses no proxy, because the server is
    // in this program.
    let client = reqwest::Client::builder().no_proxy().retry(reqwest::retry::never()).build()?;
    let url = server::start().await?;

    let token = CancellationToken::new();
    let ctrl_c = token.clone();
    tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            ctrl_c.cancel();
        }
    });

    println!("GET {url}: up to {} attempts of {LIMIT:?} each (Ctrl-C stops)", POLICY.attempts());

    // Without the printed events, write `.on(&GREETER)`.
    let outcome =
        retry(|_| greeting(&client, &url), POLICY, &token).on(GREETER.observed_by(&show)).await;

    // The budget allows this many more retries.
    let left = GREETER.budget().map_or(0, Budget::available);
    match outcome {
        Ok(greeting) => {
            println!("The server says {greeting:?} ({left} retries left).");
            Ok(ExitCode::SUCCESS)
        }
        Err(gave_up) => {
            println!("No answer: {gave_up} ({left} retries left).");
            Ok(ExitCode::from(if gave_up.reason() == StopReason::Cancelled { 130 } else { 1 }))
        }
    }
}

/// Prints an event of the call.
fn show(event: &Event<'_>) {
    let allowed = event.call.map_or(0, |call| call.allowed);
    let ended = |elapsed: Duration, attempt: u32, result: &str| {
        println!("{:4.1} s  attempt {attempt} of {allowed}:", elapsed.as_secs_f64());
        println!("        {result}");
    };
    match event.kind {
        EventKind::Waiting { attempt, failure, delay, .. } => {
            ended(attempt.elapsed(), attempt.number(), &reason(&failure));
            let (health, next) = (failure.health(), attempt.number() + 1);
            println!("        {health}: attempt {next} in {:.1} s", delay.as_secs_f64());
        }
        EventKind::Succeeded { attempt, elapsed, .. } => ended(elapsed, attempt, "answered"),
        // After a cancellation, the last failure already has its line.
        EventKind::GaveUp { reason: StopReason::Cancelled, .. } => {}
        EventKind::GaveUp { attempts, elapsed, failure, .. } => {
            ended(elapsed, attempts, &reason(&failure));
        }
        _ => {}
    }
}

/// Returns the error of an attempt, or the limit that cut it.
fn reason(failure: &AttemptFailure<'_>) -> String {
    match (failure.cut, failure.source) {
        (Some(cut), _) => cut.to_string(),
        (None, error) => error.map(ToString::to_string).unwrap_or_default(),
    }
}

/// A server: it follows a script of failures and then answers.
mod server {
    use std::future::pending;
    use std::io;
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    #[derive(Clone, Copy)]
    enum Step {
        /// A status, with headers, and a body.
        Answer(&'static str, &'static str),
        Reset,
        Hang,
    }

    /// The steps of the first connections. Every later connection gets a greeting.
    const SCRIPT: [Step; 4] = [
        Step::Answer("429 Too Many Requests\r\nretry-after: 1", ""),
        Step::Answer("503 Service Unavailable", ""),
        Step::Reset,
        Step::Hang,
    ];

    /// Starts the server on a free loopback port and returns its URL. It serves until the program
    /// ends.
    pub(crate) async fn start() -> io::Result<String> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}/hello", listener.local_addr()?);
        tokio::spawn(async move {
            let mut script = SCRIPT.into_iter();
            while let Ok((stream, _)) = listener.accept().await {
                let step = script.next().unwrap_or(Step::Answer("200 OK", "Hello."));
                tokio::spawn(serve(stream, step));
            }
        });
        Ok(url)
    }

    /// Reads a request, which fits into one read, and takes one step.
    async fn serve(mut stream: TcpStream, step: Step) -> io::Result<()> {
        stream.read_buf(&mut Vec::with_capacity(4096)).await?;
        match step {
            Step::Answer(status, body) => {
                let length = body.len();
                let answer = format!(
                    "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
                );
                stream.write_all(answer.as_bytes()).await
            }
            // With a linger of zero, the drop of the stream resets the connection.
            #[allow(deprecated, reason = "`set_zero_linger` needs tokio 1.50; zero does not block")]
            Step::Reset => stream.set_linger(Some(Duration::ZERO)),
            Step::Hang => pending().await,
        }
    }
}
