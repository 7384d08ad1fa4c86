//! The scripts on a real server, step by step beside their models.
//!
//! `PROPTEST_CASES=5000 cargo test -p resile-redis` runs more sequences than the usual 64.

use std::env;
use std::fmt::Debug;
use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{TestCaseResult, TestRunner};
use redis::{Connection, cmd};
use resile::quota::{Dimension, Rate};

use super::model::{Account, Fleet, Hold, Lessons, Model, Probe, Votes};
use super::real::Real;
use super::*;

#[path = "../../tests/support/server.rs"]
pub(super) mod server;

use server::Server;

/// The time of a first step, in microseconds: the year 2024.
const START: i64 = 1_704_067_200_000_000;

pub(super) fn connect(server: &Server) -> Connection {
    redis::Client::open(server.url()).unwrap().get_connection().unwrap()
}

/// Runs the steps on the server and on the model. Replies, stored text and lives must be equal.
fn agrees<R, M>(connection: &mut Connection, steps: &[(i64, R)]) -> TestCaseResult
where
    R: Request<Reply: Debug + PartialEq> + Debug,
    M: Model<R>,
{
    let real = Real::new::<R>();
    let () = cmd("DEL").arg(real.key).query(connection).unwrap();
    let mut model = M::default();
    for (now, request) in steps {
        let now = i128::from(*now);
        let reply = model.step(now, request);
        let compared = real.compare(connection, now, request, &reply, &model);
        prop_assert_eq!(compared, Ok(()), "at {} {:?}", now, request);
    }
    Ok(())
}

/// Compares many sequences of up to 30 steps.
fn compare<R, M>(steps: impl Strategy<Value = Vec<(i64, R)>>)
where
    R: Request<Reply: Debug + PartialEq> + Debug,
    M: Model<R>,
{
    let Some(server) = Server::start(&[]) else { return };
    let mut connection = connect(&server);
    let cases = env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(64);
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    let connection = std::cell::RefCell::new(&mut connection);
    TestRunner::new(config)
        .run(&steps, |steps| agrees::<R, M>(&mut connection.borrow_mut(), &steps))
        .unwrap_or_else(|error| panic!("{error}"));
}

/// Times that mostly advance by up to `most` multiples of `grid`, and sometimes jump back. A time
/// beside the grid is rare, so many steps are exactly at the end of something.
fn timed<R: Debug + Clone>(
    most: i64,
    grid: i64,
    request: impl Strategy<Value = R>,
) -> impl Strategy<Value = Vec<(i64, R)>> {
    let pause = prop_oneof![6 => 0..=most, 1 => -3 * most..=0, 1 => 0..=20 * most];
    let beside = prop_oneof![6 => Just(0), 1 => Just(-1), 1 => Just(1)];
    prop::collection::vec((pause, beside, request), 1..=30).prop_map(move |steps| {
        let mut now = START;
        let timed = steps.into_iter().map(|(pause, beside, request)| {
            now += pause * grid + beside;
            (now, request)
        });
        timed.collect()
    })
}

/// Any time that a script must bear, without an order.
fn extreme_times<R: Debug + Clone>(
    request: impl Strategy<Value = R>,
) -> impl Strategy<Value = Vec<(i64, R)>> {
    let now = prop_oneof![0_i64..1 << 52, 0_i64..10_000_000, (1_i64 << 52) - 10_000_000..1 << 52];
    prop::collection::vec((now, request), 1..=30)
}

fn id() -> impl Strategy<Value = &'static str> {
    select(&["a", "b", "one with spaces"][..])
}

fn micros_up_to(most: u64) -> impl Strategy<Value = Duration> {
    (0..=most).prop_map(Duration::from_micros)
}

/// Durations around the bounds of the scripts.
fn extreme_duration() -> impl Strategy<Value = Duration> {
    prop_oneof![
        Just(Duration::ZERO),
        Just(Duration::from_nanos(1)),
        Just(Duration::MAX),
        micros_up_to(1 << 52),
        micros_up_to(10_000_000),
    ]
}

