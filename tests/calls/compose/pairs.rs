//! Every pair of postfix adapters and of guarded calls on an upstream, inside a retry. Both orders
//! and every kind of error type agree with a model of ten lines.
//!
//! In the model each layer knows only the layers beneath it.

use std::cell::RefCell;
use std::error::Error as StdError;
use std::time::Duration;

use futures_util::TryFutureExt;
use futures_util::future::join3;
use resile::chaos::Chaos;
use resile::classify::{Always, Cut};
use resile::timeout::{Elapsed, Error};
use resile::{
    AdaptiveTimeout, Backoff, Breaker, Bulkhead, Cooldown, GaveUp, Never, ResilienceExt,
    RetryPolicy, StopReason, Upstream, Verdict, retry,
};
use tokio::time::{Instant, sleep, timeout};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(60 * 60);
const FIXED: Duration = Duration::from_secs(10);
const ADAPTIVE: Duration = Duration::from_secs(15);
/// The time at which a permit becomes free and a hold ends, and the latency of a late call. It
/// equals no sum of limits, so no two events come at one instant.
const LATE: Duration = Duration::from_secs(22);
const ATTEMPTS: u32 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum Fault {
    #[error("the operation failed")]
    Operation,
    #[error("a fault was injected")]
    Chaos,
    #[error("an upstream cut the call after {0:?}")]
    Cut(Duration),
    #[error("an upstream refused the call: {0}")]
    Refused(StopReason),
}

/// The kind of an error, found through its own type: by its variant or by a downcast. Errors are
/// not nested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    Fault(Fault),
    Elapsed(Duration),
    Open,
    Full,
}

impl Fault {
    fn seen(self) -> Seen {
        match self {
            Self::Cut(limit) => Seen::Elapsed(limit),
            Self::Refused(StopReason::Open) => Seen::Open,
            Self::Refused(StopReason::Full) => Seen::Full,
            fault => Seen::Fault(fault),
        }
    }
}

trait Failure: From<Elapsed> + std::fmt::Display {
    fn of(fault: Fault) -> Self;
    fn seen(&self) -> Seen;
}

/// Converts the end of a guarded call into an error of the operation's own type.
fn lower<E: Failure>(gave_up: GaveUp<E>) -> E {
    match (gave_up.reason(), gave_up.cut()) {
        (_, Some(Cut::AttemptTimeout(limit))) => E::of(Fault::Cut(limit)),
        (reason @ (StopReason::Open | StopReason::Full), _) => E::of(Fault::Refused(reason)),
        _ => gave_up.into_last().unwrap(),
    }
}

impl Failure for Error<Fault> {
    fn of(fault: Fault) -> Self {
        Self::Operation(fault)
    }

    fn seen(&self) -> Seen {
        match self {
            Self::Operation(fault) => fault.seen(),
            Self::Elapsed(elapsed) => Seen::Elapsed(elapsed.limit()),
            other => panic!("{other:?}"),
        }
    }
}

/// An error type of the caller.
#[derive(Debug, thiserror::Error)]
enum CallError {
    #[error(transparent)]
    Fault(Fault),
    #[error("too late")]
    Late(#[from] Elapsed),
}

impl Failure for CallError {
    fn of(fault: Fault) -> Self {
        Self::Fault(fault)
    }

