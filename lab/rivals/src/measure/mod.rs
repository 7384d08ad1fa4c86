//! The numbers of one row.

mod figure;
mod ir;
mod windows;

pub use figure::{Line, Table};
pub use ir::counted;

use tokio::runtime::Runtime;

use crate::contender::{Contender, spin};
use crate::job;
use crate::rows::{self, Clock, Row};

/// Creates a runtime with a running or a paused clock.
pub fn runtime(paused: bool) -> Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().start_paused(paused).build().expect("a runtime")
}

const PASSES: usize = 9;

/// Measures all rows of one kind of clock.
pub fn tables(paused: bool, wanted: &str) -> Vec<Table> {
    let runtime = runtime(paused);
    let rows = all(&runtime, paused, wanted);
    let mut tables: Vec<_> = rows.iter().map(|row| check(row, &runtime)).collect();
    for _ in 0..PASSES {
        for (row, table) in rows.iter().zip(&mut tables) {
            windows::pass(row, table, &runtime);
        }
    }
    tables
}

/// Returns the rows of one kind of clock whose titles contain `wanted`.
pub fn all(runtime: &Runtime, paused: bool, wanted: &str) -> Vec<Row> {
    let _inside = runtime.enter();
    let rows = if paused { rows::paused() } else { rows::real() };
    rows.into_iter().filter(|row| row.title.contains(wanted)).collect()
}

/// Makes a number of calls by a contender, polled as the row wants it.
pub fn run(contender: &Contender, calls: u64, clock: Clock, runtime: &Runtime) -> u64 {
    let calls = (contender.calls)(calls);
    if clock == Clock::Moving { runtime.block_on(calls) } else { spin(calls) }
}

/// Checks that each contender gives the same answer in the same number of attempts. Takes
/// allocations and sizes besides.
fn check(row: &Row, runtime: &Runtime) -> Table {
    let _inside = (row.clock != Clock::Moving).then(|| runtime.enter());
    let mut lines = Vec::new();
    for contender in &row.contenders {
        job::reset();
        let sum = run(contender, 64, row.clock, runtime);
        let reported = format!("{}: {}", row.title, contender.name);
        assert_eq!(sum, 64 * contender.answer, "the answer of {reported}");
        assert_eq!(job::attempts(), 64 * contender.attempts, "the attempts of {reported}");
        // The block of all calls is one box.
        let few =
            allocation_counter::measure(|| _ = run(contender, 64, row.clock, runtime)).count_total;
        let many =
            allocation_counter::measure(|| _ = run(contender, 320, row.clock, runtime)).count_total;
        #[allow(clippy::cast_precision_loss)]
        let allocations = many.saturating_sub(few) as f64 / 256.0;
        lines.push(Line::new(contender, allocations));
    }
    Table { title: row.title.clone(), lines }
}

/// Measures everything: times, allocations, sizes, and instructions if valgrind is there.
pub fn numbers(wanted: &str) -> Vec<Table> {
    // After a pause of its clock each reading is slower, so the paused rows come last.
    let mut tables = tables(false, wanted);
    tables.extend(self::tables(true, wanted));
    match ir::instructions(wanted) {
        Ok(counts) => {
            for table in &mut tables {
                for line in &mut table.lines {
                    line.instructions = counts.get(&(table.title.clone(), line.name)).copied();
                }
            }
        }
        Err(why) => eprintln!("no instructions: {why}"),
    }
    tables
}
