//! The stable words of logs and metrics, and the texts for people that are made of them.

use std::error::Error;
use std::time::Duration;

use resile::breaker::TripReason;
use resile::observe::HeldBy;
use resile::quota::{Cost, Dimension, Quota, Rate};
use resile::{Health, StopReason};

#[test]
fn a_dimension_has_its_word() {
    let words = Dimension::ALL.map(Dimension::as_str);
    assert_eq!(words, ["requests", "input", "output", "tokens"]);
}

#[test]
fn a_refused_reservation_says_how_long_to_wait() {
    let now = Duration::from_secs(1);
    let rate = Rate::per_minute(60).with_burst(2);
    let quota = Quota::new().with_requests(rate).with_concurrency(1);
    let mut first = quota.try_reserve(Cost::new(), now).unwrap();
    let full = quota.try_reserve(Cost::new(), now).unwrap_err();
    assert_eq!(full.to_string(), "quota used up: wait for another call to end");
    first.sent();
    drop(first);
    let mut second = quota.try_reserve(Cost::new(), now).unwrap();
    second.sent();
    drop(second);
    let empty = quota.try_reserve(Cost::new(), now).unwrap_err();
    assert_eq!(empty.to_string(), "quota used up: try again in 1.0s");
    assert!(empty.source().is_none());
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