    fn seen(&self) -> Seen {
        match self {
            Self::Fault(fault) => fault.seen(),
            Self::Late(elapsed) => Seen::Elapsed(elapsed.limit()),
        }
    }
}

fn downcast(error: &(dyn StdError + 'static)) -> Seen {
    let fault = error.downcast_ref().copied().map(Fault::seen);
    let elapsed = || error.downcast_ref::<Elapsed>().map(|elapsed| Seen::Elapsed(elapsed.limit()));
    fault.or_else(elapsed).unwrap_or_else(|| panic!("{error:?}"))
}

impl Failure for anyhow::Error {
    fn of(fault: Fault) -> Self {
        fault.into()
    }

    fn seen(&self) -> Seen {
        downcast(self.as_ref())
    }
}

impl Failure for Box<dyn StdError + Send + Sync> {
    fn of(fault: Fault) -> Self {
        fault.into()
    }

    fn seen(&self) -> Seen {
        downcast(self.as_ref())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Adapter {
    Fixed,
    Chaos,
    /// A call on an upstream with an adaptive timeout. The next three have a breaker, a bulkhead
    /// and a cooldown.
    Adaptive,
    Guarded,
    Seated,
    Paced,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Calm,
    Late,
    Refusing,
    Hanging,
}

impl Adapter {
    const fn states(self) -> &'static [State] {
        match self {
            Self::Fixed | Self::Adaptive => &[State::Calm],
            Self::Guarded => &[State::Calm, State::Refusing],
            Self::Seated => &[State::Calm, State::Late, State::Refusing],
            Self::Paced => &[State::Calm, State::Late],
            Self::Chaos => &[State::Calm, State::Late, State::Refusing, State::Hanging],
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layer {
    adapter: Adapter,
    state: State,
}

/// The operation's behaviour after one second.
#[derive(Clone, Copy, Debug)]
enum Op {
    Succeed,
    Fail,
    Hang,
}

impl Op {
    async fn run<E: Failure>(self) -> Result<(), E> {
        if let Self::Hang = self {
            std::future::pending::<()>().await;
        }
        sleep(SECOND).await;
        if let Self::Fail = self { Err(E::of(Fault::Operation)) } else { Ok(()) }
    }
}

/// The time and the outcome of an end. `None` means never.
type End = Option<(Duration, Result<(), Seen>)>;

/// The model: returns the end of the operation under `layers`, the outermost first, if it starts
/// `at`. `reported` collects the outcomes for breakers: the number of layers beneath, the time, and
/// whether it was a success.
fn end(layers: &[Layer], op: Op, at: Duration, reported: &mut Vec<(usize, Duration, bool)>) -> End {
    let Some((layer, beneath)) = layers.split_first() else {
        return match op {
            Op::Succeed => Some((at + SECOND, Ok(()))),
            Op::Fail => Some((at + SECOND, Err(Seen::Fault(Fault::Operation)))),
            Op::Hang => None,
        };
    };
    let limit = if layer.adapter == Adapter::Fixed { FIXED } else { ADAPTIVE };
    match (layer.adapter, layer.state) {
        (Adapter::Fixed | Adapter::Adaptive, _) => {
            let inner = end(beneath, op, at, reported).filter(|(ended, _)| *ended < at + limit);
            inner.or(Some((at + limit, Err(Seen::Elapsed(limit)))))
        }
        (Adapter::Guarded, State::Calm) => {
            let inner = end(beneath, op, at, reported);
            reported.extend(inner.map(|(ended, outcome)| (beneath.len(), ended, outcome.is_ok())));
            inner
        }
        (Adapter::Guarded, _) => Some((at, Err(Seen::Open))),
        (Adapter::Seated, State::Refusing) => Some((at, Err(Seen::Full))),
        (Adapter::Seated | Adapter::Paced, State::Late) => end(beneath, op, at.max(LATE), reported),
        (Adapter::Chaos, State::Late) => end(beneath, op, at + LATE, reported),
        (Adapter::Chaos, State::Refusing) => Some((at, Err(Seen::Fault(Fault::Chaos)))),
        (Adapter::Chaos, State::Hanging) => None,
        (Adapter::Seated | Adapter::Paced | Adapter::Chaos, _) => end(beneath, op, at, reported),
    }
}

/// The result of a whole call.
#[derive(Debug, Default, PartialEq, Eq)]
struct Summary {
    /// The errors that the classifier was given.
    classified: Vec<Seen>,
    /// The time and the outcome of the end. `None` if the last attempt hangs.
    end: Option<(u64, Result<(), Seen>)>,
    /// The calls and the failures in each breaker, the outer layer's first.
    counted: [(u64, u64); 2],
}

/// Returns the summary of the model.
fn expected(layers: [Layer; 2], op: Op) -> Summary {
    let (mut summary, mut at) = (Summary::default(), Duration::ZERO);
    for attempt in 1..=ATTEMPTS {
        let mut reported = vec![];
        let ended = end(&layers, op, at, &mut reported);
        // Outcomes after the cut are not reported.
        for (beneath, _, ok) in reported
            .into_iter()
            .filter(|(_, when, _)| ended.is_none_or(|(ended, _)| *when <= ended))
        {
            let (calls, failures) = &mut summary.counted[1 - beneath];
            (*calls, *failures) = (*calls + 1, *failures + u64::from(!ok));
        }
        let Some((ended, outcome)) = ended else { break };
        at = ended;
        summary.classified.extend(outcome.err());
        if outcome.is_ok() || attempt == ATTEMPTS {
            summary.end = Some((at.as_secs(), outcome));
            break;
        }
    }
    summary
}

/// One of each part, in the state of its layer.
struct Rig<E> {
    learns: Upstream,
    guards: Upstream,
    seats: Upstream,
    paces: Upstream,
    chaos: Chaos<fn() -> E>,
    layer: Layer,
}

impl<E: Failure> Rig<E> {
    fn new(layer: Layer) -> Self {
        let rate = |state| if layer.state == state { 1.0 } else { 0.0 };
        let make: fn() -> E = || E::of(Fault::Chaos);
        let chaos = Chaos::new(0)
            .with_latency(rate(State::Late), LATE, LATE)
            .with_hangs(rate(State::Hanging));
        let upstream = || Upstream::new("host").with_observer(&());
        let bulkhead = || Bulkhead::new(u32::from(layer.state != State::Refusing));
        let cooldown = Cooldown::new().with_jitter(0.0);
        let rig = Self {
            learns: upstream().with_adaptive_timeout(AdaptiveTimeout::new().with_ceiling(ADAPTIVE)),
            guards: upstream().with_breaker(Breaker::new().with_window(HOUR * 24)),
            seats: upstream().with_bulkhead(bulkhead()),
            paces: upstream().with_cooldown(cooldown),
            chaos: chaos.with_errors(rate(State::Refusing), make),
            layer,
        };
        if layer.state == State::Late {
            rig.paces.hold(LATE);
        }
        rig
    }

    /// Occupies the bulkhead and isolates the breaker as the layer requires.
    async fn occupy(&self, until: Instant) {
        let _isolation = (self.layer.state == State::Refusing).then(|| self.guards.isolate());
        let place = (self.layer.state == State::Late).then(|| self.seats.try_admit().unwrap());
        sleep(LATE).await;
        drop(place);
        tokio::time::sleep_until(until).await;
    }
}

/// Returns the summary of a real call.
async fn observed<E: Failure>(
    layers: [Layer; 2],
    op: Op,
    compose: &impl AsyncFn(Op, &Rig<E>, &Rig<E>) -> Result<(), E>,
) -> Summary {
    let (began, classified) = (Instant::now(), RefCell::new(vec![]));
    let [outer, inner] = layers.map(Rig::new);
    let policy = RetryPolicy::new()
        .with_attempts(ATTEMPTS)
        .without_total_timeout()
        .with_backoff(Backoff::none());
    let policy = policy.with_classifier(|error: &E| {
        classified.borrow_mut().push(error.seen());
        Verdict::transient()
    });
    let call = async {
        let outcome =
            timeout(HOUR, retry(|_| compose(op, &inner, &outer), &policy, Never)).await.ok()?;
        Some((began.elapsed().as_secs(), outcome.map_err(|gave_up| gave_up.last().unwrap().seen())))
    };
    let until = began + HOUR * 2;
    // The order of polling matters: both layers are occupied before the call begins.
    let ((), (), end) = join3(outer.occupy(until), inner.occupy(until), call).await;
    for bulkhead in [&outer, &inner].map(|rig| rig.seats.bulkhead().unwrap()) {
        assert_eq!((bulkhead.in_flight(), bulkhead.waiting()), (0, 0), "{layers:?} {op:?}");
    }
    let counted = [&outer, &inner].map(|rig| {
        let snapshot = rig.guards.snapshot().unwrap();
        (snapshot.calls, snapshot.failures)
    });
    Summary { classified: classified.into_inner(), end, counted }
}

/// Checks every state of both adapters with every operation.
async fn check<E: Failure>(
    adapters: [Adapter; 2],
    compose: impl AsyncFn(Op, &Rig<E>, &Rig<E>) -> Result<(), E>,
) {
    for state in adapters[0].states() {
        for inner in adapters[1].states() {
            for op in [Op::Succeed, Op::Fail, Op::Hang] {
                let layers = [
                    Layer { adapter: adapters[0], state: *state },
                    Layer { adapter: adapters[1], state: *inner },
                ];
                assert_eq!(
                    observed(layers, op, &compose).await,
                    expected(layers, op),
                    "{layers:?} {op:?}"
                );
            }
        }
    }
}

macro_rules! adapt {
    ($future:expr, Fixed, $rig:ident) => {{
        let _ = $rig; // a fixed timeout needs no part of the rig
        $future.timeout(FIXED)
    }};
    ($future:expr, Chaos, $rig:ident) => {
        $future.chaos(&$rig.chaos)
    };
    ($future:expr, Adaptive, $rig:ident) => {
        $rig.learns.call($future, Always).map_err(lower)
    };
    ($future:expr, Guarded, $rig:ident) => {
        $rig.guards.call($future, Always).map_err(lower)
    };
    ($future:expr, Seated, $rig:ident) => {
        $future.through(&$rig.seats, Always).map_err(lower)
    };
    ($future:expr, Paced, $rig:ident) => {
        $rig.paces.call($future, Always).map_err(lower)
    };
}

macro_rules! under {
    ($error:ty, $outer:ident, $($inner:ident)*) => {
        // Each check is boxed in its own frame. Without optimisation all of them together overflow
        // the stack of a thread.
        $({
            let compose = async |op: Op, inner: &Rig<$error>, outer: &Rig<$error>| {
                let adapted = adapt!(op.run::<$error>(), $inner, inner);
                adapt!(adapted, $outer, outer).await
            };
            let boxed = || Box::pin(check::<$error>([Adapter::$outer, Adapter::$inner], compose));
            boxed().await;
        })*
    };
}

macro_rules! every_pair {
    ($($test:ident: $error:ty;)*) => {
        $(#[tokio::test(start_paused = true)]
        async fn $test() {
            under!($error, Fixed, Fixed Adaptive Guarded Seated Paced Chaos);
            under!($error, Adaptive, Fixed Adaptive Guarded Seated Paced Chaos);
            under!($error, Guarded, Fixed Adaptive Guarded Seated Paced Chaos);
            under!($error, Seated, Fixed Adaptive Guarded Seated Paced Chaos);
            under!($error, Paced, Fixed Adaptive Guarded Seated Paced Chaos);
            under!($error, Chaos, Fixed Adaptive Guarded Seated Paced Chaos);
        })*
    };
}

every_pair! {
    every_pair_agrees_with_the_model_under_resile_error: Error<Fault>;
    every_pair_agrees_with_the_model_under_an_enum: CallError;
    every_pair_agrees_with_the_model_under_anyhow: anyhow::Error;
    every_pair_agrees_with_the_model_under_a_boxed_error: Box<dyn StdError + Send + Sync>;
}

/// The order of layers matters. These expectations of the model are written by hand.
#[test]
fn the_model_depends_on_the_order_of_layers() {
    let layer = |adapter, state| Layer { adapter, state };
    let [fixed, longer] =
        [Adapter::Fixed, Adapter::Adaptive].map(|adapter| layer(adapter, State::Calm));
    let waits = layer(Adapter::Seated, State::Late);
    let guarded = layer(Adapter::Guarded, State::Calm);
    // A wait in the queue counts against a limit around it, but not against a limit inside it.
    let summary = expected([longer, waits], Op::Succeed);
    assert_eq!(
        (summary.classified, summary.end),
        (vec![Seen::Elapsed(ADAPTIVE)], Some((23, Ok(()))))
    );
    assert_eq!(expected([waits, fixed], Op::Succeed).end, Some((23, Ok(()))));
    // A breaker around a limit counts the elapsed limit. A breaker inside the limit counts nothing.
    assert_eq!(expected([guarded, fixed], Op::Hang).counted, [(2, 2), (0, 0)]);
    assert_eq!(expected([fixed, guarded], Op::Hang).counted, [(0, 0), (0, 0)]);
    // A breaker around a bulkhead counts "full" as a failure. A breaker inside the bulkhead is not
    // asked.
    let full = layer(Adapter::Seated, State::Refusing);
    assert_eq!(expected([guarded, full], Op::Succeed).counted, [(2, 2), (0, 0)]);
    assert_eq!(expected([full, guarded], Op::Succeed).counted, [(0, 0), (0, 0)]);
}
