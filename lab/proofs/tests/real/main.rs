//! The walk with known inputs gives what the compiled sources give. So the walk reads Rust as the
//! compiler does, and what it proves is about the code that runs.

#![allow(unexpected_cfgs, reason = "the sources have features that this package has not")]

use std::collections::BTreeMap;

use proofs::law::Givens;
use proofs::machine::{Machine, walk};
use proofs::source::Source;
use proofs::term::Term;
use proofs::value::{Kind, Value};
use proptest::prelude::*;

#[allow(
    dead_code,
    unused_imports,
    unreachable_pub,
    reason = "only a part of each file is run here"
)]
mod quota;
#[allow(
    dead_code,
    unused_imports,
    unreachable_pub,
    reason = "only a part of each file is run here"
)]
mod time;

#[allow(dead_code, reason = "the sources name it so")]
mod sync {
    pub(crate) use std::sync::atomic::AtomicU64;
}

use quota::Step;
use quota::rate::Rate;

thread_local! {
    // Read once: the parsed sources stay with their thread.
    static QUOTA: Source = Source::read(QUOTA_FILES);
    static BUDGET: Source = Source::read(&["budget/prices.rs", "budget/budget.rs"]);
    static NANOS: Source = Source::read(&["time/nanos.rs"]);
}

const QUOTA_FILES: &[&str] =
    &["quota/bucket.rs", "quota/lease.rs", "quota/rate.rs", "time/nanos.rs"];

/// Runs along the only path that known inputs have.
fn run<R>(source: &Source, given: &Givens<'_>, part: impl Fn(&mut Machine<'_>) -> R) -> R {
    let mut paths = walk(source, given, part);
    assert_eq!(paths.len(), 1, "known inputs leave nothing open");
    let path = paths.remove(0);
    for claim in path.claims {
        assert_eq!(claim.claim, Term::Bool(true), "{}", claim.text);
    }
    path.result
}

const fn number(number: u64) -> Value {
    Value::u64(Term::Int(number as i128))
}

const fn small(number: u32) -> Value {
    Value::u32(Term::Int(number as i128))
}

/// The bucket of the walk. Its word stays from step to step.
struct Walked {
    bucket: Value,
}

impl Walked {
    fn new(count: u32, burst: u32, period: u64) -> Self {
        let rate = Rate::new(count.into(), std::time::Duration::from_nanos(period))
            .with_burst(burst.into());
        let per_unit =
            if count == 0 { 1 << 61 } else { period.div_ceil(count.into()).clamp(1, 1 << 61) };
        let burst_time = per_unit.saturating_mul(rate.burst().into()).min(1 << 61);
        let of =
            Value::record("Rate", [("burst", small(rate.burst())), ("per_unit", number(per_unit))]);
        let lease = [
            ("end", Value::atomic(Term::Int(0))),
            ("low", Value::atomic(Term::Int(u64::MAX.into()))),
            ("told", Value::atomic(Term::Int(u64::MAX.into()))),
            ("resumes_at", Value::atomic(Term::Int(0))),
        ];
        let fields = [
            ("rate", of),
            ("burst_time", number(burst_time)),
            ("full_at", Value::atomic(Term::Int(0))),
            ("lease", Value::record("Lease", lease)),
            ("pace", Value::record("Pace", [])),
        ];
        Self { bucket: Value::record("Bucket", fields) }
    }

    fn run(&self, source: &Source, step: Step, now: u64) -> i128 {
        let is_on = |_: &mut Machine<'_>, _: &[Value]| Value::Truth(Term::Bool(false));
        let when = |_: &mut Machine<'_>, args: &[Value]| args[1].clone();
        let mut given: Givens<'_> = BTreeMap::new();
        given.insert("Pace::is_on", &is_on);
        given.insert("Pace::when", &when);
        let bucket = || self.bucket.clone();
        let said = run(source, &given, |it| match step {
            Step::Take(units) => it.call("Bucket::take", &[bucket(), small(units), number(now)]),
            Step::GiveBack(units) => it.call("Bucket::give_back", &[bucket(), small(units)]),
            Step::Change(from, to) => {
                it.call("Bucket::change", &[bucket(), number(from), number(to), number(now)])
            }
            Step::LowerTo(units) => {
                let units = Value::Number(Term::Int(units.into()), Kind::I64);
                it.call("Bucket::lower_to", &[bucket(), units, number(now)])
            }
            Step::FitsAt(units) => {
                it.call("Bucket::fits_at", &[bucket(), number(units), number(now)])
            }
        });
        match said {
            Value::Variant(name, _) if name == "Refused" => 0,
            Value::Variant(name, _) if name == "Taken" => 1,
            Value::Variant(_, _) => 2,
            Value::Unit => 0,
            number => match number.term() {
                Term::Int(number) => number,
                other => panic!("{other} is not known"),
            },
        }
    }
}

