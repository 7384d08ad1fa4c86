//! A call within an attempt of another call. On one upstream the two share the admission of that
//! attempt: each request that is sent is admitted, paid for and counted once. On two upstreams each
//! call has an admission of its own.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::future::LocalBoxFuture;
use futures_util::{FutureExt, StreamExt, stream};
use resile::classify::{Always, ClassifyExt};
use resile::quota::{Cost, Dimension, Rate, Usage};
use resile::time::ManualTimer;
use resile::{
    AdaptiveTimeout, Backoff, Breaker, Budget, Bulkhead, Cooldown, FallbackPolicy, GaveUp,
    HedgePolicy, Quota, ResilienceExt, RetryPolicy, Run, Throttle, Upstream, Verdict, fallback,
    hedge, retry, retry_stream,
};
use tokio_util::sync::CancellationToken;

const SECOND: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq)]
struct Down;

impl fmt::Display for Down {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("down")
    }
}

impl std::error::Error for Down {}

/// The behaviour of one request. Each is pending once before its answer.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Does {
    Succeed,
    Fail,
    Hang,
    Panic,
}

use Does::{Fail, Hang, Panic, Succeed};

/// The kinds of calls.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Retry,
    Run,
    Stream,
    Hedge,
    Fallback,
    Single,
    /// A loop by hand: the engine does not poll its attempts, so no call is within them.
    RunByHand,
    /// An admission by hand, as above.
    Admission,
}

const OUTER: [Kind; 6] =
    [Kind::Retry, Kind::Run, Kind::Stream, Kind::Hedge, Kind::Fallback, Kind::Single];
const INNER: [Kind; 8] = [
    Kind::Retry,
    Kind::Run,
    Kind::Stream,
    Kind::Hedge,
    Kind::Fallback,
    Kind::Single,
    Kind::RunByHand,
    Kind::Admission,
];

impl Kind {
    /// Returns the number of attempts after failures that come at once.
    const fn attempts(self) -> i64 {
        match self {
            Self::Retry | Self::Run | Self::Stream | Self::Fallback | Self::RunByHand => 2,
            Self::Hedge | Self::Single | Self::Admission => 1,
        }
    }
}

type Host = Upstream<ManualTimer>;
type Outcome = Result<u32, Down>;

/// The tokens in the budget before the calls: half of its capacity.
const TOKENS: u32 = 50;

struct World {
    timer: ManualTimer,
    outer: Host,
    /// The second upstream, which only some tests use.
    inner: Host,
    token: CancellationToken,
    script: RefCell<Vec<Does>>,
    /// The calls within attempts of the outer call that sent a request.
    begun: Cell<i64>,
    /// The requests that were sent.
    sent: Cell<i64>,
    /// The answers that came, good and bad ones.
    answered: Cell<u64>,
    /// The bad answers that came.
    failed: Cell<u64>,
    attempt_timeout: Option<Duration>,
}

/// The name of an upstream whose failures are refusals for a second.
const BUSY: &str = "busy";

fn verdict(host: &Host) -> Verdict {
    if host.name() == BUSY { Verdict::throttled().after(SECOND) } else { Verdict::transient() }
}

fn host(name: &'static str, timer: &ManualTimer, permits: u32) -> Host {
    let budget = Budget::new().with_capacity(2 * TOKENS).with_deposit(1.0);
    for _ in 0..TOKENS {
        assert!(budget.withdraw());
    }
    // A busy upstream refuses each attempt, and its throttle would refuse some of them by chance.
    let upstream = Upstream::new(name);
    let upstream = if name == BUSY { upstream } else { upstream.with_throttle(Throttle::new()) };
    upstream
        .with_budget(budget)
        .with_breaker(Breaker::new().without_consecutive().with_failure_rate(1.0, 1_000))
        .with_cooldown(Cooldown::new())
        .with_bulkhead(Bulkhead::new(permits).with_queue(4))
        .with_quota(Quota::new().with_requests(Rate::per_hour(1_000)))
        .with_adaptive_timeout(AdaptiveTimeout::new())
        .with_timer(timer.clone())
}

/// The numbers of an upstream after the calls.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Books {
    /// Requests that the quota has charged.
    charged: i64,
    /// Answers, and bad ones among them, that the breaker has counted.
    counted: (u64, u64),
    /// Tokens that the budget has paid, less its deposits.
    paid: i64,
    /// Permits and places in queues that are still out.
    held: u32,
}

