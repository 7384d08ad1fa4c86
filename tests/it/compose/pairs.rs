//! Every pair of postfix adapters and of guarded calls on an upstream, in both orders, under every kind of error type,
//! inside a retry: held against a model of ten lines, in which each layer knows only what is beneath it.

use std::cell::RefCell;
use std::error::Error as StdError;
use std::time::Duration;

use futures_util::TryFutureExt;
use futures_util::future::join3;
use resile::bulkhead::Full;
use resile::chaos::Chaos;
use resile::timeout::Elapsed;
use resile::{
    AdaptiveTimeout, Always, Backoff, Breaker, Bulkhead, Cooldown, Cut, Error, GaveUp, Never,
    ResilienceExt, RetryPolicy, StopReason, Upstream, Verdict, retry,
};
use tokio::time::{Instant, sleep, timeout};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(60 * 60);
const FIXED: Duration = Duration::from_secs(10);
const ADAPTIVE: Duration = Duration::from_secs(15);
/// When a place becomes free and a hold ends; how long a dawdling call dawdles. No sum of limits, so nothing ties.
const LATE: Duration = Duration::from_secs(22);
const ATTEMPTS: u32 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum Fault {
    #[error("the operation failed")]
    Operation,
    #[error("it was made to fail")]
    Chaos,
    #[error("an upstream cut it after {0:?}")]
    Cut(Duration),
    #[error("an upstream refused it: {0}")]
    Refused(StopReason),
}

/// What an error is, told by its own type's means: by a variant, by a downcast. One level: nothing is nested.
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

trait Failure: From<Elapsed> + From<Full> + std::fmt::Display {
    fn of(fault: Fault) -> Self;
    fn seen(&self) -> Seen;
}

/// What a guarded call came to, as an error of the operation's own type.
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
            Self::Full(_) => Seen::Full,
            other => panic!("{other:?}"),
        }
    }
}

