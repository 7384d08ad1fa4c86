//! The figures of a run in words.

use crate::scene::{CAPACITY, END, Line, TRIGGER, World};

/// Below this share of the calls before the standstill, the server does not work.
const WORKS: f64 = 0.5;
/// A share below this one is not worth a word.
const FEW: f64 = 0.005;

/// Returns the outcome of a client in a few words.
pub(crate) fn outcome(world: World, line: &Line) -> String {
    let succeed = format!("{} of the calls succeed.", percent(line.success));
    if world.standstill == 0 {
        return succeed;
    }
    let server = match line.recovery {
        _ if line.before < WORKS => "does not work even before its standstill".to_owned(),
        Some(0) => "recovers at once".to_owned(),
        Some(seconds) => format!("recovers after {seconds} s"),
        None => "does not recover".to_owned(),
    };
    format!("The server {server}: {succeed}")
}

/// Returns the reasons for the outcome of a client. `alone` is a client without retries beside it.
pub(crate) fn sentence(world: World, line: &Line, alone: Option<&Line>) -> String {
    let count = requests(line);
    let verb = if count == "1.0" { "request reaches" } else { "requests reach" };
    let mut said = vec![format!("{count} {verb} the server for each call that users make.")];
    if line.refused >= FEW {
        said.push(format!("The breaker refuses {} of the calls.", percent(line.refused)));
    }
    if let Some(limit) = line.limit {
        let refuses = match line.full {
            few if few < FEW => String::new(),
            full => format!(" and refuses {} of the calls", percent(full)),
        };
        said.push(format!("The bulkhead ends with a limit of {limit}{refuses}."));
    }
    if f64::from(world.users) > CAPACITY {
        said.push(format!("More calls come than the {CAPACITY} a second that the server can do."));
    }
    let is_down = world.standstill > 0 && line.before >= WORKS && line.recovery.is_none();
    if is_down {
        let left = END - TRIGGER - world.standstill as usize;
        said.push(format!(
            "The standstill is over for {left} s, but the load that it left keeps the server down."
        ));
    }
    if let Some(alone) = alone {
        let succeed = percent(alone.success);
        let server = match recovers(world, alone) {
            Some(0) => ", and the server recovers at once".to_owned(),
            Some(seconds) => format!(", and the server recovers after {seconds} s"),
            None if recovers(world, line).is_some() => {
                ", and the server does not recover".to_owned()
            }
            None => String::new(),
        };
        said.push(format!("Without retries {succeed} succeed{server}."));
    }
    said.join(" ")
}

/// Returns the seconds until a server recovers that worked before.
fn recovers(world: World, line: &Line) -> Option<usize> {
    line.recovery.filter(|_| world.standstill > 0 && line.before >= WORKS)
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