fn books(host: &Host) -> Books {
    let snapshot = host.snapshot().unwrap();
    let bulkhead = host.bulkhead().unwrap();
    Books {
        charged: 1_000 - host.quota_level(Dimension::Requests).unwrap(),
        counted: (snapshot.calls, snapshot.failures),
        paid: i64::from(TOKENS) - i64::from(host.budget().unwrap().available()),
        held: bulkhead.in_flight() + bulkhead.waiting(),
    }
}

impl World {
    fn new(script: &[Does], permits: u32) -> Rc<Self> {
        Self::with_timeout(script, permits, None)
    }

    fn with_timeout(script: &[Does], permits: u32, timeout: Option<Duration>) -> Rc<Self> {
        Self::named("host", script, permits, timeout)
    }

    fn named(
        name: &'static str,
        script: &[Does],
        permits: u32,
        timeout: Option<Duration>,
    ) -> Rc<Self> {
        let timer = ManualTimer::new();
        Rc::new(Self {
            outer: host(name, &timer, permits),
            inner: host(name, &timer, permits),
            timer,
            token: CancellationToken::new(),
            script: RefCell::new(script.iter().rev().copied().collect()),
            begun: Cell::new(0),
            sent: Cell::new(0),
            answered: Cell::new(0),
            failed: Cell::new(0),
            attempt_timeout: timeout,
        })
    }
}

/// Sends one request. After the end of the script requests fail.
async fn send(world: &World) -> Outcome {
    world.sent.set(world.sent.get() + 1);
    let does = world.script.borrow_mut().pop().unwrap_or(Fail);
    yield_once().await;
    match does {
        Hang => pending().await,
        Panic => panic!("the operation panics"),
        Succeed | Fail => {}
    }
    world.answered.set(world.answered.get() + 1);
    if does == Succeed {
        return Ok(7);
    }
    world.failed.set(world.failed.get() + 1);
    Err(Down)
}

async fn yield_once() {
    let mut yielded = false;
    std::future::poll_fn(|_| {
        if std::mem::replace(&mut yielded, true) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

fn last(gave_up: GaveUp<Down>) -> Down {
    gave_up.into_last().unwrap_or(Down)
}

type Operation<'a> = Box<dyn Fn() -> LocalBoxFuture<'a, Outcome> + 'a>;

/// Makes a call of this kind on `host`.
fn call<'a>(
    kind: Kind,
    host: &'a Host,
    token: &'a CancellationToken,
    timeout: Option<Duration>,
    op: Operation<'a>,
) -> LocalBoxFuture<'a, Outcome> {
    let verdict = verdict(host);
    let classify = (move |_: &Down| verdict).cut_is(Verdict::transient());
    let policy = RetryPolicy::new().with_attempts(2).with_backoff(Backoff::none());
    let policy = policy.with_classifier(classify);
    let policy = timeout.map_or(policy, |limit| policy.with_attempt_timeout(limit));
    match kind {
        Kind::Retry => {
            async move { retry(|_| op(), policy, token).on(host).await.map_err(last) }.boxed_local()
        }
        Kind::Run => async move {
            let mut run = Run::new(policy, token).on(host);
            loop {
                if let Some(value) = run.attempt(op()).await.map_err(last)? {
                    return Ok(value);
                }
            }
        }
        .boxed_local(),
        Kind::RunByHand => async move {
            let mut run = Run::new(policy, token).on(host);
            loop {
                run.next().await.map_err(last)?;
                match op().await {
                    Ok(value) => return Ok(run.succeeded(value)),
                    Err(error) => run.failed(error).map_err(last)?,
                }
            }
        }
        .boxed_local(),
        Kind::Stream => async move {
            let open = |_| {
                let opened = op();
                async move { Ok(stream::iter([Ok::<_, Down>(opened.await?)])) }
            };
            let mut items = Box::pin(retry_stream(open, policy, token).on(host));
            let first = items.next().await.expect("an item or an error").map_err(last);
            if first.is_ok() {
                assert!(items.next().await.is_none());
            }
            first
        }
        .boxed_local(),
        Kind::Hedge => async move {
            let policy = HedgePolicy::new().with_delay(2 * SECOND).with_classifier(classify);
            let policy = timeout.map_or(policy, |limit| policy.with_attempt_timeout(limit));
            hedge(|_| op(), policy, token).on(host).await.map_err(last)
        }
        .boxed_local(),
        Kind::Fallback => async move {
            let policy = FallbackPolicy::new().with_classifier(classify);
            let policy = timeout.map_or(policy, |limit| policy.with_attempt_timeout(limit));
            fallback(&[1, 2], |_| op(), policy, token).on(host).await.map_err(last)
        }
        .boxed_local(),
        Kind::Single => async move { host.call(op(), classify).await.map_err(last) }.boxed_local(),
        Kind::Admission => async move {
            let admission = host.admit(token).await.map_err(|_| Down)?;
            match op().await {
                Ok(value) => {
                    admission.succeeded();
                    Ok(value)
                }
                Err(error) => {
                    admission.settle(&verdict);
                    Err(error)
                }
            }
        }
        .boxed_local(),
    }
}

/// Makes a call of the second kind within each attempt of a call of the first kind.
fn nested(
    world: &Rc<World>,
    kinds: (Kind, Kind),
    on_two: bool,
) -> LocalBoxFuture<'static, Outcome> {
    let world = world.clone();
    async move {
        let op = || -> LocalBoxFuture<'_, Outcome> {
            let world = &*world;
            let host = if on_two { &world.inner } else { &world.outer };
            let is_first = Rc::new(Cell::new(true));
            let send = move || {
                let is_first = is_first.clone();
                async move {
                    world.begun.set(world.begun.get() + i64::from(is_first.replace(false)));
                    send(world).await
                }
                .boxed_local()
            };
            call(kinds.1, host, &world.token, None, Box::new(send))
        };
        call(kinds.0, &world.outer, &world.token, world.attempt_timeout, Box::new(op)).await
    }
    .boxed_local()
}

