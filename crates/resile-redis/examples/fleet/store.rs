//! The Redis server: one of the example, or one that runs already.

use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, thread};

use anyhow::{Context as _, bail};

/// The names of the servers.
const NAMES: [&str; 2] = ["redis-server", "valkey-server"];
/// The time for a server to start.
const START: Duration = Duration::from_secs(10);
/// Another process may take a port between the search and the start.
const PORTS: u32 = 5;

const MISSING: &str = "\
no `redis-server` and no `valkey-server` in PATH. Install one:
  apt install redis-server
  brew install redis
or give the URL of a running server:
  docker run --rm -p 6379:6379 redis
  cargo run -p resile-redis --example fleet -- --redis redis://127.0.0.1:6379";

/// A server, which ends with this value if the example has started it.
pub(crate) struct Store {
    url: String,
    own: Option<Own>,
    /// The scripts of the servers that were killed.
    scripts_before: u64,
}

/// A server of the example.
struct Own {
    binary: PathBuf,
    port: u16,
    child: Child,
}

impl Store {
    /// Uses a server that runs already.
    ///
    /// # Errors
    ///
    /// Returns an error if no server answers there.
    pub(crate) fn at(url: String) -> anyhow::Result<Self> {
        let store = Self { url, own: None, scripts_before: 0 };
        let answer = store.connection().and_then(|mut connection| {
            redis::cmd("PING").query::<String>(&mut connection).map_err(Into::into)
        });
        // The message of the client may have parts of the URL, but no password.
        answer.context("--redis: no answer")?;
        Ok(store)
    }

    /// Starts a server on a free loopback port.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no server, or if it does not start.
    pub(crate) fn start() -> anyhow::Result<Self> {
        let Some(binary) = find() else { bail!(MISSING) };
        for _ in 0..PORTS {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            let port = listener.local_addr()?.port();
            drop(listener);
            let child = spawn(&binary, port)?;
            let mut own = Own { binary: binary.clone(), port, child };
            if own.is_up() {
                let url = format!("redis://127.0.0.1:{port}/");
                return Ok(Self { url, own: Some(own), scripts_before: 0 });
            }
        }
        bail!("{} did not start", binary.display())
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Returns whether the example has started the server.
    pub(crate) const fn is_ours(&self) -> bool {
        self.own.is_some()
    }

    /// Kills the server at once. Its data is lost. Does nothing to a server of others.
    pub(crate) fn kill(&mut self) {
        self.scripts_before = self.scripts().unwrap_or(0);
        if let Some(own) = &mut self.own {
            own.kill();
        }
    }

    /// Starts the server again on the same port.
    ///
    /// # Errors
    ///
    /// Returns an error if it does not start.
    pub(crate) fn restart(&mut self) -> anyhow::Result<()> {
        if let Some(own) = &mut self.own {
            own.child = spawn(&own.binary, own.port)?;
            if !own.is_up() {
                bail!("{} did not start again", own.binary.display());
            }
        }
        Ok(())
    }

    /// Returns the number of scripts that the server has run. `None` if it does not tell.
    pub(crate) fn scripts(&self) -> Option<u64> {
        let mut connection = self.connection().ok()?;
        let info: String = redis::cmd("INFO").arg("commandstats").query(&mut connection).ok()?;
        let calls = |line: &str| {
            let stats = ["cmdstat_evalsha:calls=", "cmdstat_eval:calls="];
            let rest = stats.iter().find_map(|name| line.strip_prefix(name))?;
            rest.split(',').next()?.parse::<u64>().ok()
        };
        Some(self.scripts_before + info.lines().filter_map(calls).sum::<u64>())
    }

    fn connection(&self) -> anyhow::Result<redis::Connection> {
        let limit = Duration::from_secs(2);
        let client = redis::Client::open(&*self.url);
        // The words of such an error include those of its source.
        let opened = client.and_then(|client| client.get_connection_with_timeout(limit));
        opened.map_err(anyhow::Error::msg)
    }
}

impl Own {
    /// Waits until the server accepts connections. Returns false if its process ended instead.
    fn is_up(&mut self) -> bool {
        let began = Instant::now();
        while began.elapsed() < START {
            if let Ok(Some(_)) = self.child.try_wait() {
                return false;
            }
            if TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_ok() {
                return true;
            }
            thread::sleep(Duration::from_millis(10));
        }
        self.kill();
        false
    }

    fn kill(&mut self) {
        // An error says that the process has ended already.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        self.kill();
    }
}

fn find() -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let folders: Vec<PathBuf> = env::split_paths(&path).collect();
    let files = NAMES.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    files.into_iter().find(|file| file.is_file())
}

/// Starts the process. It writes no file.
fn spawn(binary: &PathBuf, port: u16) -> io::Result<Child> {
    let mut command = Command::new(binary);
    command.args(["--bind", "127.0.0.1", "--port", &port.to_string()]);
    command.args(["--save", "", "--appendonly", "no"]).current_dir(env::temp_dir());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
}
