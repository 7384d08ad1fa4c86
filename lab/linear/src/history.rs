use std::hint;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use resile::time::{ManualTimer, Timer};
use stateright::semantics::{ConsistencyTester, LinearizabilityTester};

use crate::model::Model;
use crate::subject::{Hands, Op, Said, Subject};

/// The threads of a run, and the steps of each.
const THREADS: usize = 3;
const STEPS: usize = 4;

/// A step of a thread, with its place among the beginnings and ends of all steps.
struct Step {
    thread: usize,
    op: Op,
    said: Said,
    began: u32,
    ended: u32,
}

/// What threads did to one subject.
pub(crate) struct History {
    steps: Vec<Step>,
}

impl History {
    /// Lets threads work on a subject, all at once.
    pub(crate) fn record(subject: &Subject, draw: &ManualTimer) -> Self {
        let (clock, ready) = (AtomicU32::new(0), AtomicU32::new(0));
        let seeds: Vec<_> = (0..THREADS).map(|_| draw.draw()).collect();
        let work = |thread: usize, seed: u64| {
            let draw = ManualTimer::with_seed(seed);
            let mut hands = Hands::default();
            let mut steps = Vec::with_capacity(STEPS);
            ready.fetch_add(1, Ordering::SeqCst);
            while ready.load(Ordering::SeqCst) < u32::try_from(THREADS).unwrap_or(0) {
                hint::spin_loop();
            }
            for _ in 0..STEPS {
                let op = subject.next(&hands, &draw);
                (0..draw.draw_within(0..=39)).for_each(|_| hint::spin_loop());
                let began = clock.fetch_add(1, Ordering::SeqCst);
                let said = subject.run(op, &mut hands);
                let ended = clock.fetch_add(1, Ordering::SeqCst);
                steps.push(Step { thread, op, said, began, ended });
            }
            (steps, hands)
        };
        let work = &work;
        let worked: Vec<_> = thread::scope(|scope| {
            let threads: Vec<_> = seeds
                .into_iter()
                .enumerate()
                .map(|(thread, seed)| scope.spawn(move || work(thread, seed)))
                .collect();
            threads.into_iter().map(|thread| thread.join().expect("a thread works")).collect()
        });
        // What the threads still have goes back after the record.
        let (steps, _hands): (Vec<_>, Vec<_>) = worked.into_iter().unzip();
        let steps = steps.into_iter().flatten().collect();
        Self { steps }
    }

    /// Returns whether two steps overlap. Otherwise the history has one order alone.
    pub(crate) fn overlaps(&self) -> bool {
        self.steps.iter().any(|step| step.ended != step.began + 1)
    }

    /// Returns whether some order of single steps explains the history.
    pub(crate) fn is_explained(&self, model: Model) -> bool {
        let mut events: Vec<_> = self
            .steps
            .iter()
            .flat_map(|step| [(step.began, step, true), (step.ended, step, false)])
            .collect();
        events.sort_by_key(|(at, ..)| *at);
        let is_breaker = matches!(model, Model::Breaker(_));
        let mut tester = LinearizabilityTester::new(model);
        for (_, step, begins) in events {
            // A failure on a breaker has two halves, both within its time.
            let parts = match step.op {
                Op::Back if is_breaker => [Some(Op::Count(step.began)), Some(Op::Open(step.began))],
                op => [Some(op), None],
            };
            for (half, op) in parts.into_iter().flatten().enumerate() {
                let thread = step.thread + half * THREADS;
                let taken = if begins {
                    tester.on_invoke(thread, op)
                } else {
                    tester.on_return(thread, step.said)
                };
                taken.expect("a thread makes one step after the other");
            }
        }
        tester.is_consistent()
    }

    /// Prints the steps in the order in which they began.
    pub(crate) fn print(&self) {
        let mut steps: Vec<_> = self.steps.iter().collect();
        steps.sort_by_key(|step| step.began);
        for Step { thread, op, said, began, ended } in steps {
            println!("  thread {thread}, {began:>2} to {ended:>2}: {op:?} -> {said:?}");
        }
    }
}
