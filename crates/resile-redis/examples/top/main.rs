//! Prints the members of a fleet, with their leases, levels, claims and holds. Run it with:
//!
//! ```text
//! cargo run -p resile-redis --example top -- redis://127.0.0.1:6379 [prefix] [--watch]
//! ```
//!
//! It only reads: `SCAN`, `TIME`, `ZRANGE`, `HGETALL`, `GET`. A node of a cluster shows the upstreams
//! of its slots.

mod cli;
mod table;
mod view;

use std::io::Write as _;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant};

use cli::Options;
use view::View;

const USAGE: u8 = 2;
const ERROR: u8 = 3;
const TIMEOUT: Duration = Duration::from_secs(2);

fn main() -> ExitCode {
    let options = match Options::read(std::env::args_os().skip(1)) {
        Ok(options) => options,
        Err(wrong) => return wrong_with(USAGE, &wrong),
    };
    if options.helps {
        say(cli::HELP);
        return ExitCode::SUCCESS;
    }
    match print(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(wrong) => wrong_with(ERROR, &wrong),
    }
}

/// Prints the view, again and again if that is asked for.
///
/// # Errors
///
/// Returns the error in one line with the address of the server.
fn print(options: &Options) -> Result<(), String> {
    let client = redis::Client::open(&*options.url).map_err(|error| error.to_string())?;
    let server = cli::server(&options.url, &client.get_connection_info().addr().to_string());
    let mut since = Instant::now();
    let wrong = |error: redis::RedisError, since: Instant| {
        if error.is_timeout() {
            format!("no answer of {server} within {:.1?}", since.elapsed())
        } else {
            format!("{server}: {error}")
        }
    };
    let mut connection =
        client.get_connection_with_timeout(TIMEOUT).map_err(|error| wrong(error, since))?;
    connection.set_read_timeout(Some(TIMEOUT)).map_err(|error| wrong(error, since))?;
    loop {
        let view = View::read(&mut connection, &options.prefix);
        let view = view.map_err(|error| wrong(error, since))?;
        if options.watches {
            say("\x1b[2J\x1b[H"); // an empty screen
        }
        if !say(&table::of(&view)) || !options.watches {
            return Ok(());
        }
        sleep(Duration::from_secs(1));
        since = Instant::now();
    }
}

/// Prints lines. Returns false if nobody reads them, as after `| head -1`.
fn say(lines: &str) -> bool {
    writeln!(std::io::stdout(), "{}", lines.trim_end()).is_ok()
}

fn wrong_with(code: u8, wrong: &str) -> ExitCode {
    eprintln!("top: {wrong}");
    ExitCode::from(code)
}
