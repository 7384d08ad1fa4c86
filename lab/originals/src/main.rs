//! Reads scripts and the answers of the originals, runs the scripts with the crate, and prints what
//! differs. The scripts of the original in Rust are drawn here.
//!
//!     originals COUNT SEED <scripts

mod breaker;
mod call;
mod delay;
mod mongo;
mod script;
mod smithy;
mod table;
mod vector;

use std::collections::BTreeMap;
use std::io::{self, BufRead};
use std::process::ExitCode;

use resile::time::ManualTimer;
use script::{Difference, Script};
use smithy::Smithy;

/// The most differences that are printed of one kind.
const PRINTED: u64 = 3;

/// The scripts of one kind.
#[derive(Default)]
struct Count {
    scripts: u64,
    explained: BTreeMap<String, u64>,
    unexplained: u64,
}

fn main() -> ExitCode {
    match compare() {
        Ok(counts) if print(&counts) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("originals: {error}");
            ExitCode::from(2)
        }
    }
}

/// Compares all scripts, by their originals.
fn compare() -> Result<BTreeMap<String, Count>, String> {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse::<u64>());
    let (Some(Ok(scripts)), Some(Ok(seed)), None) = (args.next(), args.next(), args.next()) else {
        return Err("usage: originals COUNT SEED <scripts".to_owned());
    };
    let mut counts: BTreeMap<String, Count> = BTreeMap::new();
    for line in io::stdin().lock().lines() {
        let line = line.map_err(|error| error.to_string())?;
        let script = serde_json::from_str(&line).map_err(|error| format!("{error} in {line}"))?;
        count(&mut counts, &script);
    }
    let draw = ManualTimer::with_seed(seed);
    for _ in 0..scripts {
        count(&mut counts, &Script::Smithy(Smithy::draw(&draw)));
    }
    Ok(counts)
}

/// Compares one script, and prints what differs without a reason.
fn count(counts: &mut BTreeMap<String, Count>, script: &Script) {
    let count = counts.entry(script.original().to_owned()).or_default();
    count.scripts += 1;
    let Err(difference) = script.compare() else { return };
    if let Some(why) = table::explain(script, &difference) {
        *count.explained.entry(why.to_owned()).or_default() += 1;
        return;
    }
    count.unexplained += 1;
    if count.unexplained <= PRINTED {
        let Difference { ours, theirs, input, .. } = difference;
        println!("{}: {input}\n  theirs {theirs}\n  ours   {ours}", script.original());
    }
}

/// Prints the counts. Returns whether each difference has a reason.
fn print(counts: &BTreeMap<String, Count>) -> bool {
    for (original, count) in counts {
        let Count { scripts, explained, unexplained } = count;
        let agree = scripts - explained.values().sum::<u64>() - unexplained;
        println!(
            "{original}: {scripts} scripts, {agree} agree, {unexplained} differ without a reason"
        );
        for (why, number) in explained {
            println!("  {number} differ: {why}");
        }
    }
    counts.len() > 1 && counts.values().all(|count| count.unexplained == 0)
}
