//! Published claims about retries, run as models: seeded, in virtual time, and driven by the crate's own types.
//!
//! The models and what is to hold of them are those of the example `storm`, which also plots them. `cargo test` runs
//! fewer seeds or shorter runs; the claims in full are `cargo test --release --test claims -- --ignored`, and
//! `--nocapture` shows what was measured.

#[path = "../../examples/storm/claims/mod.rs"]
#[allow(dead_code, reason = "what is there for the plots alone")]
mod claims;
mod verdicts;

use claims::{Check, Size, Verdict};

/// Every row is within its printed tolerance; or its outcome holds, where a row says that its figure differs.
fn all_hold(checks: &[Check]) {
    println!("{}", Check::header());
    for check in checks {
        println!("{check}");
        let widest = check.to_string().lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(Check::WIDTH), "too wide to be read:\n{check}");
    }
    let fails = |check: &&Check| check.verdict() == Verdict::Fails;
    let failed: Vec<_> = checks.iter().filter(fails).map(Check::to_string).collect();
    assert!(failed.is_empty(), "\n{}", failed.join("\n"));
}

/// A claim's tests: reduced, and in full.
macro_rules! claim {
    ($reduced:ident, $full:ident, |$size:ident| $checks:expr) => {
        #[test]
        fn $reduced() {
            let $size = Size::Quick;
            all_hold(&$checks);
        }

        #[test]
        #[ignore = "the claim in full"]
        fn $full() {
            let $size = Size::Full;
            all_hold(&$checks);
        }
    };
}

/// Who hears of the progress of a model: nobody.
const UNSEEN: claims::Progress<'static> = &|_| {};

claim!(jitter_spares_a_contended_row, jitter_spares_a_contended_row_in_full, |size| {
    claims::jitter::checks(&claims::jitter::measure(size, UNSEEN), size)
});
claim!(jitter_spreads_at_the_cap, jitter_spreads_at_the_cap_in_full, |size| {
    claims::cap::checks(&claims::cap::measure(size, UNSEEN))
});
claim!(
    a_bucket_keeps_what_retries_are_good_for,
    a_bucket_keeps_what_retries_are_good_for_in_full,
    |size| { claims::bucket::checks(&claims::bucket::measure(size, UNSEEN), size) }
);
claim!(a_budget_ends_a_collapse, a_budget_ends_a_collapse_in_full, |size| {
    claims::collapse::checks(&claims::collapse::measure(size, UNSEEN), size)
});
claim!(what_ends_a_retry_storm, what_ends_a_retry_storm_in_full, |size| {
    claims::storm::checks(&claims::storm::measure(size, UNSEEN), size)
});
claim!(hedges_cut_the_tail, hedges_cut_the_tail_in_full, |size| {
    claims::hedge::checks(&claims::hedge::measure(size, UNSEEN), size)
});
claim!(arithmetic_is_exact, arithmetic_is_exact_in_full, |size| claims::exact::checks(size));
claim!(a_cooldown_spares_the_provider, a_cooldown_spares_the_provider_in_full, |size| {
    claims::fleet::checks(&claims::fleet::measure(size, UNSEEN), size)
});
