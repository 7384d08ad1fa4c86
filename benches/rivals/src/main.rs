//! The crate beside others that do the same job; see `COMPARE.md` at the crate's root.

mod contender;
mod hand;
mod job;
mod measure;
mod report;
mod rival;
mod rows;

const HELP: &str = "\
resile-rivals [numbers] [ROW]   times, instructions, allocations and sizes, as Markdown; of the rows that contain ROW
              losses [ROW]      the rows in which another contender is ahead
";

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (command, wanted) = (arguments.next().unwrap_or_default(), arguments.next().unwrap_or_default());
    match command.as_str() {
        "" | "numbers" => numbers(&wanted).iter().for_each(|table| println!("{}", report::table(table))),
        "losses" => print!("{}", report::losses(&numbers(&wanted))),
        "calls" => measure::counted(&wanted),
        _ => print!("{HELP}"),
    }
}

fn numbers(wanted: &str) -> Vec<measure::Table> {
    // A clock that was once paused makes each reading dearer from then on, so those rows come last.
    let mut tables = measure::tables(false, wanted);
    tables.extend(measure::tables(true, wanted));
    match measure::instructions(wanted) {
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
