//! Published claims about retries and quotas, run as seeded models in virtual time with the crate's
//! own types.
//!
//! The models and their checks belong to the library `storm`, whose program also plots them.
//! `cargo test` runs fewer seeds or shorter runs. The full claims run in the folder `lab` with
//! `cargo test --release --test claims -- --ignored`. The option `--nocapture` prints the measured
//! values.

mod verdicts;

use storm::catalogue::CLAIMS;
use storm::claims::{self, Check, Size, Verdict};

/// A reader learns from each claim what it shows and what to do. No two claims say the same.
#[test]
fn each_claim_says_what_it_shows_and_what_to_do() {
    let mut seen = std::collections::BTreeSet::new();
    for claim in &CLAIMS {
        for text in [claim.shows, claim.advice] {
            assert!((4..=60).contains(&text.split(' ').count()), "{}: {text}", claim.name);
            assert!(text.ends_with('.') && seen.insert(text), "{}: {text}", claim.name);
        }
    }
}

/// Checks that every row is within its printed tolerance. A row whose figure differs must still
/// have its outcome.
fn all_hold(checks: &[Check]) {
    println!("{}", Check::header());
    for check in checks {
        println!("{check}");
        let widest = check.to_string().lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(Check::WIDTH), "the row is too wide:\n{check}");
    }
    let fails = |check: &&Check| check.verdict() == Verdict::Fails;
    let failed: Vec<_> = checks.iter().filter(fails).map(Check::to_string).collect();
    assert!(failed.is_empty(), "\n{}", failed.join("\n"));
}

/// Makes the two tests of a claim: a reduced one and a full one.
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

/// A progress callback that does nothing.
const NO_PROGRESS: claims::Progress<'static> = &|_| {};

claim!(
    jitter_reduces_conflicts_on_a_contended_row,
    jitter_reduces_conflicts_on_a_contended_row_in_full,
    |size| { claims::jitter::checks(&claims::jitter::measure(size, NO_PROGRESS), size) }
);
claim!(jitter_spreads_at_the_cap, jitter_spreads_at_the_cap_in_full, |size| {
    claims::cap::checks(&claims::cap::measure(size, NO_PROGRESS))
});
claim!(
    a_token_bucket_keeps_the_benefit_of_retries,
    a_token_bucket_keeps_the_benefit_of_retries_in_full,
    |size| { claims::bucket::checks(&claims::bucket::measure(size, NO_PROGRESS), size) }
);
claim!(a_budget_ends_a_collapse, a_budget_ends_a_collapse_in_full, |size| {
    claims::collapse::checks(&claims::collapse::measure(size, NO_PROGRESS), size)
});
claim!(a_retry_storm_ends_as_published, a_retry_storm_ends_as_published_in_full, |size| {
    claims::storm::checks(&claims::storm::measure(size, NO_PROGRESS), size)
});
claim!(hedges_cut_the_tail, hedges_cut_the_tail_in_full, |size| {
    claims::hedge::checks(&claims::hedge::measure(size, NO_PROGRESS), size)
});
claim!(arithmetic_is_exact, arithmetic_is_exact_in_full, |size| claims::exact::checks(size));
claim!(a_cooldown_spares_the_provider, a_cooldown_spares_the_provider_in_full, |size| {
    claims::fleet::checks(&claims::fleet::measure(size, NO_PROGRESS), size)
});
claim!(
    a_quota_uses_the_limit_without_refusals,
    a_quota_uses_the_limit_without_refusals_in_full,
    |size| { claims::quota::checks(&claims::quota::measure(size, NO_PROGRESS), size) }
);
#[test]
fn a_maximum_of_output_admits_more_calls() {
    all_hold(&claims::bedrock::checks());
}
claim!(progress_first_lets_agents_finish, progress_first_lets_agents_finish_in_full, |size| {
    claims::priority::checks(&claims::priority::measure(size, NO_PROGRESS))
});
claim!(a_limit_is_learned, a_limit_is_learned_in_full, |size| {
    claims::limit::checks(&claims::limit::measure(size, NO_PROGRESS), size)
});
claim!(
    a_learned_limit_follows_what_changes,
    a_learned_limit_follows_what_changes_in_full,
    |size| { claims::moving::checks(&claims::moving::measure(size, NO_PROGRESS)) }
);
claim!(many_clients_learn_their_shares, many_clients_learn_their_shares_in_full, |size| {
    claims::crowd::checks(&claims::crowd::measure(size, NO_PROGRESS), size)
});
claim!(a_hint_freezes_no_limit, a_hint_freezes_no_limit_in_full, |size| {
    claims::freeze::checks(&claims::freeze::measure(size, NO_PROGRESS))
});
claim!(a_learned_limit_prevents_a_collapse, a_learned_limit_prevents_a_collapse_in_full, |size| {
    claims::ramp::checks(&claims::ramp::measure(size, NO_PROGRESS), size)
});
claim!(a_throttle_follows_its_law, a_throttle_follows_its_law_in_full, |size| {
    claims::throttle::checks(&claims::throttle::measure(size, NO_PROGRESS))
});
claim!(a_priority_outlives_a_spike, a_priority_outlives_a_spike_in_full, |size| {
    claims::partition::checks(&claims::partition::measure(size, NO_PROGRESS))
});
claim!(pairs_of_parts_recover, pairs_of_parts_recover_in_full, |size| {
    claims::pairs::checks(&claims::pairs::measure(size, NO_PROGRESS))
});
claim!(groups_share_a_quota_equally, groups_share_a_quota_equally_in_full, |size| {
    claims::neighbour::checks(claims::neighbour::measure(size, NO_PROGRESS), size)
});
