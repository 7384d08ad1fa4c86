//! The figures of a run in words.

use crate::scene::{CAPACITY, END, Line, TRIGGER, World};

/// Below this share of the calls before the standstill, the server does not work.
const WORKS: f64 = 0.5;
/// A share below this one is not worth a word.
const FEW: f64 = 0.005;

/// Returns what happened to a client, beside calls without retries.
pub(crate) fn sentence(world: World, line: &Line, alone: &Line) -> String {
    let count = requests(line);
    let verb = if count == "1.0" { "request reaches" } else { "requests reach" };
    let mut said = vec![format!(
        "{count} {verb} the server for each call that users make, and {} of the calls succeed.",
        percent(line.success)
    )];
    if line.refused >= FEW {
        said.push(format!("The breaker refuses {} of them.", percent(line.refused)));
    }
    if f64::from(world.users) > CAPACITY {
        said.push(format!("More calls come than the {CAPACITY} a second that the server can do."));
    }
    if world.standstill > 0 && line.before < WORKS {
        let before = percent(line.before);
        said.push(format!("Even before the standstill only {before} of the calls succeed."));
    } else if world.standstill > 0 {
        said.push(recovery(world, line));
    }
    let alone_succeeds = percent(alone.success);
    let (line_ends, alone_ends) = (recovers(world, line), recovers(world, alone));
    said.push(match alone_ends {
        Some(0) => {
            format!("Without retries {alone_succeeds} succeed, and the server recovers at once.")
        }
        Some(seconds) => format!(
            "Without retries {alone_succeeds} succeed, and the server recovers after {seconds} s."
        ),
        None if line_ends.is_some() => {
            format!("Without retries {alone_succeeds} succeed, and the server does not recover.")
        }
        None => format!("Without retries {alone_succeeds} succeed."),
    });
    said.join(" ")
}

/// Returns the seconds until a server recovers that worked before.
fn recovers(world: World, line: &Line) -> Option<usize> {
    line.recovery.filter(|_| world.standstill > 0 && line.before >= WORKS)
}

fn recovery(world: World, line: &Line) -> String {
    match line.recovery {
        Some(0) => "The server recovers at once.".to_owned(),
        Some(seconds) => format!("The server recovers after {seconds} s."),
        None => {
            let left = END - TRIGGER - world.standstill as usize;
            format!(
                "The server does not recover in the {left} s after its standstill, although the \
                 cause is gone."
            )
        }
    }
}

/// Returns the requests for each call.
fn requests(line: &Line) -> String {
    match line.requests {
        few if few < 0.1 => format!("{few:.2}"),
        some => format!("{some:.1}"),
    }
}

/// Returns a share in percent. Neither nothing nor everything is rounded to.
fn percent(share: f64) -> String {
    match 100.0 * share {
        some if some > 0.0 && some < 1.0 => format!("{:.1} %", (10.0 * some).ceil() / 10.0),
        some if some > 99.0 && some < 100.0 => format!("{:.1} %", (10.0 * some).floor() / 10.0),
        some => format!("{some:.0} %"),
    }
}

/// Returns the cells of the row of a client: its requests for each call, its successes and its
/// recovery.
pub(crate) fn cells(world: World, line: &Line) -> [String; 3] {
    let recovery = match line.recovery {
        _ if world.standstill == 0 => "–".to_owned(),
        _ if line.before < WORKS => "was down before".to_owned(),
        Some(seconds) => format!("{seconds} s"),
        None => "never".to_owned(),
    };
    [requests(line), percent(line.success), recovery]
}
