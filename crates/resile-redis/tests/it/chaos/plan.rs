//! The faults of a run, drawn from a seed.

use std::time::Duration;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::proxy::Way;

/// What happens to the server, or to the way to it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    /// Killed, and started again without data.
    Killed(Duration),
    /// Stopped without closing its connections.
    Stopped(Duration),
    /// A replica takes over, without the writes of this time.
    FailOver(Duration),
    /// The clock of the server steps back.
    StepBack(Duration),
    /// The server loses all keys.
    Flushed,
    /// The server loses all scripts.
    ScriptsFlushed,
    /// The way of some members is bad.
    Way(usize, Way, Duration),
    /// The connections of some members are dead and stay open.
    Stranded(usize),
    /// Requests of the last seconds come once more.
    Repeated(usize),
}

impl Fault {
    /// Returns the way that is bad, if it is one of them.
    pub(super) const fn way(self) -> Option<usize> {
        match self {
            Self::Way(at, ..) | Self::Stranded(at) => Some(at),
            _ => None,
        }
    }
}

/// What happens to a member meanwhile.
#[derive(Clone, Copy, Debug)]
pub(super) enum Change {
    Nothing,
    Joins,
    Leaves(usize),
    Dies(usize),
}

/// One step of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    pub(super) fault: Fault,
    pub(super) change: Change,
    /// The time from the fault to the change.
    pub(super) between: Duration,
}

/// The ways to the server. Each has a part of the members.
pub(super) const WAYS: usize = 3;

fn millis(range: std::ops::Range<u64>) -> impl Strategy<Value = Duration> {
    range.prop_map(Duration::from_millis)
}

fn fault() -> impl Strategy<Value = Fault> {
    let way = prop_oneof![
        Just(Way::Cut),
        Just(Way::Silent),
        Just(Way::Garbage),
        Just(Way::Mute),
        millis(20..2_000).prop_map(Way::Delay),
    ];
    prop_oneof![
        2 => millis(100..4_000).prop_map(Fault::Killed),
        2 => millis(50..4_000).prop_map(Fault::Stopped),
        2 => millis(100..800).prop_map(Fault::FailOver),
        1 => millis(1..7_200_000).prop_map(Fault::StepBack),
        1 => Just(Fault::Flushed),
        1 => Just(Fault::ScriptsFlushed),
        4 => (0..WAYS, way, millis(50..4_000)).prop_map(|(at, way, time)| Fault::Way(at, way, time)),
        1 => (0..WAYS).prop_map(Fault::Stranded),
        2 => (1_usize..200).prop_map(Fault::Repeated),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    let change = prop_oneof![
        2 => Just(Change::Nothing),
        1 => Just(Change::Joins),
        1 => any::<usize>().prop_map(Change::Leaves),
        1 => any::<usize>().prop_map(Change::Dies),
    ];
    (fault(), change, millis(0..1_500)).prop_map(|(fault, change, between)| Event {
        fault,
        change,
        between,
    })
}

/// Returns the events of a seed, one after the other and without an end.
pub(super) fn events(seed: u64) -> impl Iterator<Item = Event> {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let strategy = event();
    std::iter::from_fn(move || strategy.new_tree(&mut runner).ok().map(|tree| tree.current()))
}

#[test]
fn a_seed_has_the_same_events_each_time() {
    let first = |seed| format!("{:?}", events(seed).take(50).collect::<Vec<_>>());
    assert_eq!(first(7), first(7));
    assert_ne!(first(7), first(8));
}
