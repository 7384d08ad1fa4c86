//! The cost of building a small program with each crate, and of one more call in it.

use std::env::consts::EXE_SUFFIX;
use std::fmt::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Instant;

struct Program {
    name: &'static str,
    dependencies: &'static str,
    /// The items that all calls of the program share.
    items: &'static str,
    /// The future that is awaited. Its output is dropped.
    call: &'static str,
}

const PROGRAMS: &[Program] = &[
    Program { name: "tokio alone", dependencies: "", items: "", call: "op()" },
    Program {
        name: "**resile**",
        dependencies: "resile = { path = \"@\" }",
        items: "",
        call: "resile::retry(|_| op(), &resile::RetryPolicy::new(), resile::Never)",
    },
    Program {
        name: "**resile**, on an upstream with a budget and a breaker",
        dependencies: "resile = { path = \"@\" }",
        items: "static ONE: resile::Upstream = resile::Upstream::new(\"one\")\
                .with_budget(resile::Budget::new()).with_breaker(resile::Breaker::new());",
        call: "resile::retry(|_| op(), resile::RetryPolicy::new(), resile::Never).on(&ONE)",
    },
    Program {
        name: "**resile**, its breaker",
        dependencies: "resile = { path = \"@\" }",
        items: "",
        call: "async { resile::Upstream::new(\"one\").with_breaker(resile::Breaker::new()).try_admit().map(|it| it.succeeded()) }",
    },
    Program {
        name: "backon",
        dependencies: "backon = { version = \"=1.6.0\", default-features = false, features = [\"std\", \"tokio-sleep\"] }",
        items: "",
        call: "backon::Retryable::retry(op, backon::ExponentialBuilder::default())",
    },
    Program {
        name: "tokio-retry2",
        dependencies: "tokio-retry2 = { version = \"=0.9.1\", features = [\"jitter\"] }",
        items: "",
        call: "tokio_retry2::Retry::spawn(tokio_retry2::strategy::FixedInterval::from_millis(10).take(3), \
               || async { op().await.map_err(tokio_retry2::RetryError::transient) })",
    },
    Program {
        name: "tower, `retry`",
        dependencies: "tower = { version = \"=0.5.3\", features = [\"retry\", \"util\"] }",
        items: "",
        call: "tower::ServiceExt::oneshot(tower::service_fn(|()| op()), ())",
    },
    Program {
        name: "tower-resilience-retry",
        dependencies: "tower-resilience-retry = \"=0.14.0\"\ntower = { version = \"=0.5.3\", features = [\"util\"] }",
        items: "",
        call: "tower::ServiceExt::oneshot(tower::Layer::layer(\
               &tower_resilience_retry::RetryLayer::<(), u64, std::io::Error>::builder().build(), tower::service_fn(|()| op())), ())",
    },
    Program {
        name: "tower-resilience-circuitbreaker",
        dependencies: "tower-resilience-circuitbreaker = \"=0.14.0\"\ntower = { version = \"=0.5.3\", features = [\"util\"] }",
        items: "",
        call: "tower::ServiceExt::oneshot(tower::Layer::layer(\
               &tower_resilience_circuitbreaker::CircuitBreakerLayer::builder().build().unwrap(), tower::service_fn(|()| op())), ())",
    },
    Program {
        name: "seatbelt, `retry` and `breaker`",
        dependencies: "seatbelt = { version = \"=0.11.0\", features = [\"retry\", \"breaker\"] }\n\
                       layered = \"=0.3.8\"\ntick = { version = \"=0.8.0\", features = [\"tokio\"] }",
        items: "",
        call: "async { use layered::{Execute, Service, Stack}; \
               let context = seatbelt::ResilienceContext::new(&tick::Clock::new_tokio()); \
               let stack = (seatbelt::retry::Retry::layer(\"r\", &context).clone_input()\
               .recovery_with(|_: &std::io::Result<u64>, _| seatbelt::RecoveryInfo::never()), Execute::new(|()| op())); \
               stack.into_service().execute(()).await }",
    },
    Program {
        name: "google-cloud-gax",
        dependencies: "google-cloud-gax = \"=1.15.0\"",
        items: "",
        call: "async { google_cloud_gax::exponential_backoff::ExponentialBackoff::default() }",
    },
    Program {
        name: "failsafe",
        dependencies: "failsafe = \"=1.3.0\"",
        items: "",
        call: "failsafe::futures::CircuitBreaker::call(&failsafe::Config::new().build(), op())",
    },
    Program {
        name: "recloser",
        dependencies: "recloser = \"=1.4.0\"",
        items: "",
        call: "recloser::AsyncRecloser::from(recloser::Recloser::custom().build()).call(op())",
    },
];

/// The calls of the small program, and of the program that shows the cost of a further call.
const CALLS: [usize; 2] = [1, 41];
/// The builds of each of the two programs. The shortest counts.
const BUILDS: usize = 3;
const PROFILES: [&[&str]; 2] = [&["build", "--offline"], &["build", "--offline", "--release"]];

