//! Starts eight processes that call one provider with one rate limit, and shows what the provider
//! gets: without a fleet, with a fixed share for each process, with a fleet, and with a fleet whose
//! Redis is killed and started again. Run it with:
//!
//! ```text
//! cargo run -p resile-redis --example fleet -- --out DIR
//! ```
//!
//! It needs `redis-server` or `valkey-server` in PATH, or the URL of a server. All processes, the
//! provider and the Redis server are real and talk over loopback sockets. `worker.rs` has the code
//! that a program of yours needs.

#![expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "figures for people"
)]

mod cli;
mod crew;
mod demand;
mod figures;
mod plan;
mod plot;
mod provider;
mod run;
mod store;
mod worker;

use std::io::Write as _;
use std::process::ExitCode;

use cli::Options;
use figures::Figures;
use plan::{Plan, Scheme};
use run::{Outcome, run};
use store::Store;

const FAILED: u8 = 1;
const USAGE: u8 = 2;
const ERROR: u8 = 3;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1).peekable();
    if arguments.next_if(|first| first == worker::COMMAND).is_some() {
        return match worker::start(arguments) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => wrong_with(ERROR, &format!("worker: {error:#}")),
        };
    }
    let options = match Options::read(arguments) {
        Ok(options) => options,
        Err(wrong) => return wrong_with(USAGE, &wrong),
    };
    if options.helps {
        say(cli::HELP);
        return ExitCode::SUCCESS;
    }
    if let Err(wrong) = options.make_out() {
        return wrong_with(USAGE, &wrong);
    }
    let store = match options.redis.clone().map_or_else(Store::start, Store::at) {
        Ok(store) => store,
        Err(wrong) => return wrong_with(USAGE, &format!("{wrong:#}")),
    };
    match all(&options, store) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => wrong_with(FAILED, "the fleet did no better: is the machine very busy?"),
        Err(error) => wrong_with(ERROR, &format!("{error:#}")),
    }
}

/// Makes all runs. Returns false if the fleet did no better than the other schemes.
#[tokio::main]
async fn all(options: &Options, mut store: Store) -> anyhow::Result<bool> {
    let mut outcomes: Vec<Outcome> = Vec::new();
    say(&Plan::describe());
    say(&Figures::header());
    for scheme in Scheme::ALL {
        if scheme == Scheme::Outage && !store.is_ours() {
            say("The run with an outage is left out: only a server of its own can be killed.");
            continue;
        }
        let plan = Plan::new(scheme, options.is_quick);
        let outcome = run(&plan, &mut store).await?;
        say(&Figures::of(&outcome).to_string());
        outcomes.push(outcome);
    }
    for line in outcomes.iter().flat_map(Outcome::story) {
        say(&line);
    }
    let path = options.out.join("fleet-redis.svg");
    let svg = plot::picture(&outcomes).map_err(|error| anyhow::anyhow!("the picture: {error}"))?;
    std::fs::write(&path, svg).map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))?;
    say(&format!("picture: {}", path.display()));
    Ok(figures::is_better(&outcomes))
}

/// Prints lines. A closed pipe (`| head -1`) does not stop the program.
fn say(lines: &str) {
    _ = writeln!(std::io::stdout(), "{lines}");
}

fn wrong_with(code: u8, wrong: &str) -> ExitCode {
    eprintln!("fleet: {wrong}");
    ExitCode::from(code)
}
