//! The stable words of logs and metrics, and the texts for people that are made of them.

use resile::breaker::TripReason;
use resile::observe::HeldBy;
use resile::quota::Dimension;
use resile::{Health, StopReason};

#[test]
fn a_dimension_has_its_word() {
    let words = Dimension::ALL.map(Dimension::as_str);
    assert_eq!(words, ["requests", "input", "output", "tokens"]);
}

#[test]
fn the_words_of_other_enums_are_stable() {
    assert_eq!(HeldBy::Quota.as_str(), "quota");
    assert_eq!(HeldBy::Bulkhead.as_str(), "bulkhead");
    assert_eq!(HeldBy::Cooldown.as_str(), "cooldown");
    assert_eq!(Health::Throttling.to_string(), "throttling");
    assert_eq!(StopReason::TooLarge.as_str(), "too_large");
    assert_eq!(TripReason::SlowRate.as_str(), "slow_rate");
}
