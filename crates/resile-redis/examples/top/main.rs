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
use std::time::Duration;

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
        Err(error) => wrong_with(ERROR, &error.to_string()),
    }
}

fn print(options: &Options) -> redis::RedisResult<()> {
    let mut connection =
        redis::Client::open(&*options.url)?.get_connection_with_timeout(TIMEOUT)?;
    connection.set_read_timeout(Some(TIMEOUT))?;
    loop {
        let view = View::read(&mut connection, &options.prefix)?;
        if options.watches {
            say("\x1b[2J\x1b[H"); // an empty screen
        }
        if !say(&table::of(&view)) || !options.watches {
            return Ok(());
        }
        sleep(Duration::from_secs(1));
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