fn poll<T>(future: &mut LocalBoxFuture<'_, T>) -> Option<T> {
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

/// Polls the call to its end. Lets a second pass when nothing else can happen.
fn finish(world: &World, mut call: LocalBoxFuture<'static, Outcome>) -> Outcome {
    for _ in 0..1_000 {
        if let Some(outcome) = poll(&mut call) {
            return outcome;
        }
        world.timer.advance(Duration::from_millis(250));
    }
    panic!("the call does not end")
}

fn pairs() -> impl Iterator<Item = (Kind, Kind)> {
    OUTER.into_iter().flat_map(|outer| INNER.into_iter().map(move |inner| (outer, inner)))
}

/// The plain model of two nested loops: returns the books of both upstreams and the outcome.
fn model(script: &[Does], (outer, inner): (Kind, Kind), on_two: bool) -> (Books, Books, bool) {
    let mut script = script.iter();
    let (mut one, mut two) = (Books::default(), Books::default());
    let mut good = false;
    for attempt in 0..outer.attempts() {
        one.paid += i64::from(attempt > 0);
        good = false;
        for request in 0..inner.attempts() {
            let host = if on_two { &mut two } else { &mut one };
            host.charged += 1;
            host.paid += i64::from(request > 0);
            good = script.next() == Some(&Succeed);
            host.counted.0 += 1;
            host.counted.1 += u64::from(!good);
            host.paid -= i64::from(good);
            if good {
                break;
            }
        }
        if on_two {
            one.charged += 1;
            one.counted.0 += 1;
            one.counted.1 += u64::from(!good);
            one.paid -= i64::from(good);
        }
        if good {
            break;
        }
    }
    (one, two, good)
}

/// The numbers of the model, written by hand: attempts of each call and the script, then the charged
/// requests, the answers, the bad ones among them and the paid tokens. On two upstreams those of the
/// outer one are first.
#[test]
fn the_model_has_the_numbers_of_this_table() {
    use Kind::{Hedge, Retry, Single};
    let of = |(charged, counted, paid)| Books { charged, counted, paid, held: 0 };
    let none = (0, (0, 0), 0);
    #[rustfmt::skip]
    let table = [
        // A retry of retries: up to four requests.
        ((Retry, Retry), SCRIPTS[0], (1, (1, 0), -1), ((1, (1, 0), -1), (1, (1, 0), -1))),
        ((Retry, Retry), SCRIPTS[1], (2, (2, 1), 0), ((1, (1, 0), -1), (2, (2, 1), 0))),
        ((Retry, Retry), SCRIPTS[2], (3, (3, 2), 1), ((2, (2, 1), 0), (3, (3, 2), 0))),
        ((Retry, Retry), SCRIPTS[3], (4, (4, 3), 2), ((2, (2, 1), 0), (4, (4, 3), 1))),
        ((Retry, Retry), SCRIPTS[4], (4, (4, 4), 3), ((2, (2, 2), 1), (4, (4, 4), 2))),
        // A retry of hedges that are not due: up to two requests.
        ((Retry, Hedge), SCRIPTS[0], (1, (1, 0), -1), ((1, (1, 0), -1), (1, (1, 0), -1))),
        ((Retry, Hedge), SCRIPTS[1], (2, (2, 1), 0), ((2, (2, 1), 0), (2, (2, 1), -1))),
        ((Retry, Hedge), SCRIPTS[4], (2, (2, 2), 1), ((2, (2, 2), 1), (2, (2, 2), 0))),
        // A retry within one attempt: up to two requests.
        ((Single, Retry), SCRIPTS[1], (2, (2, 1), 0), ((1, (1, 0), -1), (2, (2, 1), 0))),
        ((Single, Retry), SCRIPTS[4], (2, (2, 2), 1), ((1, (1, 1), 0), (2, (2, 2), 1))),
        // One attempt within one attempt: one request.
        ((Single, Single), SCRIPTS[0], (1, (1, 0), -1), ((1, (1, 0), -1), (1, (1, 0), -1))),
        ((Single, Single), SCRIPTS[4], (1, (1, 1), 0), ((1, (1, 1), 0), (1, (1, 1), 0))),
    ];
    for (kinds, script, one, (outer, inner)) in table {
        let what = format!("{kinds:?} {script:?}");
        let (alone, other, _) = model(script, kinds, false);
        assert_eq!((alone, other), (of(one), of(none)), "{what}");
        let (first, second, _) = model(script, kinds, true);
        assert_eq!((first, second), (of(outer), of(inner)), "{what} on two");
    }
}

/// Each script ends with a success or with failures only.
const SCRIPTS: [&[Does]; 5] = [
    &[Succeed],
    &[Fail, Succeed],
    &[Fail, Fail, Succeed],
    &[Fail, Fail, Fail, Succeed],
    &[Fail, Fail, Fail, Fail],
];

#[test]
fn each_request_of_a_pair_is_admitted_paid_and_counted_once() {
    for (kinds, script) in pairs().flat_map(|pair| SCRIPTS.map(|script| (pair, script))) {
        for on_two in [false, true] {
            let world = World::new(script, 1); // a call that waited for itself would never end
            let outcome = finish(&world, nested(&world, kinds, on_two));
            let (outer, inner, good) = model(script, kinds, on_two);
            let what = format!("{kinds:?} {script:?} on two: {on_two}");
            assert_eq!(outcome.is_ok(), good, "{what}");
            assert_eq!((books(&world.outer), books(&world.inner)), (outer, inner), "{what}");
        }
    }
}

/// A refusal tells the cooldown, the quota and the breaker once, whatever calls stand around it: the
/// books are those of single calls with the same answers, one after the other.
#[test]
fn each_refusal_of_a_pair_counts_once() {
    for (kinds, script) in pairs().flat_map(|pair| SCRIPTS.map(|script| (pair, script))) {
        let world = World::named(BUSY, script, 1, None);
        let outcome = finish(&world, nested(&world, kinds, false));
        let alone = World::named(BUSY, script, 1, None);
        for _ in 0..world.sent.get() {
            let world = alone.clone();
            let call = async move {
                let send = Box::new(|| send(&world).boxed_local());
                call(Kind::Single, &world.outer, &world.token, None, send).await
            };
            let _answer = finish(&alone, call.boxed_local());
        }
        let (of_pair, expected) = (books(&world.outer), books(&alone.outer));
        let what = format!("{kinds:?} {script:?}");
        assert_eq!(
            (of_pair.charged, of_pair.counted, of_pair.held),
            (expected.charged, expected.counted, 0),
            "{what}"
        );
        let good = i64::from(outcome.is_ok());
        assert_eq!(of_pair.paid, world.sent.get() - 1 - good, "{what}");
        assert_eq!(world.sent.get(), model(script, kinds, false).0.charged, "{what}");
        assert_eq!(world.outer.held().is_some(), alone.outer.held().is_some(), "{what}");
    }
}

#[test]
fn a_third_level_is_still_one_request() {
    for (kinds, innermost) in pairs().flat_map(|pair| INNER.map(|kind| (pair, kind))) {
        let world = World::new(&[Fail, Succeed], 1);
        let call = {
            let world = world.clone();
            async move {
                let op = || -> LocalBoxFuture<'_, Outcome> {
                    let op = || -> LocalBoxFuture<'_, Outcome> {
                        let send = Box::new(|| send(&world).boxed_local());
                        call(innermost, &world.outer, &world.token, None, send)
                    };
                    call(kinds.1, &world.outer, &world.token, None, Box::new(op))
                };
                call(kinds.0, &world.outer, &world.token, None, Box::new(op)).await
            }
            .boxed_local()
        };
        // An attempt by hand is not polled by the engine, so the innermost call does not know it.
        if matches!(kinds.1, Kind::RunByHand | Kind::Admission) {
            continue;
        }
        let good = finish(&world, call).is_ok();
        let (sent, one) = (world.sent.get(), books(&world.outer));
        let what = format!("{kinds:?} {innermost:?}");
        let (answered, failed) = (world.answered.get(), world.failed.get());
        assert_eq!((one.charged, one.held), (sent, 0), "{what}");
        assert_eq!(one.counted, (answered, failed), "{what}");
        assert_eq!(one.paid, sent - 1 - i64::from(good), "{what}");
    }
}

