//! A real Redis or Valkey server of the test, on a loopback port of its own.
//!
//! Integration tests and, with `#[path]`, unit tests include this file. It needs the standard
//! library only.

#![allow(dead_code, reason = "each test uses some of it")]

use std::cell::Cell;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::thread;
use std::time::{Duration, Instant};
use std::{env, process};

/// The time for a server to start.
const START: Duration = Duration::from_secs(20);
/// The time for one answer during the start.
const ANSWER: Duration = Duration::from_secs(1);
/// The pause between two questions during the start.
const PAUSE: Duration = Duration::from_millis(5);
/// Another process may take a port between the search and the start.
const PORTS: u32 = 10;

/// A running server, which ends with this value.
#[derive(Debug)]
pub(crate) struct Server {
    binary: PathBuf,
    folder: PathBuf,
    args: Vec<String>,
    port: u16,
    child: Child,
    turn: Option<Turn>,
}

/// A test that needs the whole machine runs alone. The others mostly wait.
static TURN: RwLock<()> = RwLock::new(());

thread_local! {
    /// The number of servers of this test.
    static SERVERS: Cell<u32> = const { Cell::new(0) };
}

/// The turn of a test. Its second server has it already.
#[derive(Debug)]
struct Turn {
    _beside: Option<RwLockReadGuard<'static, ()>>,
    _alone: Option<RwLockWriteGuard<'static, ()>>,
}

impl Turn {
    fn take(is_alone: bool) -> Self {
        let is_first = SERVERS.replace(SERVERS.get() + 1) == 0;
        let beside = || TURN.read().unwrap_or_else(PoisonError::into_inner);
        let alone = || TURN.write().unwrap_or_else(PoisonError::into_inner);
        Self {
            _beside: (is_first && !is_alone).then(beside),
            _alone: (is_first && is_alone).then(alone),
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        SERVERS.set(SERVERS.get() - 1);
    }
}

impl Server {
    /// Starts an empty server with further arguments. Returns `None` if there is no server to start.
    ///
    /// # Panics
    ///
    /// Panics if the server does not start, and without a server if `CI` is `true`.
    pub(crate) fn start(args: &[&str]) -> Option<Self> {
        Self::start_in(args, false)
    }

    /// Starts an empty server for a test that runs alone, because it needs the whole machine.
    pub(crate) fn start_alone() -> Option<Self> {
        Self::start_in(&[], true)
    }

    fn start_in(args: &[&str], is_alone: bool) -> Option<Self> {
        let binary = binary()?;
        let mut turn = Some(Turn::take(is_alone));
        let folder = new_folder();
        let args: Vec<String> = args.iter().map(ToString::to_string).collect();
        for _ in 0..PORTS {
            let port = free_port();
            let child = spawn(&binary, &folder, port, &args);
            let mut server = Self {
                binary: binary.clone(),
                folder: folder.clone(),
                args: args.clone(),
                port,
                child,
                turn: None,
            };
            if server.is_up() {
                server.turn = turn.take();
                return Some(server);
            }
        }
        let log = fs::read_to_string(folder.join("log")).unwrap_or_default();
        panic!("{} did not start on {PORTS} ports: {log}", binary.display());
    }

    /// Returns the port on 127.0.0.1.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Returns the address for a client without credentials.
    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// Kills the server at once. Its data is lost.
    pub(crate) fn kill(&mut self) {
        // An error says that the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Kills the server if it runs, and starts an empty one on the same port.
    ///
    /// # Panics
    ///
    /// Panics if the server does not start.
    pub(crate) fn restart(&mut self) {
        self.kill();
        let began = Instant::now();
        // Another process may hold the port for a moment.
        while began.elapsed() < START {
            self.child = spawn(&self.binary, &self.folder, self.port, &self.args);
            if self.is_up() {
                return;
            }
            thread::sleep(PAUSE);
        }
        panic!("the server did not start again on port {}", self.port);
    }

    /// Stops the process without closing its connections. It answers nothing until
    /// [`cont_signal`](Self::cont_signal).
    pub(crate) fn stop_signal(&self) {
        self.signal("-STOP");
    }

    /// Lets a stopped process continue.
    pub(crate) fn cont_signal(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let status = Command::new("kill").args([name, &pid]).status();
        assert!(status.is_ok_and(|status| status.success()), "`kill {name} {pid}` failed");
    }

    /// Waits until the server answers. Returns false if its process ended instead, or if another
    /// process answers on its port. The process that did not start is then gone.
    fn is_up(&mut self) -> bool {
        let began = Instant::now();
        while began.elapsed() < START {
            if let Ok(Some(_)) = self.child.try_wait() {
                return false;
            }
            match ask(self.port, "PING") {
                // A server with a password says no more.
                Ok(answer) if answer.starts_with("-NOAUTH") => return true,
                Ok(answer) if answer.starts_with("+PONG") => {
                    let line = format!("process_id:{}\r\n", self.child.id());
                    if ask(self.port, "INFO server").is_ok_and(|info| info.contains(&line)) {
                        return true;
                    }
                }
                _ => {}
            }
            thread::sleep(PAUSE);
        }
        self.kill();
        false
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Returns the program of a server. `None` if there is none.
///
/// # Panics
///
/// Panics without a server if `CI` is `true`.
pub(crate) fn binary() -> Option<PathBuf> {
    let binary = find(&["redis-server", "valkey-server"]);
    if binary.is_none() {
        eprintln!("!!! SKIPPED: this test needs `redis-server` or `valkey-server` in PATH");
        assert!(env::var("CI").as_deref() != Ok("true"), "CI needs a server for this test");
    }
    binary
}

fn find(names: &[&str]) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let folders: Vec<PathBuf> = env::split_paths(&path).collect();
    let files = names.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    files.into_iter().find(|file| file.is_file())
}

pub(crate) fn new_folder() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = format!("resile-redis-{}-{}", process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let folder = env::temp_dir().join(name);
    fs::create_dir_all(&folder).unwrap();
    folder
}

pub(crate) fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

/// Starts the process. Its messages are in the file `log` of its folder.
fn spawn(binary: &Path, folder: &Path, port: u16, args: &[String]) -> Child {
    fs::create_dir_all(folder).unwrap();
    let log = File::create(folder.join("log")).unwrap();
    let mut command = Command::new(binary);
    command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""]);
    command.args(["--appendonly", "no", "--dir"].map(OsStr::new)).arg(folder).args(args);
    command.stdin(Stdio::null()).stderr(log.try_clone().unwrap()).stdout(log);
    command.spawn().unwrap()
}

/// Sends one command in the form for terminals and returns the beginning of the answer.
pub(crate) fn ask(port: u16, command: &str) -> io::Result<String> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut stream = TcpStream::connect_timeout(&address, ANSWER)?;
    stream.set_read_timeout(Some(ANSWER))?;
    stream.set_write_timeout(Some(ANSWER))?;
    stream.write_all(format!("{command}\r\nQUIT\r\n").as_bytes())?;
    let mut answer = Vec::new();
    stream.take(64 * 1024).read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
