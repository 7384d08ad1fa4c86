//! `Backoff` and `Jitter`: the bounds of every curve, cap and jitter.
//!
//! Tests named `trap_01_…` stand for point 1 of the section "The behaviour" in `COMPARE.md`.

use std::ops::RangeInclusive;
use std::time::Duration;

use proptest::prelude::*;
use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use resile::{Backoff, Jitter};

const BASE: Duration = Duration::from_secs(1);
const CAP: Duration = Duration::from_secs(30);

/// Every kind of jitter that spreads delays. The proportional shares are wide enough to spread a
/// thousand clients.
const SPREADING: [Jitter; 6] = [
    Jitter::Full,
    Jitter::Equal,
    Jitter::Proportional(0.25),
    Jitter::Proportional(0.5),
    Jitter::Proportional(1.0),
    Jitter::Decorrelated,
];

/// A source of random numbers that must not be used.
pub(crate) fn untouched(_: RangeInclusive<u64>) -> u64 {
    panic!("drawn")
}

/// Returns a source of random numbers with this seed.
pub(crate) fn seeded(seed: u64) -> impl FnMut(RangeInclusive<u64>) -> u64 {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    move |range| rng.random_range(range)
}

pub(crate) fn durations() -> impl Strategy<Value = Duration> {
    prop_oneof![
        Just(Duration::ZERO),
        Just(Duration::from_nanos(1)),
        Just(Duration::MAX),
        (0_u64..100_000_000_000).prop_map(Duration::from_nanos),
        any::<Duration>(),
    ]
}

/// Generates the number of a retry: small, near the maximum, or any.
pub(crate) fn retries() -> impl Strategy<Value = u32> {
    prop_oneof![1_u32..70, u32::MAX - 3..=u32::MAX, 1_u32..=u32::MAX]
}

fn steps() -> impl Strategy<Value = &'static [Duration]> {
    const SOME: &[Duration] =
        &[Duration::from_secs(3), Duration::from_nanos(1), Duration::from_secs(7)];
    prop_oneof![Just(&[][..]), Just(&[Duration::MAX][..]), Just(SOME)]
}

fn customs() -> impl Strategy<Value = fn(u32) -> Duration> {
    prop_oneof![
        Just((|retry| Duration::from_millis(retry.into())) as fn(u32) -> Duration),
        Just((|_| Duration::MAX) as fn(u32) -> Duration),
    ]
}

/// Generates the curves that never shrink.
fn growing() -> impl Strategy<Value = Backoff> {
    let factors =
        prop_oneof![Just(1.0), Just(f64::INFINITY), Just(f64::MAX), Just(f64::NAN), 1.0..10.0_f64];
    prop_oneof![
        Just(Backoff::none()),
        durations().prop_map(Backoff::fixed),
        durations().prop_map(Backoff::linear),
        (durations(), factors)
            .prop_map(|(base, factor)| Backoff::exponential(base).with_factor(factor)),
        durations().prop_map(Backoff::fibonacci),
    ]
}

fn jitters() -> impl Strategy<Value = Jitter> {
    let shares =
        prop_oneof![0.0..=1.0_f64, Just(f64::NAN), Just(-1.0), Just(f64::INFINITY), any::<f64>()];
    prop_oneof![
        Just(Jitter::None),
        Just(Jitter::Full),
        Just(Jitter::Equal),
        shares.prop_map(Jitter::Proportional),
        Just(Jitter::Decorrelated),
    ]
}

pub(crate) fn backoffs() -> impl Strategy<Value = Backoff> {
    let curves = prop_oneof![3 => growing(), 1 => steps().prop_map(Backoff::steps), 1 => customs().prop_map(Backoff::custom)];
    let capped = (curves, prop::option::of(durations()));
    let capped = capped.prop_map(|(backoff, cap)| cap.map_or(backoff, |cap| backoff.with_cap(cap)));
    (capped, jitters()).prop_map(|(backoff, jitter)| backoff.with_jitter(jitter))
}

