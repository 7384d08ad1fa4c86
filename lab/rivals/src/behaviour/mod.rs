//! The behaviour of each crate in the traps: small programs that run one after the other.

mod arithmetic;
mod breaker;
mod budget;
mod cancel;
mod deadline;
mod guard;
mod hedge;
mod hint;
mod jitter;
mod lazy;
mod nested;
mod retrier;
mod section;
mod size;
mod starvation;
mod stream;
mod window;

use section::Section;
use tokio::runtime::Runtime;

use crate::measure::runtime;

/// Returns the tables of all traps, in the order of their numbers.
pub fn table() -> String {
    // Trials that sleep do so on a clock that advances by itself.
    let (still, real) = (runtime(true), runtime(false));
    let on = |runtime: &Runtime, future: std::pin::Pin<Box<dyn Future<Output = Section>>>| {
        runtime.block_on(future)
    };
    let inside = |runtime: &Runtime, run: fn() -> Section| {
        let _inside = runtime.enter();
        run()
    };
    let [moved, cancelled, hung] = real.block_on(breaker::seen());
    let sections = [
        on(&still, Box::pin(jitter::seen())),
        on(&still, Box::pin(hint::seen())),
        on(&still, Box::pin(deadline::seen())),
        inside(&still, cancel::seen),
        on(&still, Box::pin(budget::seen())),
        moved,
        cancelled,
        hung,
        inside(&still, arithmetic::seen),
        on(&real, Box::pin(hedge::seen())),
        on(&real, Box::pin(nested::seen())),
        on(&still, Box::pin(stream::seen())),
        starvation::seen(),
        inside(&real, lazy::seen),
        clocks(),
        on(&real, Box::pin(window::seen())),
        inside(&real, size::seen),
    ];
    sections.iter().map(Section::markdown).collect::<Vec<_>>().join("\n")
}

/// Returns trap 15, which is read in the sources and not run.
fn clocks() -> Section {
    Section {
        title: "15. The wall clock",
        tried: "From the sources: where each reads `SystemTime`.",
        columns: &["reads it"],
        rows: vec![
            ("**resile**", vec!["only for an HTTP-date".to_owned()]),
            (
                "backon, tokio-retry2, tower, tower-resilience, google-cloud-gax, failsafe, recloser",
                vec!["not in the parts compared here".to_owned()],
            ),
            ("seatbelt", vec!["not by itself, but its `Clock` can read it".to_owned()]),
        ],
    }
}