/// Returns a table with a line for each program: the number of crates besides the program, a build
/// from nothing in both profiles, and what a further call adds to the program.
pub fn table() -> Result<String, String> {
    let mut text = String::from(
        "| | crates | debug build, s | release build, s | a further call: debug, ms | release, ms | release, bytes |\n\
         |---|--:|--:|--:|--:|--:|--:|\n",
    );
    let base = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = base.join("target/builds");
    for program in PROGRAMS {
        let dir = root.join("program");
        let _ = std::fs::remove_dir_all(&dir);
        write(&dir, program, CALLS[0], base).map_err(|e| format!("{}: {e}", dir.display()))?;
        cargo(&dir, &["fetch"])?;
        let tree =
            cargo(&dir, &["tree", "--edges", "normal,build", "--prefix", "none", "--offline"])?;
        let mut crates: Vec<_> =
            tree.lines().skip(1).map(|line| line.trim_end_matches(" (*)")).collect();
        crates.sort_unstable();
        crates.dedup();
        let _ = write!(text, "| {} | {} |", program.name, crates.len());
        for profile in PROFILES {
            let _ = write!(text, " {:.1} |", timed(&dir, profile)?);
        }
        let [debug, release, bytes] = further_call(&dir, program, base)?;
        let _ = writeln!(text, " {debug:.1} | {release:.1} | {bytes:.0} |");
    }
    let _ = std::fs::remove_dir_all(&root);
    Ok(text)
}

/// Returns what one more call costs a program whose dependencies are built: the time of a debug and
/// of a release build in milliseconds, and the bytes in the stripped release program.
fn further_call(dir: &Path, program: &Program, base: &Path) -> Result<[f64; 3], String> {
    let mut ends = [[0.0; 3]; 2];
    for (calls, end) in CALLS.into_iter().zip(&mut ends) {
        let [debug, release, bytes] = end;
        *debug = f64::INFINITY;
        *release = f64::INFINITY;
        for _ in 0..BUILDS {
            // A file written anew is compiled anew.
            write(dir, program, calls, base).map_err(|e| format!("{}: {e}", dir.display()))?;
            *debug = debug.min(timed(dir, PROFILES[0])?);
            *release = release.min(timed(dir, PROFILES[1])?);
        }
        let built = dir.join("target/release").join(format!("program{EXE_SUFFIX}"));
        let size = built.metadata().map_err(|e| format!("{}: {e}", built.display()))?.len();
        #[expect(clippy::cast_precision_loss, reason = "a program has fewer than 2^52 bytes")]
        let size = size as f64;
        *bytes = size;
    }
    let [few, many] = ends;
    #[expect(clippy::cast_precision_loss, reason = "a handful of calls")]
    let more = (CALLS[1] - CALLS[0]) as f64;
    let each = |at: usize| (many[at] - few[at]).max(0.0) / more;
    Ok([each(0) * 1e3, each(1) * 1e3, each(2)])
}

/// Writes a program with `calls` calls. The state of each operation has a size of its own: otherwise
/// the compiler merges the calls. Each call is a boxed future, so that it is not compiled twice.
fn write(dir: &Path, program: &Program, calls: usize, base: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(dir.join("src"))?;
    let own = base.join("../..").canonicalize()?;
    let manifest = format!(
        "[package]\nname = \"program\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n\n[profile.release]\nstrip = true\n\n\
         [dependencies]\ntokio = {{ version = \"=1.54.1\", features = [\"rt\", \"time\"] }}\n{}\n",
        program.dependencies.replace('@', &own.to_string_lossy()),
    );
    std::fs::write(dir.join("Cargo.toml"), manifest)?;
    let mut source = format!(
        "use std::future::Future;\nuse std::hint::black_box;\nuse std::pin::Pin;\n\n{}\n",
        program.items
    );
    for call in 0..calls {
        let _ = writeln!(
            source,
            "fn call_{call}() -> Pin<Box<dyn Future<Output = ()>>> {{\n    \
             async fn op() -> std::io::Result<u64> {{\n        \
             let state = [1_u8; {}];\n        \
             tokio::task::yield_now().await;\n        \
             Ok(black_box(&state)[0].into())\n    }}\n    \
             Box::pin(async {{ let _ = {}.await; }})\n}}\n",
            32 + 8 * call,
            program.call
        );
    }
    source.push_str(
        "\nfn main() {\n    \
         let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();\n    \
         runtime.block_on(async {\n",
    );
    for call in 0..calls {
        let _ = writeln!(source, "        call_{call}().await;");
    }
    source.push_str("    });\n}\n");
    std::fs::write(dir.join("src/main.rs"), source)
}

fn timed(dir: &Path, arguments: &[&str]) -> Result<f64, String> {
    let began = Instant::now();
    cargo(dir, arguments)?;
    Ok(began.elapsed().as_secs_f64())
}

fn cargo(dir: &Path, arguments: &[&str]) -> Result<String, String> {
    let mut command = Command::new("cargo");
    command
        .args(arguments)
        .current_dir(dir)
        .env("CARGO_TARGET_DIR", dir.join("target"))
        .env("CARGO_INCREMENTAL", "0")
        .stdin(Stdio::null());
    let Output { status, stdout, stderr } = command.output().map_err(|e| e.to_string())?;
    if status.success() {
        return Ok(String::from_utf8_lossy(&stdout).into_owned());
    }
    Err(format!("cargo {}: {}", arguments.join(" "), String::from_utf8_lossy(&stderr)))
}
