//! Runs an agent loop over HTTP with a provider that fails in many ways. Every wait is shown, every
//! effort has a limit, and each way to end has its own exit code. Run it with:
//!
//! ```sh
//! cd crates/resile-llm
//! cargo run --example agent_loop                      # all transient faults, under 30 s
//! cargo run --example agent_loop -- --scenario quota  # or calm, captcha, outage, runaway, stop
//! cargo run --example agent_loop -- --json            # prints the events as JSON
//! OPENAI_BASE_URL=… OPENAI_API_KEY=… OPENAI_MODEL=… \
//!     cargo run --features reqwest/rustls --example agent_loop -- --task "…"
//! ```
//!
//! A provider over HTTPS needs `reqwest/rustls`, which compiles C. The rest does not.
//!
//! | part | content |
//! |---|---|
//! | `agent` | the loop and its lifecycle, without HTTP and terminals |
//! | `model` | the use of the crate: a client of chat completions with limits on every call |
//! | `tools` | the tools of the agent |
//! | `server` | the provider |
//! | `panel`, `summary` | the output |
//! | `cli` | arguments and environment |
//!
//! To use the loop in your program, copy `agent` and `model`, implement `agent::Tool`, and add
//! these dependencies:
//!
//! ```toml
//! futures-util = "0.3"
//! resile = { version = "0.1", features = ["stream"] }
//! resile-llm = { version = "0.1", features = ["reqwest"] }
//! reqwest = "0.13"
//! serde = { version = "1", features = ["derive"] }
//! serde_json = "1"
//! thiserror = "2"
//! tokio = { version = "1", features = ["macros", "rt-multi-thread", "sync", "time"] }
//! tokio-util = "0.7"
//! ```
//!
//! `tools` and `server` also need `http-body-util`, `httpdate`, `hyper`, `hyper-util` and `rand`.
//! `panel` needs `indicatif`, and `cli` needs `lexopt`.

mod agent;
mod cli;
mod model;
mod panel;
mod server;
mod summary;
mod tools;

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use agent::{Agent, Limits, Message, State};
use cli::{Options, Scenario};
use model::ChatModel;
use panel::Panel;
use server::Server;

const ROLE: &str = "You look things up in a library, and send mail.";

const USAGE: u8 = 2;
const ERROR: u8 = 3;
const STOPPED: u8 = 130;

#[tokio::main]
async fn main() -> ExitCode {
    let options = match Options::read(std::env::args_os().skip(1)) {
        Ok(options) => options,
        Err(wrong) => return usage(&wrong),
    };
    if options.help {
        println!("{}", cli::HELP);
        return ExitCode::SUCCESS;
    }
    let ended = match options.server_only {
        Some(port) => serve(port, &options).await,
        None => run(&options).await,
    };
    ended.unwrap_or_else(|error| {
        eprintln!("agent_loop: {error}");
        ExitCode::from(ERROR)
    })
}

async fn run(options: &Options) -> Result<ExitCode, Box<dyn Error>> {
    let server = Server::bind(0, options.scenario, options.seed).await?;
    let url = server.url()?;
    tokio::spawn(server.serve());

    let (settings, other) = match cli::models(&url) {
        Ok(models) => models,
        Err(wrong) => return Ok(usage(&wrong)),
    };
    let model = Arc::new(ChatModel::new(settings)?);
    let panel = Arc::new(Panel::new(options.json, model.name()));
    let limits = Limits { steps: options.max_steps, ..Limits::new() };
    let listener = Arc::clone(&panel);
    let mut agent = Agent::new(Arc::clone(&model), tools::all(format!("{url}/library"))?, limits)
        .with_role(ROLE)
        .with_shrink(shrink)
        .with_listener(move |event| listener.show(event));
    if let Some(other) = other {
        agent = agent.with_fallback(Arc::new(ChatModel::new(other)?));
    }
    let agent = Arc::new(agent);
    tokio::spawn(stop_on_ctrl_c(Arc::clone(&agent)));
    if options.scenario == Scenario::Stop {
        let agent = Arc::clone(&agent);
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(1500)).await;
            agent.stop().await;
        });
    }

    let outcome = match agent.execute(&options.task).await {
        Ok(outcome) => outcome,
        Err(refusal) => return Ok(usage(&refusal.to_string())),
    };
    let budget = model.upstream().budget();
    let budget = budget
        .map(|budget| format!("{} of {} retries left", budget.available(), budget.capacity()));
    panel.finish(&outcome, &agent.history(), model.breaker(), &budget.unwrap_or_default());
    agent.dispose().await;
    Ok(match (agent.state(), outcome.success) {
        (State::Completed, true) => ExitCode::SUCCESS,
        (State::Completed, false) => ExitCode::FAILURE,
        (State::Stopped, _) => ExitCode::from(STOPPED),
        _ => ExitCode::from(ERROR),
    })
}

async fn serve(port: u16, options: &Options) -> Result<ExitCode, Box<dyn Error>> {
    let server = Server::bind(port, options.scenario, options.seed).await?.endless();
    println!("OPENAI_BASE_URL={}/v1", server.url()?);
    tokio::select! {
        () = server.serve() => {}
        stopped = tokio::signal::ctrl_c() => stopped?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Stops the run at the first Ctrl-C and ends the process at the second one.
async fn stop_on_ctrl_c(agent: Arc<Agent>) {
    if tokio::signal::ctrl_c().await.is_err() {
        return; // this system has no signals
    }
    tokio::spawn(async move { agent.stop().await });
    if tokio::signal::ctrl_c().await.is_ok() {
        std::process::exit(i32::from(STOPPED));
    }
}

/// Drops the older half of the messages after the task. Returns true if it dropped any.
fn shrink(messages: &mut Vec<Message>) -> bool {
    const TASK: usize = 2;
    let mut end = TASK + (messages.len() - TASK) / 2;
    // The result of a call must not remain without its call.
    while matches!(messages.get(end), Some(Message::Tool { .. })) {
        end += 1;
    }
    messages.drain(TASK..end).count() > 0
}

fn usage(wrong: &str) -> ExitCode {
    eprintln!("agent_loop: {wrong}");
    ExitCode::from(USAGE)
}
