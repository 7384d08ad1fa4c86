//! The laws of hints, of pushbacks and of labels.

use std::time::Duration;

use proptest::prelude::*;
use resile_clients::Idempotency::{Idempotent, NotIdempotent};
use resile_clients::grpc::{self, Pushback};
use resile_clients::mongodb;
use resile_clients::resile::{Health, Verdict};

use super::rows::{rows, says};

const CODES: std::ops::RangeInclusive<i32> = 1..=16;

/// The row `*+pushback`: an idempotent request is sent again, whatever the code says.
#[test]
fn a_pushback_asks_for_a_retry_after_its_wait() {
    let row = rows().into_iter().find(|row| row.code == "*+pushback").unwrap();
    let wait = Duration::from_millis(30);
    for code in CODES {
        let verdict = grpc::code(code, Pushback::After(wait), Idempotent).unwrap();
        assert_eq!(verdict, Verdict::overloaded().after(wait).idempotent(), "{code}");
        assert_eq!(says(|it| grpc::code(code, Pushback::After(wait), it)), Some(row.says));
    }
}

/// The row `*+stop`.
#[test]
fn a_negative_pushback_ends_the_call() {
    let row = rows().into_iter().find(|row| row.code == "*+stop").unwrap();
    for code in CODES {
        assert_eq!(says(|it| grpc::code(code, Pushback::Stop, it)), Some(row.says), "{code}");
    }
}

#[test]
fn a_success_has_no_verdict() {
    for code in [0, -1, 17] {
        for pushback in [Pushback::None, Pushback::Stop, Pushback::After(Duration::ZERO)] {
            assert_eq!(grpc::code(code, pushback, Idempotent), None);
        }
        assert_eq!(grpc::with_retry_info(code, Duration::ZERO, Idempotent), None);
    }
}

#[test]
fn a_pushback_is_a_number_of_milliseconds() {
    let ms = |ms| Pushback::After(Duration::from_millis(ms));
    assert_eq!(Pushback::read(None), Pushback::None);
    assert_eq!(Pushback::read(Some("0")), ms(0));
    assert_eq!(Pushback::read(Some("250")), ms(250));
    assert_eq!(Pushback::read(Some("2147483647")), ms(2_147_483_647));
    for stop in ["-1", "-2147483648", "2147483648", "", " 1", "1 ", "+1", "1.5", "soon", "0x10"] {
        assert_eq!(Pushback::read(Some(stop)), Pushback::Stop, "{stop:?}");
    }
}

proptest! {
    #[test]
    fn any_pushback_is_read(text in ".{0,12}", number in any::<i64>()) {
        let is_wait = |text: &str| matches!(Pushback::read(Some(text)), Pushback::After(_));
        prop_assert_eq!(is_wait(&number.to_string()), (0..=i64::from(i32::MAX)).contains(&number));
        prop_assert!(!is_wait(&text) || text.bytes().all(|it| it.is_ascii_digit()));
    }

    /// A hint never makes a booking out of a refusal, and it never gets lost on a retry.
    #[test]
    fn retry_info_is_the_hint_of_a_retry(code in CODES, ms in 0_u64..100_000) {
        let wait = Duration::from_millis(ms);
        for idempotency in [Idempotent, NotIdempotent] {
            let verdict = grpc::with_retry_info(code, wait, idempotency).unwrap();
            prop_assert_eq!(verdict.hint(), verdict.is_again().then_some(wait));
            let plain = grpc::code(code, Pushback::None, idempotency).unwrap();
            prop_assert!(verdict.is_again() == plain.is_again() || [8, 10].contains(&code));
        }
    }
}

#[test]
fn labels_count_before_the_code() {
    let of = |labels: &[&str], code| says(|it| mongodb::code(labels, code, it));
    let again = |health, own| Some((true, true, health, own));
    // Nothing was written, so any write may come again. The health is that of the code.
    assert_eq!(of(&["NoWritesPerformed"], Some(91)), again(Health::Failing, false));
    assert_eq!(of(&["NoWritesPerformed"], Some(11000)), again(Health::Healthy, false));
    assert_eq!(of(&["NoWritesPerformed"], None), again(Health::Unknown, false));
    let overloaded = ["TransientTransactionError", "SystemOverloadedError"];
    assert_eq!(of(&overloaded, None), again(Health::Throttling, false));
    assert_eq!(
        of(&["RetryableWriteError"], Some(112)),
        Some((true, false, Health::Failing, false))
    );
    assert_eq!(of(&["HandshakeError"], Some(112)), again(Health::Healthy, false));
    assert_eq!(of(&["HandshakeError"], Some(1)), None);
    assert_eq!(of(&[], None), None);
}