/// Returns the delay before that retry, without jitter.
pub(crate) fn plain(backoff: Backoff, retry: u32) -> Duration {
    backoff.with_jitter(Jitter::None).delay(retry, Duration::ZERO, untouched)
}

/// The longest delay with jitter.
const LONGEST: Duration = Duration::from_nanos(u64::MAX);

proptest! {
    /// Each delay stays inside the interval of its jitter and below the cap.
    #[test]
    fn delays_keep_their_bounds(
        backoff in backoffs(), jitter in jitters(), cap in durations(),
        retry in retries(), previous in durations(), seed in any::<u64>(),
    ) {
        let backoff = backoff.with_cap(cap).with_jitter(jitter);
        let delay = backoff.delay(retry, previous, seeded(seed));
        let (d, base) = (plain(backoff, retry), plain(backoff, 1).min(LONGEST));
        prop_assert!(delay <= cap, "{delay:?} above the cap");
        prop_assert!(d <= cap);
        let (saturated, cap) = (d.min(LONGEST), cap.min(LONGEST));
        match jitter {
            Jitter::None => prop_assert_eq!(delay, d),
            Jitter::Full => prop_assert!(delay <= saturated),
            Jitter::Equal => prop_assert!((saturated / 2..=saturated).contains(&delay), "{delay:?} of {d:?}"),
            Jitter::Proportional(share) => {
                let share = if share > 0.0 { share.min(1.0) } else { 0.0 };
                let width = saturated.as_secs_f64() * share;
                let slack = 1e-9 + cap.as_secs_f64() * 1e-12;
                let high = (saturated.as_secs_f64() + width).min(cap.as_secs_f64());
                prop_assert!(delay.as_secs_f64() <= high + slack, "{delay:?} above {high}");
                prop_assert!(delay.as_secs_f64() >= high - 2.0 * width - slack, "{delay:?}, {width} around {d:?}");
            }
            Jitter::Decorrelated if d.is_zero() && base.is_zero() => prop_assert_eq!(delay, Duration::ZERO),
            Jitter::Decorrelated => {
                prop_assert!(delay <= previous.max(base).saturating_mul(3));
                prop_assert!(delay >= base.min(cap / 3), "{delay:?}, base {base:?}, cap {cap:?}");
            }
            _ => unreachable!("add the bounds of the new kind of jitter here"),
        }
    }

    /// A growing curve never shrinks, up to the last retry.
    #[test]
    fn growing_curves_never_shrink(backoff in growing(), cap in prop::option::of(durations()), retry in retries()) {
        let backoff = cap.map_or(backoff, |cap| backoff.with_cap(cap));
        let (this, next) = (plain(backoff, retry), plain(backoff, retry.saturating_add(1)));
        prop_assert!(this <= next, "{this:?} then {next:?}");
        prop_assert!(plain(backoff, 1) <= this);
    }

    /// The schedule lists the delays without jitter, for any jitter.
    #[test]
    fn the_schedule_has_no_jitter(backoff in backoffs()) {
        let plain: Vec<_> = (1..=60).map(|retry| plain(backoff, retry)).collect();
        prop_assert_eq!(backoff.schedule().take(60).collect::<Vec<_>>(), plain);
    }

    /// Equal seeds give equal delays.
    #[test]
    fn equal_seeds_give_equal_delays(backoff in backoffs(), retry in retries(), previous in durations(), seed in any::<u64>()) {
        let draw = || backoff.delay(retry, previous, seeded(seed));
        prop_assert_eq!(draw(), draw());
    }
}