prop_compose! {
    /// A request on a small account, whose capacity, rate and scale rarely differ.
    fn small_lease()(
        id in id(),
        capacity in prop_oneof![9 => Just(60_i64), 1 => 0_i64..90],
        rate in prop_oneof![9 => Just(2_i64), 2 => Just(0), 1 => 0_i64..20],
        scale in prop_oneof![9 => Just(3_i64), 1 => 1_i64..9],
        ttl in prop_oneof![1 => Just(0), 9 => 10_u64..60],
        base in -3_i64..12,
        spent in 0_i64..25,
        least in prop_oneof![0_i64..1, 0_i64..25],
        want in 0_i64..25,
        memory in prop::option::of(-10_i64..25),
        told in prop_oneof![4 => Just(None), 1 => (0_u64..25).prop_map(Some)],
        pause in prop_oneof![1 => Just(Duration::ZERO), 1 => micros_up_to(60)],
        own in prop_oneof![1 => Just(0_i64), 1 => 0_i64..25],
        calm in prop_oneof![1 => Just(90_i64), 1 => 0_i64..60],
        weight in prop_oneof![2 => Just(1_u32), 1 => 0_u32..120],
        away in prop_oneof![3 => Just(0_u32), 1 => 0_u32..6],
        floor in prop_oneof![1 => Just(0_i64), 1 => 0_i64..25],
    ) -> LeaseRequest<'static> {
        let ttl = Duration::from_micros(ttl);
        LeaseRequest { id, capacity, rate, scale, ttl, base, spent, least, want, memory, told, pause, own, calm, floor, weight, away }
    }
}

/// Integers around each bound of the scripts.
fn extreme() -> impl Strategy<Value = i64> {
    let edge = select(&[0, 1, 1_i64 << 20, 1 << 40, 1 << 51, 1 << 52, 1 << 53, i64::MAX][..]);
    let near = (edge, -3_i64..=3, any::<bool>()).prop_map(|(edge, by, is_negative)| {
        let near = edge.saturating_add(by);
        if is_negative { near.saturating_neg() } else { near }
    });
    prop_oneof![4 => near, 1 => any::<i64>(), 2 => 0_i64..1 << 52, 2 => -50_i64..50]
}

prop_compose! {
    fn extreme_lease()(
        id in id(),
        numbers in prop::array::uniform10(extreme()),
        (ttl, pause) in (extreme_duration(), extreme_duration()),
        memory in prop::option::of(extreme()),
        told in prop_oneof![2 => Just(None), 1 => any::<u64>().prop_map(Some), 1 => (0_u64..1 << 54).prop_map(Some)],
        weight in prop_oneof![Just(1_u32), any::<u32>(), 1_u32..=100],
        away in prop_oneof![Just(0_u32), any::<u32>()],
    ) -> LeaseRequest<'static> {
        let [capacity, rate, scale, base, spent, least, want, own, calm, floor] = numbers;
        LeaseRequest { id, capacity, rate, scale, ttl, base, spent, least, want, memory, told, pause, own, calm, floor, weight, away }
    }
}

fn hold(
    duration: impl Strategy<Value = Duration> + Clone,
) -> impl Strategy<Value = HoldRequest<'static>> {
    (id(), duration.clone(), duration.clone(), duration).prop_map(
        |(id, remaining, elapsed, hint)| HoldRequest {
            id,
            channel: "holds",
            remaining,
            elapsed,
            hint,
        },
    )
}

fn vote(
    calls: impl Strategy<Value = u64> + Clone,
    ttl: impl Strategy<Value = Duration>,
) -> impl Strategy<Value = VoteRequest<'static>> {
    (id(), calls.clone(), calls, any::<bool>(), ttl)
        .prop_map(|(id, calls, failures, open, ttl)| VoteRequest { id, calls, failures, open, ttl })
}

fn member((id, ttl): (&'static str, Duration)) -> MemberRequest<'static> {
    MemberRequest { id, ttl, channel: "channel" }
}

fn probe(ttl: impl Strategy<Value = Duration>) -> impl Strategy<Value = ProbeRequest<'static>> {
    let step = prop_oneof![
        4 => Just(ProbeStep::Acquire),
        1 => Just(ProbeStep::Release),
        1 => Just(ProbeStep::Look),
        1 => Just(ProbeStep::Failed),
        1 => Just(ProbeStep::Passed),
    ];
    (id(), ttl, step).prop_map(|(id, ttl, step)| ProbeRequest { id, ttl, step })
}

/// Reports of two or three members on limits of few sizes, so that they are often equal.
fn report(number: impl Strategy<Value = f64> + Clone) -> impl Strategy<Value = Report> {
    let rate = (1_u32..4, 1_u64..3, 1_u32..3).prop_map(|(count, seconds, burst)| {
        Rate::new(u64::from(count), Duration::from_secs(seconds)).with_burst(u64::from(burst))
    });
    let own = prop_oneof![2 => select(&[1.0, 2.0, 2.000_001, 3.0][..]), 1 => number.clone()];
    let change = prop_oneof![2 => Just(0.0), 2 => -1.0..0.5, 1 => number.clone()];
    let dimension = select(&[Dimension::Requests, Dimension::Tokens][..]);
    let used = prop_oneof![1 => Just(None), 1 => number.clone().prop_map(Some)];
    let reported =
        prop_oneof![2 => Just(None), 1 => (0.5..3.0).prop_map(Some), 1 => number.prop_map(Some)];
    (dimension, prop::bool::weighted(0.3), rate, own, change, reported, used).prop_map(
        |(dimension, is_set, rate, own, change, reported, used)| Report {
            dimension,
            is_set,
            rate,
            own,
            change,
            reported,
            used,
        },
    )
}

/// The requests of a member. They borrow their reports, so the test never frees these.
fn lessons(
    number: impl Strategy<Value = f64> + Clone,
) -> impl Strategy<Value = LearnedRequest<'static>> {
    (select(&["a", "b"][..]), prop::collection::vec(report(number), 1..4))
        .prop_map(|(id, reports)| LearnedRequest { id, reports: Vec::leak(reports) })
}

