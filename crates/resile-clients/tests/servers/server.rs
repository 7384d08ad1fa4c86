//! A real server of a test, on a loopback port of its own. It ends with the test, also on a panic.

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};
use std::{env, fmt, thread};

/// The time for a server to start.
const START: Duration = Duration::from_secs(45);
/// The time for a server to end after a signal. It is killed then.
const END: Duration = Duration::from_secs(20);
/// The pause between two questions during the start.
const PAUSE: Duration = Duration::from_millis(10);
/// Another process may take a port between the search and the start.
const PORTS: u32 = 5;

/// A kind of server with its settings.
pub trait Kind: fmt::Debug {
    /// Fills the empty folder before the first start.
    fn prepare(&self, _place: &Place) {}

    /// Returns the command that starts the server in the foreground.
    fn command(&self, place: &Place) -> Command;

    /// Returns whether the server of this folder answers. It may be another process on that port.
    fn is_up(&self, place: &Place) -> bool;

    /// Returns the signal that ends the server at once, when its test has ended.
    fn last_signal(&self) -> &'static str {
        "KILL"
    }
}

/// The folder and the port of a server.
#[derive(Debug)]
pub struct Place {
    /// An absolute path. The folder is gone after the test.
    pub folder: PathBuf,
    /// A port on 127.0.0.1.
    pub port: u16,
}

impl Place {
    /// Creates an empty folder and finds a port.
    ///
    /// # Panics
    ///
    /// Panics if the folder for temporary files takes no folder.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "it makes a folder")]
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = env::temp_dir().join(format!("resile-server-{}-{number}", process::id()));
        fs::create_dir_all(&folder).unwrap();
        Self { folder, port: free_port() }
    }

    /// Returns the path of a file in the folder.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Returns what the process has printed since its last start.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read(self.path("log")).map_or_else(
            |_| String::new(), // not started yet
            |bytes| String::from_utf8_lossy(&bytes).into_owned(),
        )
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A running server.
#[derive(Debug)]
pub struct Server<K: Kind> {
    kind: K,
    child: Child,
    place: Place,
}

impl<K: Kind> Server<K> {
    /// Starts a server in an empty folder.
    ///
    /// # Panics
    ///
    /// Panics with the log if the server does not start.
    pub fn start(kind: K) -> Self {
        let place = Place::new();
        kind.prepare(&place);
        let child = spawn(&kind, &place);
        let mut server = Self { kind, child, place };
        for _ in 1..PORTS {
            if server.is_up() {
                return server;
            }
            server.place.port = free_port();
            server.child = spawn(&server.kind, &server.place);
        }
        assert!(server.is_up(), "{:?} did not start: {}", server.kind, server.place.log());
        server
    }

    /// Returns the kind, as it was given.
    #[must_use]
    pub fn kind(&self) -> &K {
        &self.kind
    }

    /// Returns the folder and the port.
    #[must_use]
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Returns the port on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.place.port
    }

    /// Kills the process and waits for its end.
    pub fn kill(&mut self) {
        // An error says that the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Sends a signal, such as `STOP`, `CONT` or `TERM`.
    ///
    /// # Panics
    ///
    /// Panics if the process is gone.
    pub fn signal(&self, name: &str) {
        let pid = self.child.id();
        assert!(send(name, pid), "no process {pid} for the signal {name}");
    }

    /// Sends a signal and waits for the end of the process. After some seconds it is killed.
    pub fn end(&mut self, signal: &str) {
        send(signal, self.child.id());
        send("CONT", self.child.id()); // it may be stopped
        let began = Instant::now();
        while began.elapsed() < END && matches!(self.child.try_wait(), Ok(None)) {
            thread::sleep(PAUSE);
        }
        self.kill();
    }

    /// Starts the server again in its folder and on its port. Kills it first if it runs.
    ///
    /// # Panics
    ///
    /// Panics with the log if the server does not start.
    pub fn restart(&mut self) {
        self.kill();
        let began = Instant::now();
        // Another process may hold the port for a moment.
        while began.elapsed() < START {
            self.child = spawn(&self.kind, &self.place);
            if self.is_up() {
                return;
            }
        }
        panic!("{:?} did not start again: {}", self.kind, self.place.log());
    }

    /// Waits until the server answers. Returns false if its process ended instead.
    fn is_up(&mut self) -> bool {
        let began = Instant::now();
        while began.elapsed() < START {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return false;
            }
            if self.kind.is_up(&self.place) {
                return true;
            }
            thread::sleep(PAUSE);
        }
        panic!("{:?} did not answer in {START:?}: {}", self.kind, self.place.log());
    }
}

impl<K: Kind> Drop for Server<K> {
    fn drop(&mut self) {
        self.end(self.kind.last_signal());
    }
}

/// A server that several tests use side by side. It ends with the last test that holds it.
#[derive(Debug)]
pub struct Shared<K: Kind>(Mutex<Weak<Server<K>>>);

impl<K: Kind> Shared<K> {
    /// Creates a place for a server. Nothing is started.
    #[must_use]
    pub const fn new() -> Self {
        Self(Mutex::new(Weak::new()))
    }

    /// Returns the running server, or starts it.
    ///
    /// # Panics
    ///
    /// Panics as [`Server::start`] does.
    pub fn get(&self, kind: impl FnOnce() -> K) -> Arc<Server<K>> {
        let mut shared = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let server = Arc::new(Server::start(kind()));
            *shared = Arc::downgrade(&server);
            server
        })
    }
}

impl<K: Kind> Default for Shared<K> {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns the path of a program. The folders are those beyond `PATH` in which distributions have it.
///
/// # Panics
///
/// Panics without the program, and says which package has it.
#[must_use]
pub fn program(name: &str, folders: &[&str], package: &str) -> PathBuf {
    let path = env::var_os("PATH").unwrap_or_default();
    let further = folders.iter().map(PathBuf::from);
    further
        .chain(env::split_paths(&path))
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
        .unwrap_or_else(|| panic!("this test needs `{name}`: apt-get install {package}"))
}

/// Returns a command that runs a program as a user, if this process is that of root. Some servers refuse
/// to run as root.
#[must_use]
pub fn command_as(user: &str, program: &Path) -> Command {
    if !is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid", user, "--regid", user, "--clear-groups", "--"]).arg(program);
    command
}

/// Gives a folder with its files to a user, if this process is that of root.
///
/// # Panics
///
/// Panics without that user.
pub fn give_to(user: &str, folder: &Path) {
    if is_root() {
        run(Command::new("chown").args(["-R", user]).arg(folder));
    }
}

/// Runs a command to its end.
///
/// # Panics
///
/// Panics with what it printed if it fails.
pub fn run(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().unwrap_or_else(|error| {
        panic!("{command:?}: {error}");
    });
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}: {text}", output.status);
}

fn is_root() -> bool {
    let output = Command::new("id").arg("-u").output();
    output.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

fn send(signal: &str, pid: u32) -> bool {
    let kill = Command::new("kill").args(["-s", signal, &pid.to_string()]).output();
    kill.is_ok_and(|output| output.status.success())
}

fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

/// Starts the process. Its messages are in the file `log` of its folder.
fn spawn(kind: &impl Kind, place: &Place) -> Child {
    let log = File::create(place.path("log")).unwrap();
    let mut command = kind.command(place);
    command.stdin(Stdio::null()).stderr(log.try_clone().unwrap()).stdout(log);
    command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}
