//! Reproduces published claims about retries and quotas with models that use the types of the crate.
//! It prints the measured figures beside the published ones and draws them. Run it with:
//!
//! ```text
//! cargo run --release --example storm -- --out DIR
//! ```

#![expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "figures for people"
)]

mod claims;
mod cli;
mod panel;
mod plots;
mod tally;

use std::process::ExitCode;
use std::time::Instant;

use claims::{Check, Progress, Size};
use cli::{Options, Print};
use panel::Panel;
use plots::Drawn;
use tally::Tally;

const FAILED: u8 = 1;
const USAGE: u8 = 2;
const ERROR: u8 = 3;

/// A published claim and its models.
struct Claim {
    name: &'static str,
    title: &'static str,
    run: fn(Size, Progress<'_>) -> Outcome,
}

/// The result of a claim.
struct Outcome {
    checks: Vec<Check>,
    picture: Option<Drawn<String>>,
    /// Further figures for the reader.
    note: Option<String>,
}

const CLAIMS: [Claim; 12] = [
    Claim {
        name: "jitter",
        title: "1  Jitter while 100 clients change one row (Brooker 2015)",
        run: |size, progress| {
            let lines = claims::jitter::measure(size, progress);
            Outcome::of(claims::jitter::checks(&lines, size), Some(plots::jitter(&lines)))
        },
    },
    Claim {
        name: "cap",
        title: "2  Delays at the cap",
        run: |size, progress| {
            let spreads = claims::cap::measure(size, progress);
            Outcome::of(claims::cap::checks(&spreads), Some(plots::cap(&spreads)))
        },
    },
    Claim {
        name: "bucket",
        title: "3  A token bucket under rising failure (Brooker 2022)",
        run: |size, progress| {
            let measured = claims::bucket::measure(size, progress);
            Outcome::of(claims::bucket::checks(&measured, size), Some(plots::bucket(&measured)))
        },
    },
    Claim {
        name: "collapse",
        title: "4  Congestive collapse (Brooker 2022)",
        run: |size, progress| {
            let measured = claims::collapse::measure(size, progress);
            Outcome::of(claims::collapse::checks(&measured, size), Some(plots::collapse(&measured)))
        },
    },
    Claim {
        name: "storm",
        title: "5  A retry storm that outlives its outage (Bronson et al. 2021)",
        run: |size, progress| {
            let lines = claims::storm::measure(size, progress);
            Outcome::of(claims::storm::checks(&lines, size), Some(plots::storm(&lines)))
        },
    },
    Claim {
        name: "hedge",
        title: "6  The tail at scale (Dean and Barroso 2013)",
        run: |size, progress| {
            let lines = claims::hedge::measure(size, progress);
            Outcome::of(claims::hedge::checks(&lines, size), Some(plots::hedge(&lines)))
        },
    },
    Claim {
        name: "arithmetic",
        title: "7  Claims that follow by arithmetic",
        run: |size, _| Outcome::of(claims::exact::checks(size), None),
    },
    Claim {
        name: "fleet",
        title: "8  A fleet of agents at a rate limit",
        run: |size, progress| {
            let lines = claims::fleet::measure(size, progress);
            let outcome =
                Outcome::of(claims::fleet::checks(&lines, size), Some(plots::fleet(&lines)));
            Outcome { note: Some(cost(size)), ..outcome }
        },
    },
    Claim {
        name: "quota",
        title: "9  A limit of tokens",
        run: |size, progress| {
            let measured = claims::quota::measure(size, progress);
            Outcome::of(claims::quota::checks(&measured, size), Some(plots::quota(&measured)))
        },
    },
    Claim {
        name: "bedrock",
        title: "10  A request without a maximum of output",
        run: |_, _| Outcome::of(claims::bedrock::checks(), None),
    },
    Claim {
        name: "priority",
        title: "11  More agents than a limit can serve",
        run: |size, progress| {
            let lines = claims::priority::measure(size, progress);
            Outcome::of(claims::priority::checks(&lines), Some(plots::priority(&lines)))
        },
    },
    Claim {
        name: "neighbour",
        title: "12  A greedy user among ten",
        run: |size, progress| {
            let shares = claims::neighbour::measure(size, progress);
            Outcome::of(claims::neighbour::checks(shares, size), None)
        },
    },
];

impl Outcome {
    fn of(checks: Vec<Check>, picture: Option<Drawn<String>>) -> Self {
        Self { checks, picture, note: None }
    }
}

/// Measures the time and memory of one fleet.
fn cost(size: Size) -> String {
    let (began, mut crowd) = (Instant::now(), None);
    let memory = allocation_counter::measure(|| crowd = Some(claims::fleet::alone(size)));
    let Some(claims::fleet::Crowd { agents, future }) = crowd else { unreachable!("it was run") };
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
        Some(Print::List) => panel::print(&names.join("\n")),
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
        if let Some(note) = outcome.note {
            panel.say(&note);
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
