//! Quotas: a request against a rate that is never used up, on a running clock.

use std::future::ready;
use std::hint::black_box;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use governor::{DefaultDirectRateLimiter, RateLimiter};
use resile::quota::{Cost, Rate, Usage};
use resile::{Never, Quota, Upstream};

use super::{Clock, Row};
use crate::contender;
use crate::contender::Contender;

/// A billion requests a second: no run uses them up.
const RATE: Rate = Rate::per_second(1_000_000_000);
static TOKENS: Upstream = Upstream::new("tokens")
    .with_quota(Quota::new().with_requests(RATE).with_tokens(RATE))
    .with_observer(&());
static UPSTREAM: Upstream =
    Upstream::new("limited").with_quota(Quota::new().with_requests(RATE)).with_observer(&());
static ATOMIC: AtomicU64 = AtomicU64::new(0);

fn governor() -> DefaultDirectRateLimiter {
    let rate = std::num::NonZeroU32::new(1_000_000_000).expect("not zero");
    RateLimiter::direct(governor::Quota::per_second(rate))
}

static GOVERNOR: LazyLock<DefaultDirectRateLimiter> = LazyLock::new(governor);

pub fn real() -> Vec<Row> {
    LazyLock::force(&GOVERNOR);
    let mut rows = Vec::new();
    for threads in [1, 2] {
        let s = if threads == 1 { "" } else { "s" };
        let jobs = [
            ("a request against a rate", check()),
            ("a request against a rate, with a wait if used up", wait()),
            ("reserve and settle requests and tokens", settle()),
        ];
        for (job, contenders) in jobs {
            let title = format!("{job}, {threads} thread{s}");
            rows.push(Row { threads, ..Row::new(title, Clock::Real, contenders) });
        }
    }
    rows
}

fn check() -> Vec<Contender> {
    vec![
        contender!(0, "an atomic", [] => ready(atomic())),
        contender!(0, "**resile**, `Upstream::try_admit`", [] => ready(
            black_box(&UPSTREAM).try_admit().map(|admission| admission.succeeded())
        )),
        contender!(0, "governor, `check`", [] => ready(black_box(&*GOVERNOR).check())),
    ]
}

fn wait() -> Vec<Contender> {
    vec![
        contender!(0, "an atomic", [] => ready(atomic())),
        contender!(0, "**resile**, `Upstream::admit`", [] => async {
            black_box(&UPSTREAM).admit(Never).await.map(|admission| admission.succeeded())
        }),
        contender!(0, "governor, `until_ready`", [] => black_box(&*GOVERNOR).until_ready()),
    ]
}

fn settle() -> Vec<Contender> {
    vec![
        contender!(0, "an atomic", [] => ready(atomic())),
        contender!(0, "**resile**, `try_admit` and `record`", [] => ready({
            let cost = Cost::input(10).with_max_output(5);
            let admission = black_box(&TOKENS).at_cost(cost).try_admit();
            admission.map(|mut admission| {
                admission.record(Usage::new().with_input(10).with_output(3));
                admission.succeeded();
            })
        })),
        contender!(0, "governor, `check_n`", [] => ready(
            black_box(&*GOVERNOR).check_n(std::num::NonZeroU32::MIN)
        ))
        .doing_less(),
    ]
}

fn atomic() -> u64 {
    black_box(&ATOMIC).fetch_add(1, Ordering::AcqRel);
    1
}
