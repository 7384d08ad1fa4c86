//! Instructions per call, counted by callgrind. They are the same on a busy machine.
//!
//! One run of this program under valgrind makes a few and then many calls with every contender. At
//! each [`boundary`] callgrind writes the count since the last one. The difference of two counts is
//! that of the calls alone.

use std::collections::HashMap;
use std::hint::black_box;
use std::path::Path;
use std::process::{Command, Stdio};

use super::{all, run, runtime};
use crate::contender::Contender;
use crate::rows::Clock;

const FEW: u64 = 200;
const MANY: u64 = 1200;

/// Marks a point in the run: callgrind dumps before each entry into this function.
#[inline(never)]
fn boundary(mark: u64) {
    black_box(mark);
}

/// Makes the calls, in the order of [`instructions`].
pub fn counted(wanted: &str) {
    each(wanted, |contender, clock, runtime| {
        run(contender, 64, clock, runtime);
        boundary(0);
        run(contender, FEW, clock, runtime);
        boundary(1);
        run(contender, MANY, clock, runtime);
        boundary(2);
    });
}

fn each(wanted: &str, mut visit: impl FnMut(&Contender, Clock, &tokio::runtime::Runtime)) {
    for paused in [false, true] {
        let runtime = runtime(paused);
        for row in all(&runtime, paused, wanted).iter().filter(|row| row.threads == 1) {
            let _inside = (row.clock != Clock::Moving).then(|| runtime.enter());
            for contender in &row.contenders {
                visit(contender, row.clock, &runtime);
            }
        }
    }
}

/// Returns the instructions per call by row and contender, or the reason for their absence.
pub fn instructions(wanted: &str) -> Result<HashMap<(String, &'static str), f64>, String> {
    let dir = std::env::temp_dir().join(format!("rivals-{}", std::process::id()));
    std::fs::create_dir_all(&dir).map_err(|e| e.to_string())?;
    let counts = under_callgrind(wanted, &dir);
    let _ = std::fs::remove_dir_all(&dir);
    let mut counts = counts?.into_iter();
    let mut found = HashMap::new();
    for paused in [false, true] {
        let runtime = runtime(paused);
        for row in all(&runtime, paused, wanted).iter().filter(|row| row.threads == 1) {
            for contender in &row.contenders {
                let [_, few, many] = [counts.next(), counts.next(), counts.next()];
                let (Some(few), Some(many)) = (few, many) else {
                    return Err("callgrind wrote too few parts".into());
                };
                #[allow(clippy::cast_precision_loss)]
                found.insert(
                    (row.title.clone(), contender.name),
                    (many - few) as f64 / (MANY - FEW) as f64,
                );
            }
        }
    }
    Ok(found)
}

/// Returns the counts between the boundaries, in order.
fn under_callgrind(wanted: &str, dir: &Path) -> Result<Vec<i64>, String> {
    let this = std::env::current_exe().map_err(|e| e.to_string())?;
    let status = Command::new("valgrind")
        .args(["--tool=callgrind", "--dump-before=*measure*ir*boundary*", "--quiet"])
        .arg(format!("--callgrind-out-file={}", dir.join("out").display()))
        .arg(this)
        .args(["calls", wanted])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    match status {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            return Err("valgrind is not installed".to_owned());
        }
        Err(e) => return Err(e.to_string()),
        Ok(status) if !status.success() => return Err(format!("valgrind: {status}")),
        Ok(_) => (),
    }
    let mut counts = Vec::new();
    for part in 1.. {
        let Ok(text) = std::fs::read_to_string(dir.join(format!("out.{part}"))) else { break };
        let total = text
            .lines()
            .find_map(|line| line.strip_prefix("summary: ").or(line.strip_prefix("totals: ")));
        counts.push(
            total.and_then(|total| total.trim().parse().ok()).ok_or("a part without a total")?,
        );
    }
    Ok(counts)
}
