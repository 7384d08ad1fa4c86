//! Runs the example as a process.

use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;

use serde_json::Value;

/// Returns the path of the example, built from the current sources in the profile of these tests.
fn path() -> &'static PathBuf {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        let test = std::env::current_exe().unwrap(); // <target>/<profile>/deps/<test>
        let profile = test.ancestors().nth(2).unwrap();
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--quiet", "--example", "agent_loop", "--manifest-path"]);
        build.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"));
        build.arg("--target-dir").arg(profile.parent().unwrap());
        if profile.ends_with("release") {
            build.arg("--release");
        }
        assert!(build.status().unwrap().success());
        profile.join("examples").join(format!("agent_loop{}", std::env::consts::EXE_SUFFIX))
    })
}

/// Returns the example with these arguments and without the environment variables that it reads.
pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(path());
    for (name, _) in std::env::vars_os() {
        if ["OPENAI_", "LLM_"].iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
            command.env_remove(name);
        }
    }
    command.args(arguments).env("NO_PROXY", "127.0.0.1").stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Kills the process when the test ends.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// Returns the events printed with `--json`, one for each line. The last event is the summary.
pub(crate) fn events(output: &Output) -> Vec<Value> {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}
