//! Compares the crate with others that do the same job. `COMPARE.md` at the crate's root has the
//! results.

mod behaviour;
mod builds;
mod contender;
mod hand;
mod job;
mod machine;
mod measure;
mod report;
mod rival;
mod rows;

use std::process::ExitCode;

const HELP: &str = "\
resile-rivals [COMMAND] [ROW] [--write FILE]

numbers    times, instructions, allocations and sizes of the rows whose titles contain ROW
behaviour  the behaviour of each crate in the traps
losses     the rows of numbers in which another contender is ahead of the crate
builds     build times and dependencies of a small program for each crate
help       this text

The default is numbers and behaviour. Tables are Markdown. With --write they replace the tables in
FILE, between its markers.
";

fn main() -> ExitCode {
    match commanded(&std::env::args().skip(1).collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn commanded(arguments: &[String]) -> Result<(), String> {
    let (file, rest) = match arguments.iter().position(|argument| argument == "--write") {
        Some(at) => {
            (Some(arguments.get(at + 1).ok_or("--write needs a FILE")?.as_str()), &arguments[..at])
        }
        None => (None, arguments),
    };
    let command = rest.first().map_or("", String::as_str);
    let wanted = rest.get(1).map_or("", String::as_str);
    if file.is_some() && !wanted.is_empty() {
        return Err("--write writes all rows: leave ROW out".to_owned());
    }
    let mut text = file.map_or(Ok(String::new()), read)?;
    let mut parts = Vec::new();
    match command {
        "calls" => measure::counted(wanted),
        "losses" => print!("{}", report::losses(&measure::numbers(wanted))),
        "" | "numbers" | "behaviour" => {
            parts.push(("machine", machine::facts()));
            if command != "behaviour" {
                parts.push(("numbers", report::numbers(&measure::numbers(wanted))));
            }
            if command != "numbers" {
                parts.push(("behaviour", behaviour::table()));
            }
        }
        "builds" => parts.push(("builds", builds::table()?)),
        "help" | "--help" => print!("{HELP}"),
        other => return Err(format!("unknown command {other:?}\n\n{HELP}")),
    }
    let Some(file) = file else {
        parts.iter().for_each(|(_, text)| println!("{text}"));
        return Ok(());
    };
    for (name, part) in &parts {
        text = report::replace(&text, name, part)?;
    }
    std::fs::write(file, text).map_err(|e| format!("{file}: {e}"))
}

fn read(file: &str) -> Result<String, String> {
    std::fs::read_to_string(file).map_err(|e| format!("{file}: {e}"))
}