#[test]
fn curves_have_the_documented_delays() {
    let seconds = |backoff: Backoff| -> Vec<_> {
        backoff.schedule().take(8).map(|delay| delay.as_secs()).collect()
    };
    assert_eq!(seconds(Backoff::none()), [0; 8]);
    assert_eq!(seconds(Backoff::fixed(CAP * 2)), [60; 8]);
    assert_eq!(seconds(Backoff::linear(BASE * 5)), [5, 10, 15, 20, 25, 30, 30, 30]);
    assert_eq!(seconds(Backoff::exponential(BASE)), [1, 2, 4, 8, 16, 30, 30, 30]);
    assert_eq!(seconds(Backoff::exponential(BASE).with_factor(3.0)), [1, 3, 9, 27, 30, 30, 30, 30]);
    assert_eq!(seconds(Backoff::fibonacci(BASE)), [1, 1, 2, 3, 5, 8, 13, 21]);
    assert_eq!(seconds(Backoff::steps(&[BASE, CAP, BASE])), [1, 30, 1, 1, 1, 1, 1, 1]);
    assert_eq!(seconds(Backoff::steps(&[])), [0; 8]);
    assert_eq!(
        seconds(Backoff::custom(|retry| BASE * retry * retry)),
        [1, 4, 9, 16, 25, 36, 49, 64]
    );
    assert_eq!(
        seconds(Backoff::exponential(CAP * 2)),
        [60; 8],
        "the default cap is not below the base"
    );
    assert_eq!(plain(Backoff::exponential(BASE).with_cap(Duration::MAX), u32::MAX), Duration::MAX);
    assert_eq!(plain(Backoff::linear(BASE).with_cap(Duration::MAX), u32::MAX), BASE * u32::MAX);
    assert_eq!(plain(Backoff::fibonacci(BASE).with_cap(Duration::MAX), 47), BASE * 2_971_215_073);
    assert_eq!(
        plain(Backoff::fibonacci(BASE).with_cap(Duration::MAX), u32::MAX),
        BASE * u32::MAX,
        "the factor saturates at u32::MAX"
    );
}

#[test]
fn a_delay_without_spread_draws_no_random_number() {
    let all = [
        Jitter::None,
        Jitter::Full,
        Jitter::Equal,
        Jitter::Decorrelated,
        Jitter::Proportional(0.5),
    ];
    for jitter in all {
        for backoff in [
            Backoff::none(),
            Backoff::fixed(Duration::ZERO),
            Backoff::exponential(BASE).with_cap(Duration::ZERO),
        ] {
            assert_eq!(backoff.with_jitter(jitter).delay(9, BASE, untouched), Duration::ZERO);
        }
    }
    for share in [0.0, -0.5, f64::NAN, f64::NEG_INFINITY] {
        let backoff = Backoff::exponential(BASE).with_jitter(Jitter::Proportional(share));
        assert_eq!(backoff.delay(3, BASE, untouched), BASE * 4);
    }
}

/// Jitter spreads the delays of a curve that begins at its cap.
#[test]
fn trap_01_a_base_at_the_cap_is_spread_too() {
    let mut draw = seeded(1);
    for jitter in SPREADING {
        let backoff = Backoff::fixed(CAP).with_cap(CAP).with_jitter(jitter);
        let delays: Vec<_> =
            (0..1000).map(|_| backoff.delay(1, Duration::ZERO, &mut draw)).collect();
        let (least, most) = (delays.iter().min().unwrap(), delays.iter().max().unwrap());
        assert!(most.saturating_sub(*least) > CAP / 3, "{jitter:?}: from {least:?} to {most:?}");
    }
}