fn steps() -> impl Strategy<Value = Vec<(Step, u64)>> {
    let few = 0..20_u32;
    let step = prop_oneof![
        5 => few.clone().prop_map(Step::Take),
        1 => any::<u32>().prop_map(Step::Take),
        2 => few.prop_map(Step::GiveBack),
        2 => (0..20_u64, 0..20_u64).prop_map(|(from, to)| Step::Change(from, to)),
        1 => (any::<u64>(), any::<u64>()).prop_map(|(from, to)| Step::Change(from, to)),
        2 => (-20..20_i64).prop_map(Step::LowerTo),
        1 => any::<i64>().prop_map(Step::LowerTo),
        3 => (0..20_u64).prop_map(Step::FitsAt),
        1 => any::<u64>().prop_map(Step::FitsAt),
    ];
    let now = prop_oneof![8 => 0..100_u64, 1 => any::<u64>()];
    prop::collection::vec((step, now), 1..12)
}

proptest! {
    #[test]
    fn a_walked_bucket_is_the_compiled_one(
        count in prop_oneof![0..10_u32, any::<u32>()],
        burst in prop_oneof![0..10_u32, any::<u32>()],
        period in prop_oneof![1..100_u64, any::<u64>()],
        steps in steps(),
    ) {
        let source = QUOTA.with(Source::clone);
        let rate = Rate::new(count.into(), std::time::Duration::from_nanos(period)).with_burst(burst.into());
        let (compiled, walked) = (quota::Bucket::new(rate), Walked::new(count, burst, period));
        for (step, now) in steps {
            let said = quota::run(&compiled, step, now);
            prop_assert_eq!(walked.run(&source, step, now), said, "{:?} at {}", step, now);
        }
    }

    #[test]
    fn a_walked_budget_is_the_compiled_one(
        capacity in 0..20_u32,
        // Sixteenths, so that a deposit is exact in both.
        deposit in 0..40_u32,
        steps in prop::collection::vec(0..3_u8, 1..40),
    ) {
        let source = BUDGET.with(Source::clone);
        let compiled =
            resile::Budget::new().with_capacity(capacity).with_deposit(f64::from(deposit) / 16.0);
        let (token, capacity) = (1_000_000_u64, u64::from(capacity) * 1_000_000);
        let prices = [
            ("failed", number(token)),
            ("throttled", number(token)),
            ("deposit", number(u64::from(deposit) * token / 16)),
            ("counts_failures", Value::Truth(Term::Bool(false))),
            ("refunds", Value::Truth(Term::Bool(false))),
        ];
        let left = Value::atomic(Term::Int(capacity.into()));
        let walked = Value::record("Budget", [
            ("left", left.clone()),
            ("capacity", number(capacity)),
            ("ceiling", Value::atomic(Term::Int(capacity.into()))),
            ("usable", Value::atomic(Term::Int(capacity.into()))),
            ("earned", Value::atomic(Term::Int(0))),
            ("low", Value::atomic(Term::Int(0))),
            ("prices", Value::record("Prices", prices)),
            ("signal", Value::record("Signal", [])),
        ]);
        let hint = |_: &mut Machine<'_>, _: &[Value]| Value::Unit;
        let mut given: Givens<'_> = BTreeMap::new();
        given.insert("Signal::hint", &hint);
        for step in steps {
            let name = ["Budget::withdraw", "Budget::refund", "Budget::deposit"][usize::from(step)];
            let said = run(&source, &given, |it| it.call(name, std::slice::from_ref(&walked)));
            match step {
                0 => prop_assert_eq!(said.term(), Term::Bool(compiled.withdraw())),
                1 => compiled.refund(),
                _ => compiled.deposit(),
            }
            let whole = left.term().quotient(Term::Int(token.into()));
            prop_assert_eq!(whole, Term::Int(compiled.available().into()));
        }
    }

    #[test]
    fn walked_nanoseconds_are_the_compiled_ones(secs in any::<u64>(), part in 0..1_000_000_000_u32) {
        let source = NANOS.with(Source::clone);
        let whole = i128::from(secs) * 1_000_000_000 + i128::from(part);
        let duration = Value::Number(Term::Int(whole), Kind::Duration);
        let walked = run(&source, &Givens::new(), |it| it.call("nanos", std::slice::from_ref(&duration)));
        let compiled = time::nanos(std::time::Duration::new(secs, part));
        prop_assert_eq!(walked.term(), Term::Int(compiled.into()));
    }
}