/// What holds after a call that was dropped, cancelled or panicked: everything is back, each request
/// that was sent is charged, each answer is counted, and each further request is paid for.
fn assert_conserved(world: &World, on_two: bool, what: &str) {
    let (sent, answered, failed) = (world.sent.get(), world.answered.get(), world.failed.get());
    let good = i64::from(answered > failed);
    let (outer, inner) = (books(&world.outer), books(&world.inner));
    assert_eq!((outer.held, inner.held), (0, 0), "{what}");
    if on_two {
        // Each attempt of the outer call has a call of its own at the other upstream.
        let begun = world.begun.get();
        assert_eq!((inner.charged, inner.counted), (sent, (answered, failed)), "{what}");
        assert_eq!(inner.paid, sent - begun - good, "{what}");
        assert_eq!(outer.charged, begun, "{what}");
        assert_eq!(outer.paid, (begun - 1).max(0) - good, "{what}");
        return;
    }
    assert_eq!(outer.charged, sent, "{what}");
    assert_eq!(outer.counted, (answered, failed), "{what}");
    let again = (sent - 1).max(0);
    assert_eq!(outer.paid, again - good, "{what}");
}

#[test]
fn a_pair_that_is_dropped_at_any_poll_gives_everything_back() {
    for (kinds, script) in pairs().flat_map(|pair| SCRIPTS.map(|script| (pair, script))) {
        for (on_two, polls) in
            [false, true].into_iter().flat_map(|two| (0..8).map(move |n| (two, n)))
        {
            let world = World::new(script, 1);
            let mut call = nested(&world, kinds, on_two);
            let _ended = (0..polls).any(|_| poll(&mut call).is_some());
            drop(call);
            assert_conserved(
                &world,
                on_two,
                &format!("{kinds:?} {script:?} {on_two} after {polls}"),
            );
        }
    }
}

