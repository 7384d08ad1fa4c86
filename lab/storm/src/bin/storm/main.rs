//! Reproduces published claims about retries and quotas with models that use the types of the crate.
//! It prints the measured figures beside the published ones and draws them. Run it with:
//!
//! ```text
//! cargo run --release --manifest-path lab/Cargo.toml --bin storm -- --out DIR
//! ```

#![expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "figures for people"
)]

mod cli;
mod panel;
mod terminal;

use std::process::ExitCode;
use std::time::Instant;

use storm::catalogue::{CLAIMS, Claim};
use storm::claims::{Size, fleet};
use storm::tally::Tally;

use cli::{Options, Print};
use panel::Panel;

const FAILED: u8 = 1;
const USAGE: u8 = 2;
const ERROR: u8 = 3;

/// Measures the time and memory of one fleet.
fn cost(size: Size) -> String {
    let (began, mut crowd) = (Instant::now(), None);
    let memory = allocation_counter::measure(|| crowd = Some(fleet::alone(size)));
    let Some(fleet::Crowd { agents, future }) = crowd else { unreachable!("it was run") };
    format!(
        "  {agents} agents on one thread: {:.2} s, at most {:.1} MB ({} bytes per agent with its model)\n  \
         The future of an agent with its retry, cooldown and request has {future} bytes.",
        began.elapsed().as_secs_f64(),
        memory.bytes_max as f64 / 1e6,
        memory.bytes_max / agents as u64,
    )
}

fn main() -> ExitCode {
    let names = CLAIMS.map(|claim| claim.name);
    let options = match Options::read(std::env::args_os().skip(1), &names) {
        Ok(options) => options,
        Err(wrong) => return wrong_with(USAGE, &wrong),
    };
    match options.print {
        Some(Print::Help) => panel::print(cli::HELP),
        Some(Print::List) => CLAIMS.iter().for_each(|claim| {
            panel::print(&terminal::wrap(&format!("{:<12}{}", claim.name, claim.shows), 12));
        }),
        None => {
            if let Err(wrong) = options.make_out() {
                return wrong_with(USAGE, &wrong);
            }
            return run(&options);
        }
    }
    ExitCode::SUCCESS
}

fn run(options: &Options) -> ExitCode {
    let asked = |claim: &&Claim| {
        options.only.is_empty() || options.only.iter().any(|name| name == claim.name)
    };
    let claims: Vec<_> = CLAIMS.iter().filter(asked).collect();
    let (panel, began) = (Panel::new(claims.len()), Instant::now());
    let mut tally = Tally::default();
    for (done, claim) in claims.iter().enumerate() {
        panel.show(done, 0.0, claim.name);
        let began = Instant::now();
        let outcome = (claim.run)(options.size, &|share| panel.show(done, share, claim.name));
        panel.table(claim.title, began.elapsed(), &outcome.checks);
        if let Some(table) = &outcome.table {
            panel.say(table);
        }
        panel.say(&format!("  Shows: {}\n  Do: {}", claim.shows, claim.advice));
        if claim.name == "fleet" {
            panel.say(&cost(options.size));
        }
        tally.add(claim.name, &outcome.checks);
        let Some(picture) = outcome.picture else { continue };
        let path = options.out.join(format!("{}.svg", claim.name));
        let written = picture.and_then(|svg| Ok(std::fs::write(&path, svg)?));
        if let Err(error) = written {
            panel.end();
            return wrong_with(ERROR, &format!("{}: {error}", path.display()));
        }
    }
    panel.end();
    panel.say("");
    for line in tally.named() {
        panel.say(&line);
    }
    let took = began.elapsed().as_secs_f64();
    panel.say(&format!("pictures: {}", options.out.display()));
    panel.say(&format!("{tally}, in {took:.0} s"));
    if tally.fails() { ExitCode::from(FAILED) } else { ExitCode::SUCCESS }
}

fn wrong_with(code: u8, wrong: &str) -> ExitCode {
    eprintln!("storm: {wrong}");
    ExitCode::from(code)
}
