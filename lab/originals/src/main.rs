//! Reads scripts and the answers of the originals, runs the scripts with the crate, and prints what
//! differs.

mod script;
mod table;

use std::collections::BTreeMap;
use std::io::{self, BufRead};
use std::process::ExitCode;

use script::{Difference, Script};

/// The most differences that are printed of one kind.
const PRINTED: u64 = 3;

/// The scripts of one kind.
#[derive(Default)]
struct Count {
    scripts: u64,
    explained: BTreeMap<&'static str, u64>,
    unexplained: u64,
}

fn main() -> ExitCode {
    let mut counts: BTreeMap<&'static str, Count> = BTreeMap::new();
    for line in io::stdin().lock().lines() {
        let script = line.map_err(|error| error.to_string()).and_then(|line| {
            serde_json::from_str::<Script>(&line).map_err(|error| format!("{error} in {line}"))
        });
        let script = match script {
            Ok(script) => script,
            Err(error) => {
                eprintln!("originals: {error}");
                return ExitCode::from(2);
            }
        };
        let count = counts.entry(script.original()).or_default();
        count.scripts += 1;
        let Err(Difference { ours, theirs, input }) = script.compare() else { continue };
        if let Some(why) = table::explain(&script) {
            *count.explained.entry(why).or_default() += 1;
        } else {
            count.unexplained += 1;
            if count.unexplained <= PRINTED {
                println!("{}: {input}\n  theirs {theirs}\n  ours   {ours}", script.original());
            }
        }
    }
    let mut all_agree = !counts.is_empty();
    for (original, count) in &counts {
        let Count { scripts, explained, unexplained } = count;
        let agree = scripts - explained.values().sum::<u64>() - unexplained;
        println!(
            "{original}: {scripts} scripts, {agree} agree, {unexplained} differ without a reason"
        );
        for (why, number) in explained {
            println!("  {number} differ: {why}");
        }
        all_agree &= *unexplained == 0;
    }
    if all_agree { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
