//! `resile::chaos`: faults follow the configured rates and repeat with the seed.

use std::future::ready;
use std::io;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use proptest::prelude::*;
use resile::ResilienceExt;
use resile::chaos::{Chaos, NoErrors};
use resile::time::ManualTimer;
use resile::timeout::Elapsed;

use super::script::clock;

const SECOND: Duration = Duration::from_secs(1);

/// Every setting fits into a `static`.
static CHAOS: Chaos<fn() -> io::Error> = Chaos::new(7).with_hangs(0.1).with_errors(0.5, refused);

fn refused() -> io::Error {
    io::ErrorKind::ConnectionRefused.into()
}

/// Returns the end of a call that would succeed at once: its outcome, a panic or a hang, after a
/// delay if there is one.
fn outcome_of<F: Fn() -> u8>(chaos: &Chaos<F>) -> String {
    let timer = ManualTimer::new();
    let mut call = Box::pin(ready(Ok::<u8, u8>(0)).chaos(chaos).on(clock(&timer)));
    let mut poll = || {
        let polled = std::panic::AssertUnwindSafe(|| {
            call.as_mut().poll(&mut Context::from_waker(Waker::noop()))
        });
        std::panic::catch_unwind(polled)
    };
    let mut text = String::new();
    let mut polled = poll();
    if let Some(delay) = timer.until_next() {
        text = format!("{delay:?} then ");
        timer.advance(delay);
        polled = poll();
    }
    match polled {
        Err(_) => text + "panic",
        Ok(Poll::Pending) => text + "hang",
        Ok(Poll::Ready(outcome)) => text + &format!("{outcome:?}"),
    }
}

const fn all_kinds(seed: u64) -> Chaos<fn() -> u8> {
    const ERROR: fn() -> u8 = || 9;
    Chaos::new(seed).with_errors(0.2, ERROR).with_hangs(0.2).with_panics(0.1).with_latency(
        0.3,
        Duration::from_millis(5),
        SECOND,
    )
}

#[test]
fn the_same_seed_gives_the_same_faults() {
    let row = |seed| {
        let chaos = all_kinds(seed);
        let first: Vec<_> = (0..60).map(|_| outcome_of(&chaos)).collect();
        chaos.reset();
        let again: Vec<_> = (0..60).map(|_| outcome_of(&chaos)).collect();
        assert_eq!((&first, chaos.calls()), (&again, 60));
        first
    };
    assert_eq!(row(1), row(1));
    assert_ne!(row(1), row(2));
}

/// The first outputs of `SplitMix64` from seed 1234567 are published. The first draw for an error
/// is 6457827717110365317 / 2^64 = 0.350…
#[test]
fn the_draws_equal_the_published_outputs_of_splitmix64() {
    let errs = |rate| outcome_of(&Chaos::new(1_234_567).with_errors(rate, || 9)) == "Err(9)";
    assert!(errs(0.351) && !errs(0.350));
}

#[test]
fn faults_occur_at_the_configured_rates() {
    let chaos = all_kinds(3);
    let all: Vec<_> = (0..4000).map(|_| outcome_of(&chaos)).collect();
    let share = |kind: &str| {
        let met = all.iter().filter(|text| text.contains(kind)).count();
        u32::try_from(met).map(f64::from).unwrap() / 4000.0
    };
    for (kind, rate) in
        [("Err(9)", 0.2), ("hang", 0.2), ("panic", 0.1), ("then", 0.3), ("Ok(0)", 0.5)]
    {
        assert!((share(kind) - rate).abs() < 0.03, "{kind}: {}", share(kind));
    }
}

#[test]
fn nothing_is_drawn_before_the_first_poll() {
    let chaos = all_kinds(1);
    drop(ready(Ok::<u8, u8>(0)).chaos(&chaos));
    assert_eq!(chaos.calls(), 0);
}

#[tokio::test(start_paused = true)]
async fn adapters_around_chaos_handle_its_faults() {
    let mut met = [0; 3];
    for _ in 0..200 {
        match ready(Ok::<_, anyhow::Error>(())).chaos(&chaos_of_anyhow()).timeout(SECOND).await {
            Ok(()) => met[0] += 1,
            Err(error) if error.is::<Elapsed>() => met[1] += 1,
            Err(_) => met[2] += 1,
        }
    }
    assert!(
        met.iter().filter(|met| **met > 0).count() == 1,
        "a new `Chaos` draws the same fault each time: {met:?}"
    );
    let mut kinds = [0; 2];
    for _ in 0..200 {
        match tokio::time::timeout(SECOND, ready(Ok(())).chaos(&CHAOS)).await {
            Ok(outcome) => kinds[usize::from(outcome.is_err())] += 1,
            Err(_hung) => {}
        }
    }
    assert!(kinds[0] > 50 && kinds[1] > 70 && kinds[0] + kinds[1] < 195, "{kinds:?}");
}

fn chaos_of_anyhow() -> Chaos<fn() -> anyhow::Error> {
    const ERROR: fn() -> anyhow::Error = || anyhow::anyhow!("injected");
    Chaos::new(5).with_errors(0.5, ERROR)
}

/// A call may be dropped during its latency and during its hang.
#[test]
fn a_call_dropped_at_any_await_leaves_no_sleeper() {
    let timer = ManualTimer::new();
    let chaos = Chaos::new(0).with_hangs(1.0).with_latency(1.0, SECOND, SECOND);
    for polls in 0..3 {
        let mut call = Box::pin(ready(Ok::<u8, u8>(0)).chaos(&chaos).on(clock(&timer)));
        for _ in 0..polls {
            assert!(call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            timer.advance(SECOND);
        }
        drop(call);
        assert_eq!(timer.sleepers(), 0);
    }
    assert_eq!(chaos.calls(), 2);
}

proptest! {
    #[test]
    fn no_setting_panics(seed: u64, rates: [f64; 3], shortest: Duration, longest: Duration) {
        let [hangs, errors, latency] = rates;
        let chaos = Chaos::new(seed).with_errors(errors, || 9).with_hangs(hangs).with_latency(latency, shortest, longest);
        for _ in 0..5 {
            let text = outcome_of(&chaos);
            prop_assert!(!text.ends_with("panic"));
            prop_assert!(hangs > 0.0 || !text.ends_with("hang"));
            prop_assert!(errors > 0.0 || !text.ends_with("Err(9)"));
            prop_assert!(hangs < 1.0 || text.ends_with("hang"));
        }
    }
}

#[test]
fn without_an_error_function_no_errors_occur() {
    let chaos: Chaos<NoErrors> = Chaos::new(0);
    let call = std::pin::pin!(ready(Ok::<u8, io::Error>(1)).chaos(&chaos));
    let polled = call.poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(polled, Poll::Ready(Ok(1))));
}
