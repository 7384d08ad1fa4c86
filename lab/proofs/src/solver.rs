use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::term::Term;

/// The answer to the question whether some inputs make all terms true.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    No,
    /// Yes: these inputs do.
    Yes(String),
    /// The solver gave up.
    Unknown,
}

/// A running z3.
pub struct Solver {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    pub asked: u32,
}

/// A function of one number, of which a law knows only what it assumes.
pub const TIME_OF: &str = "time_of";

/// The last line of each answer.
const END: &str = "end of the answer";

/// The time for one question, in milliseconds.
const LIMIT: u32 = 20_000;

impl Solver {
    pub fn new() -> std::io::Result<Self> {
        let mut child = Command::new("z3")
            .arg("-in")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let input = child.stdin.take().expect("z3 has an input");
        let output = BufReader::new(child.stdout.take().expect("z3 has an output"));
        let mut solver = Self { child, input, output, asked: 0 };
        writeln!(solver.input, "(set-option :timeout {LIMIT})")?;
        writeln!(solver.input, "(declare-fun {TIME_OF} (Int) Int)")?;
        Ok(solver)
    }

    /// Asks whether all terms can be true at once. All unknowns are whole numbers.
    pub fn ask(&mut self, terms: &[Term]) -> Answer {
        self.asked += 1;
        if terms.contains(&Term::Bool(false)) {
            return Answer::No;
        }
        let mut unknowns = BTreeSet::new();
        for term in terms {
            term.each_unknown(&mut |name| {
                unknowns.insert(name.to_owned());
            });
        }
        let mut question = String::from("(push)\n");
        for name in &unknowns {
            let _ = writeln!(question, "(declare-const {name} Int)");
        }
        for term in terms {
            let _ = writeln!(question, "(assert {term})");
        }
        question.push_str("(check-sat)\n");
        let answer = self.say(&question);
        let answer = match &*answer {
            "unsat" => Answer::No,
            "sat" => {
                let values = unknowns.iter().fold(String::new(), |mut values, name| {
                    let value = self.say(&format!("(eval {name})\n"));
                    let value = value.strip_prefix("(- ").map_or_else(
                        || value.clone(),
                        |value| format!("-{}", value.trim_end_matches(')')),
                    );
                    let _ = write!(
                        values,
                        "{}{name} = {value}",
                        if values.is_empty() { "" } else { ", " }
                    );
                    values
                });
                Answer::Yes(values)
            }
            _ => Answer::Unknown,
        };
        self.input.write_all(b"(pop)\n").expect("z3 reads");
        answer
    }

    /// Returns the first line of the answer. z3 may add others, such as the reason of a failure.
    fn say(&mut self, question: &str) -> String {
        let question = format!("{question}(echo \"{END}\")\n");
        self.input.write_all(question.as_bytes()).expect("z3 reads");
        self.input.flush().expect("z3 reads");
        let mut first = None;
        loop {
            let mut line = String::new();
            self.output.read_line(&mut line).expect("z3 answers");
            match line.trim() {
                END => return first.unwrap_or_default(),
                "" if line.is_empty() => panic!("z3 has ended"),
                line => first = first.or_else(|| Some(line.to_owned())),
            }
        }
    }
}

impl Drop for Solver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