#[test]
fn lessons_are_those_of_the_model() {
    compare::<LearnedRequest<'_>, Lessons>(timed(20, 500_000, lessons(0.1..9.0)));
    let edge = select(&[0.0, -0.0, 1e-13, 1e-12, 1e17, 1e18, 1e300, f64::NAN, f64::INFINITY][..]);
    let number = prop_oneof![2 => edge, 2 => any::<f64>(), 1 => 0.1..9.0].boxed();
    compare::<LearnedRequest<'_>, Lessons>(timed(20, 500_000, lessons(number.clone())));
    compare::<LearnedRequest<'_>, Lessons>(extreme_times(lessons(number)));
}

#[test]
fn a_lease_is_that_of_the_model() {
    compare::<LeaseRequest<'_>, Account>(timed(20, 1, small_lease()));
}

#[test]
fn a_lease_of_extreme_numbers_is_that_of_the_model() {
    compare::<LeaseRequest<'_>, Account>(extreme_times(extreme_lease()));
    let mixed = extreme_times(prop_oneof![small_lease(), extreme_lease()]);
    compare::<LeaseRequest<'_>, Account>(mixed);
}

/// A debt as large as the capacity and a claim on all of it are the longest wait there is.
#[test]
fn the_longest_wait_is_that_of_the_model() {
    let Some(server) = Server::start(&[]) else { return };
    let most = 1 << 52;
    let request = |id, spent, least| LeaseRequest {
        id,
        capacity: most,
        rate: 1,
        scale: 2,
        ttl: Duration::from_secs(1),
        base: 0,
        spent,
        least,
        want: least,
        memory: Some(-most),
        told: None,
        pause: Duration::ZERO,
        own: 0,
        calm: most,
        weight: 1,
        away: 0,
        floor: 0,
    };
    let steps = [
        (START, request("a", 0, most / 2)),
        (START, request("b", most / 2, most / 2)),
        (START, request("c", 3, 5)),
    ];
    agrees::<LeaseRequest<'_>, Account>(&mut connect(&server), &steps).unwrap();
}

#[test]
fn a_hold_is_that_of_the_model() {
    // A quarter of such a length is on the grid, or just beside it.
    let length = (0_u64..10, prop_oneof![3 => Just(0_u64), 1 => 0_u64..4])
        .prop_map(|(steps, beside)| Duration::from_micros(steps * 500_000 + beside));
    compare::<HoldRequest<'_>, Hold>(timed(8, 125_000, hold(length.boxed())));
    compare::<HoldRequest<'_>, Hold>(extreme_times(hold(extreme_duration().boxed())));
}

#[test]
fn a_fleet_is_that_of_the_model() {
    let request = |ttl: BoxedStrategy<Duration>| (id(), ttl).prop_map(member);
    compare::<MemberRequest<'_>, Fleet>(timed(20, 1, request(micros_up_to(60).boxed())));
    compare::<MemberRequest<'_>, Fleet>(extreme_times(request(extreme_duration().boxed())));
}

#[test]
fn votes_are_those_of_the_model() {
    compare::<VoteRequest<'_>, Votes>(timed(20, 1, vote(0_u64..3, micros_up_to(60))));
    let calls = prop_oneof![Just(0), any::<u64>(), 0_u64..1 << 54].boxed();
    compare::<VoteRequest<'_>, Votes>(extreme_times(vote(calls, extreme_duration())));
}

#[test]
fn a_probe_is_that_of_the_model() {
    compare::<ProbeRequest<'_>, Probe>(timed(3, 1_000, probe(micros_up_to(9_000))));
    compare::<ProbeRequest<'_>, Probe>(timed(30, 100_000, probe(micros_up_to(9_000_000))));
    compare::<ProbeRequest<'_>, Probe>(extreme_times(probe(extreme_duration())));
}