#[test]
fn a_pair_that_is_cancelled_at_any_poll_gives_everything_back() {
    // A single attempt has no token, so it reports a call within it that never began.
    let pairs = pairs().filter(|(outer, _)| *outer != Kind::Single);
    for (kinds, polls) in pairs.flat_map(|pair| (0..8).map(move |polls| (pair, polls))) {
        for on_two in [false, true] {
            let world = World::new(&[Fail, Fail, Hang], 1);
            let mut call = nested(&world, kinds, on_two);
            let ended = (0..polls).any(|_| poll(&mut call).is_some());
            world.token.cancel();
            let _ended = ended || (0..4).any(|_| poll(&mut call).is_some());
            drop(call);
            assert_conserved(&world, on_two, &format!("{kinds:?} {on_two} after {polls}"));
        }
    }
}

#[test]
fn a_pair_whose_operation_panics_gives_everything_back() {
    for (kinds, script) in
        pairs().flat_map(|pair| [&[Panic][..], &[Fail, Panic]].map(|script| (pair, script)))
    {
        for on_two in [false, true] {
            let world = World::new(script, 1);
            let call = nested(&world, kinds, on_two);
            let _panic = catch_unwind(AssertUnwindSafe(|| finish(&world, call)));
            assert_conserved(&world, on_two, &format!("{kinds:?} {script:?} {on_two}"));
            // The thread forgets the call: the next one is admitted by itself.
            let world = World::new(&[Succeed], 1);
            let next = nested(&world, (Kind::Retry, Kind::Single), false);
            assert_eq!(finish(&world, next), Ok(7));
            assert_conserved(&world, false, "the next call");
        }
    }
}

