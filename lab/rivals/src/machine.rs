//! The facts that the figures depend on.

use std::fmt::Write;
use std::process::Command;
use std::time::SystemTime;

/// Returns the date, the machine and the versions.
pub fn facts() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let mut text = format!(
        "{}, {} cores, {}, {}. Release build, thin LTO, one codegen unit.\n\n",
        today(),
        cores,
        std::env::consts::ARCH,
        said("rustc", "--version").split(" (").next().unwrap_or_default(),
    );
    let _ = writeln!(
        text,
        "resile {}, {}",
        version(include_str!("../../../Cargo.toml")),
        rivals().join(", ")
    );
    text
}

/// Returns the versions of the rivals. The manifest pins them.
fn rivals() -> Vec<String> {
    include_str!("../Cargo.toml")
        .lines()
        .skip_while(|line| *line != "[dependencies]")
        .skip(1)
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| {
            let (name, rest) = line.split_once(" = ")?;
            let pinned = rest.split_once("\"=")?.1;
            Some(format!("{name} {}", pinned.split('"').next()?))
        })
        .filter(|line| !line.starts_with("allocation-counter"))
        .collect()
}

fn version(manifest: &str) -> &str {
    let line = manifest.lines().find_map(|line| line.strip_prefix("version = "));
    line.map_or("", |line| line.trim_matches('"'))
}

/// Returns the first line that a program prints.
fn said(program: &str, argument: &str) -> String {
    let output = Command::new(program).arg(argument).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    text.ok()
        .and_then(|text| text.lines().next().map(str::to_owned))
        .unwrap_or_else(|| format!("{program} unknown"))
}

/// Returns the date in UTC, by Hinnant's `civil_from_days`.
fn today() -> String {
    let seconds = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |elapsed| elapsed.as_secs());
    let days = seconds / 86_400 + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (day, month) =
        (day - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    let year = year + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}