/// At the cap, delays fill the whole interval of the jitter and do not collect at its end.
#[test]
fn trap_01_jitter_survives_at_the_cap() {
    const RETRY: u32 = 12;
    const SLOT: u128 = 100;
    let mut draw = seeded(1);
    for jitter in SPREADING {
        let backoff = Backoff::exponential(BASE).with_cap(CAP).with_jitter(jitter);
        assert_eq!(plain(backoff, RETRY), CAP);
        // The wait of one client before its twelfth retry, after the eleven earlier waits.
        let mut client = || {
            (1..=RETRY)
                .fold(Duration::ZERO, |previous, retry| backoff.delay(retry, previous, &mut draw))
        };

        let draws: Vec<_> = (0..20_000).map(|_| client()).collect();
        assert!(draws.iter().all(|delay| *delay <= CAP), "{jitter:?}: above the cap");
        let at_cap = draws.iter().filter(|delay| **delay == CAP).count();
        assert!(
            at_cap * 1000 < draws.len(),
            "{jitter:?}: {at_cap} of {} delays equal the cap",
            draws.len()
        );

        for crowd in draws.chunks(1000) {
            let mut slots = std::collections::BTreeMap::<u128, u32>::new();
            for delay in crowd {
                *slots.entry(delay.as_millis() / SLOT).or_default() += 1;
            }
            let fullest = slots.into_values().max().unwrap();
            assert!(fullest <= 25, "{jitter:?}: {fullest} of 1000 clients in one slot");
        }
    }
}

/// A delay given explicitly has no jitter by default. A delay computed from a base has jitter.
#[test]
fn an_explicit_delay_has_no_jitter_by_default() {
    let explicit =
        [Backoff::fixed(BASE), Backoff::steps(&[BASE, CAP]), Backoff::custom(|retry| BASE * retry)];
    for backoff in explicit {
        for (retry, delay) in (1..10).zip(backoff.schedule()) {
            assert_eq!(backoff.delay(retry, Duration::ZERO, untouched), delay, "{backoff:?}");
        }
        assert_eq!(backoff, backoff.with_jitter(Jitter::None));
    }
    let mut draw = seeded(1);
    let growing = [Backoff::linear(BASE), Backoff::exponential(BASE), Backoff::fibonacci(BASE)];
    let with_jitter = explicit.map(|backoff| backoff.with_jitter(Jitter::Full));
    for backoff in growing.into_iter().chain(with_jitter) {
        let delays: Vec<_> =
            (0..100).map(|_| backoff.delay(1, Duration::ZERO, &mut draw)).collect();
        assert!(
            delays.iter().any(|delay| *delay < BASE / 4)
                && delays.iter().all(|delay| *delay <= BASE),
            "{backoff:?}"
        );
    }
}

/// A wait after a hint has no random part only under a given `Jitter::None`, so a reader must see which
/// one it is.
#[test]
fn no_jitter_by_default_is_printed_differently() {
    let custom = Backoff::custom(|retry| BASE * retry);
    let printed = |backoff: Backoff| format!("{backoff:?}");
    let is = "Backoff { curve: \"custom\", cap: \"none\", jitter: ";
    assert_eq!(printed(custom), format!("{is}None by default }}"));
    assert_eq!(printed(custom.with_jitter(Jitter::None)), format!("{is}None }}"));
    // A policy does not tell this one apart.
    let growing = Backoff::linear(BASE);
    assert_eq!(printed(growing), printed(growing.with_jitter(Jitter::Full)));
}

/// The first delay is the base itself, also where its floating-point form is rounded. A base of zero
/// stays zero, however far the factor has grown.
#[test]
fn the_first_delay_is_the_base_to_the_nanosecond() {
    let delay = |backoff: Backoff, retry| backoff.delay(retry, Duration::ZERO, untouched);
    for secs in (40..63).map(|bit| (1_u64 << bit) - 1) {
        let base = Duration::new(secs, 999_999_999);
        let backoff = Backoff::exponential(base).with_cap(Duration::MAX).with_jitter(Jitter::None);
        assert_eq!(delay(backoff, 1), base);
    }
    let none = Backoff::exponential(Duration::ZERO).with_cap(CAP).with_jitter(Jitter::None);
    for retry in [1, 2, 1_024, 1_026, 5_000, u32::MAX] {
        assert_eq!(delay(none, retry), Duration::ZERO, "{retry}");
    }
}