#[test]
fn an_attempt_timeout_around_a_hanging_call_counts_as_one_failure() {
    for (outer, inner) in pairs().filter(|(outer, _)| *outer != Kind::Single) {
        let world = World::with_timeout(&[Hang, Hang], 4, Some(SECOND));
        let outcome = finish(&world, nested(&world, (outer, inner), false));
        assert!(outcome.is_err());
        let (sent, one) = (world.sent.get(), books(&world.outer));
        let what = format!("{outer:?} {inner:?}");
        assert_eq!(sent, outer.attempts(), "{what}");
        assert_eq!((one.charged, one.held), (sent, 0), "{what}");
        assert_eq!(one.counted.0, one.counted.1, "{what}");
        assert_eq!(i64::try_from(one.counted.0), Ok(sent), "{what}");
        assert_eq!(one.paid, sent - 1, "{what}");
    }
}

#[test]
fn a_hedge_within_a_pair_is_one_more_request() {
    for (outer, inner) in pairs().filter(|(a, b)| (*a == Kind::Hedge) != (*b == Kind::Hedge)) {
        let world = World::new(&[Hang, Succeed], 2);
        let outcome = finish(&world, nested(&world, (outer, inner), false));
        assert_eq!(outcome, Ok(7), "{outer:?} {inner:?}");
        let expected = Books { charged: 2, counted: (1, 0), paid: 0, held: 0 };
        assert_eq!(books(&world.outer), expected, "{outer:?} {inner:?}");
    }
}

#[test]
fn a_hedge_does_not_wait_for_the_permit_of_its_own_call() {
    let world = World::new(&[Hang], 1);
    let mut call = nested(&world, (Kind::Retry, Kind::Hedge), false);
    assert_eq!(poll(&mut call), None);
    world.timer.advance(3 * SECOND);
    assert_eq!(poll(&mut call), None);
    assert_eq!((world.sent.get(), books(&world.outer).paid), (1, 0)); // the hedge was denied
}

/// Runs `op` as the attempt of a retry on the outer upstream.
fn in_an_attempt<'a, F>(world: &'a World, op: impl Fn() -> F + 'a) -> LocalBoxFuture<'a, Outcome>
where
    F: Future<Output = Outcome> + 'a,
{
    let policy = RetryPolicy::none();
    async move { retry(|_| op(), policy, &world.token).on(&world.outer).await.map_err(last) }
        .boxed_local()
}

/// Polls a call that waits for no time.
fn finish_here<T>(mut call: LocalBoxFuture<'_, T>) -> T {
    (0..100).find_map(|_| poll(&mut call)).expect("the call ends")
}

#[test]
fn a_second_call_in_one_attempt_is_another_request() {
    let world = World::new(&[Succeed, Succeed], 1);
    let outcome = finish_here(in_an_attempt(&world, || async {
        for _ in 0..2 {
            world.outer.call(send(&world), Always).await.map_err(last)?;
            assert_eq!(world.outer.bulkhead().unwrap().in_flight(), 1, "the attempt goes on");
        }
        Ok(1)
    }));
    assert_eq!(outcome, Ok(1));
    let expected = Books { charged: 2, counted: (2, 0), paid: -2, held: 0 };
    assert_eq!(books(&world.outer), expected);
}

#[test]
fn two_calls_at_once_in_one_attempt_are_two_requests() {
    let world = World::new(&[Succeed, Succeed], 2);
    let outcome = finish_here(in_an_attempt(&world, || async {
        let one = world.outer.call(send(&world), Always);
        let two = world.outer.call(send(&world), Always);
        let (one, two) = futures_util::future::join(one, two).await;
        one.and(two).map_err(last)
    }));
    assert_eq!(outcome, Ok(7));
    let expected = Books { charged: 2, counted: (2, 0), paid: -2, held: 0 };
    assert_eq!(books(&world.outer), expected);
}