/// A caller's own.
#[derive(Debug, thiserror::Error)]
enum CallError {
    #[error(transparent)]
    Fault(Fault),
    #[error("too late")]
    Late(#[from] Elapsed),
    #[error("busy")]
    Busy(#[from] Full),
}

impl Failure for CallError {
    fn of(fault: Fault) -> Self {
        Self::Fault(fault)
    }

    fn seen(&self) -> Seen {
        match self {
            Self::Fault(fault) => fault.seen(),
            Self::Late(elapsed) => Seen::Elapsed(elapsed.limit()),
            Self::Busy(_) => Seen::Full,
        }
    }
}

fn downcast(error: &(dyn StdError + 'static)) -> Seen {
    let fault = error.downcast_ref().copied().map(Fault::seen);
    let elapsed = || error.downcast_ref::<Elapsed>().map(|elapsed| Seen::Elapsed(elapsed.limit()));
    let full = || error.is::<Full>().then_some(Seen::Full);
    fault.or_else(elapsed).or_else(full).unwrap_or_else(|| panic!("{error:?}"))
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
    Limited,
    Chaos,
    /// Calls on an upstream that learns, and has a breaker, a bulkhead, a cooldown.
    Adaptive,
    Guarded,
    Seated,
    Paced,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mood {
    Calm,
    Late,
    Refusing,
    Hanging,
}

impl Adapter {
    const fn moods(self) -> &'static [Mood] {
        match self {
            Self::Fixed | Self::Adaptive => &[Mood::Calm],
            Self::Guarded => &[Mood::Calm, Mood::Refusing],
            Self::Limited | Self::Seated => &[Mood::Calm, Mood::Late, Mood::Refusing],
            Self::Paced => &[Mood::Calm, Mood::Late],
            Self::Chaos => &[Mood::Calm, Mood::Late, Mood::Refusing, Mood::Hanging],
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layer {
    adapter: Adapter,
    mood: Mood,
}

/// What the operation does after a second, if anything.
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

/// When something ends and how; `None` is never.
type End = Option<(Duration, Result<(), Seen>)>;

/// The model: how what is under `layers`, the outermost first, ends if it begins `at`. Breakers are told in `heard` what
/// comes to them: the number of layers beneath, when, and whether it was a success.
fn end(layers: &[Layer], op: Op, at: Duration, heard: &mut Vec<(usize, Duration, bool)>) -> End {
    let Some((layer, beneath)) = layers.split_first() else {
        return match op {
            Op::Succeed => Some((at + SECOND, Ok(()))),
            Op::Fail => Some((at + SECOND, Err(Seen::Fault(Fault::Operation)))),
            Op::Hang => None,
        };
    };
    let limit = if layer.adapter == Adapter::Fixed { FIXED } else { ADAPTIVE };
    match (layer.adapter, layer.mood) {
        (Adapter::Fixed | Adapter::Adaptive, _) => {
            let inner = end(beneath, op, at, heard).filter(|(ended, _)| *ended < at + limit);
            inner.or(Some((at + limit, Err(Seen::Elapsed(limit)))))
        }
        (Adapter::Guarded, Mood::Calm) => {
            let inner = end(beneath, op, at, heard);
            heard.extend(inner.map(|(ended, outcome)| (beneath.len(), ended, outcome.is_ok())));
            inner
        }
        (Adapter::Guarded, _) => Some((at, Err(Seen::Open))),
        (Adapter::Limited | Adapter::Seated, Mood::Refusing) => Some((at, Err(Seen::Full))),
        (Adapter::Limited | Adapter::Seated | Adapter::Paced, Mood::Late) => {
            end(beneath, op, at.max(LATE), heard)
        }
        (Adapter::Chaos, Mood::Late) => end(beneath, op, at + LATE, heard),
        (Adapter::Chaos, Mood::Refusing) => Some((at, Err(Seen::Fault(Fault::Chaos)))),
        (Adapter::Chaos, Mood::Hanging) => None,
        (Adapter::Limited | Adapter::Seated | Adapter::Paced | Adapter::Chaos, _) => {
            end(beneath, op, at, heard)
        }
    }
}

/// What the whole call comes to.
#[derive(Debug, Default, PartialEq, Eq)]
struct Story {
    /// What the classifier was shown.
    judged: Vec<Seen>,
    /// When it ended and how. Never, if the last attempt hangs.
    end: Option<(u64, Result<(), Seen>)>,
    /// How many calls each breaker counted, and how many of them as failed: the outer layer's and the inner's.
    counted: [(u64, u64); 2],
}

/// The story as the model tells it.
fn expected(layers: [Layer; 2], op: Op) -> Story {
    let (mut story, mut at) = (Story::default(), Duration::ZERO);
    for attempt in 1..=ATTEMPTS {
        let mut heard = vec![];
        let ended = end(&layers, op, at, &mut heard);
        // What was cut before it ended came to nobody's ears.
        for (beneath, _, ok) in
            heard.into_iter().filter(|(_, when, _)| ended.is_none_or(|(ended, _)| *when <= ended))
        {
            let (calls, failures) = &mut story.counted[1 - beneath];
            (*calls, *failures) = (*calls + 1, *failures + u64::from(!ok));
        }
        let Some((ended, outcome)) = ended else { break };
        at = ended;
        story.judged.extend(outcome.err());
        if outcome.is_ok() || attempt == ATTEMPTS {
            story.end = Some((at.as_secs(), outcome));
            break;
        }
    }
    story
}

/// One of each, in the mood of its layer.
struct Rig<E> {
    learns: Upstream,
    guards: Upstream,
    seats: Upstream,
    paces: Upstream,
    bulkhead: Bulkhead,
    chaos: Chaos<fn() -> E>,
    layer: Layer,
}

impl<E: Failure> Rig<E> {
    fn new(layer: Layer) -> Self {
        let rate = |mood| if layer.mood == mood { 1.0 } else { 0.0 };
        let make: fn() -> E = || E::of(Fault::Chaos);
        let chaos = Chaos::new(0)
            .with_latency(rate(Mood::Late), LATE, LATE)
            .with_hangs(rate(Mood::Hanging));
        let upstream = || Upstream::new("host").with_observer(&());
        let bulkhead = || Bulkhead::new(u32::from(layer.mood != Mood::Refusing));
        let cooldown = Cooldown::new().with_jitter(0.0).with_least_spread(Duration::ZERO);
        let rig = Self {
            learns: upstream().with_adaptive_timeout(AdaptiveTimeout::new().with_ceiling(ADAPTIVE)),
            guards: upstream().with_breaker(Breaker::new().with_window(HOUR * 24)),
            seats: upstream().with_bulkhead(bulkhead()),
            paces: upstream().with_cooldown(cooldown),
            bulkhead: bulkhead(),
            chaos: chaos.with_errors(rate(Mood::Refusing), make),
            layer,
        };
        if layer.mood == Mood::Late {
            rig.paces.hold(LATE);
        }
        rig
    }

    fn bulkheads(&self) -> [&Bulkhead; 2] {
        [&self.bulkhead, self.seats.bulkhead().unwrap()]
    }

    /// Another call is in the bulkheads, and the breaker is held open, as its layer wants.
    async fn occupy(&self, until: Instant) {
        let _isolation = (self.layer.mood == Mood::Refusing).then(|| self.guards.isolate());
        let place = (self.layer.mood == Mood::Late)
            .then(|| self.bulkheads().map(|bulkhead| bulkhead.try_acquire().unwrap()));
        sleep(LATE).await;
        drop(place);
        tokio::time::sleep_until(until).await;
    }
}

/// The story as it is.
async fn told<E: Failure>(
    layers: [Layer; 2],
    op: Op,
    compose: &impl AsyncFn(Op, &Rig<E>, &Rig<E>) -> Result<(), E>,
) -> Story {
    let (began, judged) = (Instant::now(), RefCell::new(vec![]));
    let [outer, inner] = layers.map(Rig::new);
    let policy = RetryPolicy::new()
        .with_attempts(ATTEMPTS)
        .without_total_timeout()
        .with_backoff(Backoff::none());
    let policy = policy.with_classifier(|error: &E| {
        judged.borrow_mut().push(error.seen());
        Verdict::transient()
    });
    let call = async {
        let outcome =
            timeout(HOUR, retry(|_| compose(op, &inner, &outer), &policy, Never)).await.ok()?;
        Some((began.elapsed().as_secs(), outcome.map_err(|gave_up| gave_up.last().unwrap().seen())))
    };
    let until = began + HOUR * 2;
    // Polled in this order: both layers are occupied before the call begins.
    let ((), (), end) = join3(outer.occupy(until), inner.occupy(until), call).await;
    for bulkhead in [&outer, &inner].into_iter().flat_map(Rig::bulkheads) {
        assert_eq!((bulkhead.in_flight(), bulkhead.waiting()), (0, 0), "{layers:?} {op:?}");
    }
    let counted = [&outer, &inner].map(|rig| {
        let snapshot = rig.guards.snapshot().unwrap();
        (snapshot.calls, snapshot.failures)
    });
    Story { judged: judged.into_inner(), end, counted }
}

/// Every mood of those two around every operation.
async fn check<E: Failure>(
    adapters: [Adapter; 2],
    compose: impl AsyncFn(Op, &Rig<E>, &Rig<E>) -> Result<(), E>,
) {
    for mood in adapters[0].moods() {
        for inner in adapters[1].moods() {
            for op in [Op::Succeed, Op::Fail, Op::Hang] {
                let layers = [
                    Layer { adapter: adapters[0], mood: *mood },
                    Layer { adapter: adapters[1], mood: *inner },
                ];
                assert_eq!(
                    told(layers, op, &compose).await,
                    expected(layers, op),
                    "{layers:?} {op:?}"
                );
            }
        }
    }
}

macro_rules! adapt {
    ($future:expr, Fixed, $rig:ident) => {{
        let _ = $rig; // it needs nothing of it
        $future.timeout(FIXED)
    }};
    ($future:expr, Limited, $rig:ident) => {
        $future.limited_by(&$rig.bulkhead)
    };
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
        $rig.seats.call($future, Always).map_err(lower)
    };
    ($future:expr, Paced, $rig:ident) => {
        $rig.paces.call($future, Always).map_err(lower)
    };
}

macro_rules! under {
    ($error:ty, $outer:ident, $($inner:ident)*) => {
        // Boxed, each in a frame of its own: unoptimised, all of them are more than a thread's stack.
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
            under!($error, Fixed, Fixed Adaptive Guarded Limited Seated Paced Chaos);
            under!($error, Adaptive, Fixed Adaptive Guarded Limited Seated Paced Chaos);
            under!($error, Guarded, Fixed Adaptive Guarded Limited Seated Paced Chaos);
            under!($error, Limited, Fixed Adaptive Guarded Limited Seated Paced Chaos);
            under!($error, Seated, Fixed Adaptive Guarded Limited Seated Paced Chaos);
            under!($error, Paced, Fixed Adaptive Guarded Limited Seated Paced Chaos);
            under!($error, Chaos, Fixed Adaptive Guarded Limited Seated Paced Chaos);
        })*
    };
}

every_pair! {
    under_the_ready_made_union: Error<Fault>;
    under_an_enum_of_ones_own: CallError;
    under_anyhow: anyhow::Error;
    under_a_boxed_error: Box<dyn StdError + Send + Sync>;
}

/// The model itself, where the order matters: by hand.
#[test]
fn the_model_knows_what_a_place_is() {
    let layer = |adapter, mood| Layer { adapter, mood };
    let [fixed, longer] =
        [Adapter::Fixed, Adapter::Adaptive].map(|adapter| layer(adapter, Mood::Calm));
    let waits = layer(Adapter::Limited, Mood::Late);
    let guarded = layer(Adapter::Guarded, Mood::Calm);
    // Waiting in line counts against a limit around it, and not against one within.
    let story = expected([longer, waits], Op::Succeed);
    assert_eq!((story.judged, story.end), (vec![Seen::Elapsed(ADAPTIVE)], Some((23, Ok(())))));
    assert_eq!(expected([waits, fixed], Op::Succeed).end, Some((23, Ok(()))));
    // A breaker around a limit hears that it ran out; within, it hears nothing.
    assert_eq!(expected([guarded, fixed], Op::Hang).counted, [(2, 2), (0, 0)]);
    assert_eq!(expected([fixed, guarded], Op::Hang).counted, [(0, 0), (0, 0)]);
    // Around a bulkhead it takes being full for a failure; within, it is not asked.
    let full = layer(Adapter::Limited, Mood::Refusing);
    assert_eq!(expected([guarded, full], Op::Succeed).counted, [(2, 2), (0, 0)]);
    assert_eq!(expected([full, guarded], Op::Succeed).counted, [(0, 0), (0, 0)]);
}
