//! Budgets: the deposit of a success.

// A deposit returns `()` at once.
#![allow(clippy::unit_arg)]

use std::future::ready;
use std::hint::black_box;
use std::sync::LazyLock;

use resile::Budget;
use tower::retry::budget::Budget as _;

use super::{Clock, Row};
use crate::contender;
use crate::contender::Contender;
use crate::hand::HandBudget;
use crate::rival::{gax, tower as towers, tower_resilience};

static FULL: Budget = Budget::new();
/// Lacks a million tokens and gains a millionth each time, so no run fills it.
static FILLING: LazyLock<Budget> = LazyLock::new(|| {
    let budget = Budget::new().with_capacity(2_000_000).with_deposit(0.000_001);
    (0..1_000_000).for_each(|_| assert!(budget.withdraw()));
    budget
});
static BY_HAND: HandBudget = HandBudget::new(100, 1, 10);
static BY_HAND_FILLING: HandBudget = HandBudget::filling(u64::MAX, 1, 10);

pub fn real() -> Vec<Row> {
    let mut rows = Vec::new();
    for threads in [1, 2] {
        let s = if threads == 1 { "" } else { "s" };
        rows.push(Row {
            threads,
            ..Row::new(
                format!("deposit into a full budget, {threads} thread{s}"),
                Clock::Real,
                full(),
            )
        });
        let title = format!("deposit into a budget that is not full, {threads} thread{s}");
        rows.push(Row { threads, ..Row::new(title, Clock::Real, filling()) });
    }
    rows
}

fn full() -> Vec<Contender> {
    let (tps, bucket, throttler) = (towers::budget(), tower_resilience::budget(), gax::throttler());
    vec![
        contender!(0, "an atomic", [] => ready(black_box(&BY_HAND).deposit())),
        contender!(0, "**resile**", [] => ready(black_box(&FULL).deposit())),
        contender!(0, "tower, `TpsBudget`, never full", [let budget = tps.clone();] => ready(black_box(&budget).deposit())),
        contender!(0, "tower-resilience, token bucket", [let budget = bucket.clone();] => {
            ready(black_box(&budget).deposit())
        }),
        contender!(0, "google-cloud-gax, `CircuitBreaker` throttler", [let budget = throttler.clone();] => {
            ready(black_box(&budget).lock().expect("no panic").on_success())
        }),
    ]
}

fn filling() -> Vec<Contender> {
    LazyLock::force(&FILLING);
    let (tps, bucket, throttler) =
        (towers::budget(), tower_resilience::filling_budget(), gax::filling_throttler());
    vec![
        contender!(0, "an atomic", [] => ready(black_box(&BY_HAND_FILLING).deposit())),
        contender!(0, "**resile**", [let budget = &*FILLING;] => ready(black_box(budget).deposit())),
        contender!(0, "tower, `TpsBudget`", [let budget = tps.clone();] => ready(black_box(&budget).deposit())),
        contender!(0, "tower-resilience, token bucket", [let budget = bucket.clone();] => {
            ready(black_box(&budget).deposit())
        }),
        contender!(0, "google-cloud-gax, `CircuitBreaker` throttler", [let budget = throttler.clone();] => {
            ready(black_box(&budget).lock().expect("no panic").on_success())
        }),
    ]
}