#[test]
fn the_attempt_reports_what_it_makes_of_a_good_answer() {
    let world = World::new(&[Succeed], 1);
    let outcome = finish_here(in_an_attempt(&world, || async {
        world.outer.call(send(&world), Always).await.map_err(last)?;
        Err(Down) // the answer is unreadable
    }));
    assert_eq!(outcome, Err(Down));
    let expected = Books { charged: 1, counted: (1, 1), paid: 0, held: 0 };
    assert_eq!(books(&world.outer), expected);
}

#[test]
fn the_attempt_reports_a_request_whose_call_it_drops() {
    let world = World::new(&[Hang], 1);
    let outcome = finish_here(in_an_attempt(&world, || async {
        let mut call = world.outer.call(send(&world), Always).boxed_local();
        assert!(poll(&mut call).is_none());
        drop(call);
        Err(Down)
    }));
    assert_eq!(outcome, Err(Down));
    let expected = Books { charged: 1, counted: (1, 1), paid: 0, held: 0 };
    assert_eq!(books(&world.outer), expected);
}

#[test]
fn a_call_after_a_dropped_one_is_another_request() {
    let world = World::new(&[Hang, Succeed], 1);
    let outcome = finish_here(in_an_attempt(&world, || async {
        let mut call = world.outer.call(send(&world), Always).boxed_local();
        assert!(poll(&mut call).is_none());
        drop(call);
        world.outer.call(send(&world), Always).await.map_err(last)
    }));
    assert_eq!(outcome, Ok(7));
    let expected = Books { charged: 2, counted: (1, 0), paid: -1, held: 0 };
    assert_eq!(books(&world.outer), expected);
}

#[test]
fn a_failure_among_calls_at_once_is_counted_once() {
    for order in [true, false] {
        let script = if order { [Fail, Hang] } else { [Hang, Fail] };
        let world = World::new(&script, 2);
        let outcome = finish_here(in_an_attempt(&world, || async {
            let one = world.outer.call(send(&world), Always);
            let two = world.outer.call(send(&world), Always);
            futures_util::future::try_join(one, two).await.map(|(one, _)| one).map_err(last)
        }));
        assert_eq!(outcome, Err(Down));
        let books = books(&world.outer);
        assert_eq!((books.charged, books.held, books.counted.1), (2, 0, 1 + u64::from(!order)));
    }
}

#[test]
fn a_call_does_not_wait_for_the_permit_of_its_own_attempt() {
    let world = World::new(&[Succeed, Succeed], 1);
    let outcome = finish_here(in_an_attempt(&world, || async {
        let one = world.outer.call(send(&world), Always);
        let two = world.outer.call(send(&world), Always);
        let (one, two) = futures_util::future::join(one, two).await;
        one.and(two).map_err(last)
    }));
    assert_eq!(outcome, Ok(7));
    let expected = Books { charged: 2, counted: (2, 0), paid: -2, held: 0 };
    assert_eq!(books(&world.outer), expected);
}

#[test]
fn an_attempt_with_its_success_from_elsewhere_leaves_its_request_uncounted() {
    let world = World::new(&[Hang], 1);
    let outcome = finish_here(in_an_attempt(&world, || async {
        let mut call = world.outer.call(send(&world), Always).boxed_local();
        assert!(poll(&mut call).is_none());
        drop(call);
        Ok(1)
    }));
    assert_eq!(outcome, Ok(1));
    assert_eq!(books(&world.outer), Books { charged: 1, counted: (0, 0), paid: 0, held: 0 });
}

#[test]
fn a_usage_after_the_report_of_its_request_changes_nothing() {
    let host = Upstream::new("host")
        .with_quota(Quota::new().with_tokens(Rate::per_hour(100_000)))
        .with_timer(ManualTimer::new());
    let (dear, cheap) =
        (Cost::input(500).with_max_output(1_000), Cost::input(50).with_max_output(100));
    let op = |_| async {
        let failed = async { Err::<u32, _>(Down) }.through(host.at_cost(cheap), Always).await;
        assert!(failed.is_err());
        assert!(resile::quota::record(Usage::new().with_input(400).with_output(40)));
        Ok::<_, Down>(7)
    };
    let call = retry(op, RetryPolicy::none(), resile::Never).on(host.at_cost(dear));
    assert_eq!(finish_here(call.boxed_local()).map_err(last), Ok(7));
    assert_eq!(host.quota_level(Dimension::Tokens), Some(100_000 - 150));
}

#[test]
fn a_spawned_call_is_another_request() {
    let world = World::new(&[Succeed], 2);
    let spawned: RefCell<Option<LocalBoxFuture<'_, Outcome>>> = RefCell::new(None);
    let outcome = finish_here(in_an_attempt(&world, || async {
        let call = async { world.outer.call(send(&world), Always).await.map_err(last) };
        *spawned.borrow_mut() = Some(call.boxed_local());
        Ok(1)
    }));
    assert_eq!(outcome, Ok(1));
    let call = spawned.borrow_mut().take().unwrap();
    assert_eq!(finish_here(call), Ok(7));
    let expected = Books { charged: 2, counted: (2, 0), paid: -2, held: 0 };
    assert_eq!(books(&world.outer), expected);
}

#[test]
fn a_call_that_leaves_its_attempt_keeps_the_admission() {
    let world = World::new(&[Succeed], 2);
    let moved: RefCell<Option<LocalBoxFuture<'_, Outcome>>> = RefCell::new(None);
    let outcome = finish_here(in_an_attempt(&world, || async {
        let call = async { world.outer.call(send(&world), Always).await.map_err(last) };
        let mut call = call.boxed_local();
        assert_eq!(poll(&mut call), None);
        *moved.borrow_mut() = Some(call);
        Err(Down)
    }));
    assert_eq!(outcome, Err(Down));
    let before = Books { charged: 1, counted: (0, 0), paid: 0, held: 1 };
    assert_eq!(books(&world.outer), before);
    let call = moved.borrow_mut().take().unwrap();
    assert_eq!(finish_here(call), Ok(7));
    let after = Books { charged: 1, counted: (1, 0), paid: -1, held: 0 };
    assert_eq!(books(&world.outer), after);
}

#[test]
fn a_call_at_another_cost_is_admitted_at_its_own_cost() {
    let timer = ManualTimer::new();
    let quota =
        || Quota::new().with_requests(Rate::per_hour(1_000)).with_input(Rate::per_hour(100_000));
    let host = Upstream::new("host").with_quota(quota()).with_timer(timer.clone());
    let token = CancellationToken::new();
    let used = || {
        let level = |dimension| host.quota_level(dimension).unwrap();
        (1_000 - level(Dimension::Requests), 100_000 - level(Dimension::Input))
    };
    let ask = |outer: Cost<'static>, inner: Cost<'static>| {
        let (host, token) = (&host, &token);
        let op = move |_| async move {
            let answer = async { Ok::<_, Down>(7) };
            answer.through(host.at_cost(inner), Always).await.map_err(last)
        };
        let call = retry(op, RetryPolicy::none(), token).on(host.at_cost(outer));
        assert_eq!(finish_here(call.boxed_local()).map_err(last), Ok(7));
    };
    ask(Cost::input(500), Cost::input(500));
    assert_eq!(used(), (1, 500));
    ask(Cost::input(500), Cost::input(2_000));
    assert_eq!(used(), (2, 2_500));
}

#[test]
fn the_attempt_charges_the_usage_of_an_answer_that_a_call_within_it_has_fetched() {
    let timer = ManualTimer::new();
    let quota = Quota::new().with_tokens(Rate::per_hour(100_000));
    let host = Upstream::new("host").with_quota(quota).with_timer(timer.clone());
    let cost = Cost::input(500).with_max_output(1_000);
    let op = |_| async {
        let answer =
            async { Ok::<_, Down>(7) }.through(host.at_cost(cost), Always).await.map_err(last);
        assert!(resile::quota::record(Usage::new().with_input(400).with_output(40)));
        answer
    };
    let call = retry(op, RetryPolicy::none(), resile::Never).on(host.at_cost(cost));
    assert_eq!(finish_here(call.boxed_local()).map_err(last), Ok(7));
    assert_eq!(host.quota_level(Dimension::Tokens), Some(100_000 - 440));
}
