//! A request that must not be repeated is sent once, if a cut leaves it without an answer. This holds
//! for every composition that contains `http::Classifier::non_idempotent()`, for every kind of call
//! and for every kind of cut.
//!
//! A hedge that is due before the cut is no repetition of a cut request: hedges duplicate a request
//! by design. So the hedges here are due after the cut.

use std::cell::Cell;
use std::error::Error as StdError;
use std::future::{Future, pending};
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use proptest::prelude::*;
use resile::classify::{Always, ClassifyExt, Cut};
use resile::http::{Classifier, Failure};
use resile::stream::{Part, Resumption};
use resile::time::ManualTimer;
use resile::timeout::{ClassifyOperation, Elapsed, Error};
use resile::{
    Classify, FallbackPolicy, GaveUp, Health, HedgePolicy, Never, ResilienceExt, RetryPolicy, Run,
    StreamResilienceExt, Upstream, Verdict, fallback, hedge, retry, retry_stream,
};

use super::script::drive;

const SECOND: Duration = Duration::from_secs(1);
const POST: Classifier = Classifier::non_idempotent();

type Form<E> = (&'static str, Box<dyn Classify<E>>);

/// The errors of the operations.
trait Fault: StdError + From<Elapsed> + 'static {
    fn is_cut(&self) -> bool;
}

impl Fault for Failure {
    fn is_cut(&self) -> bool {
        self.source().and_then(|source| source.downcast_ref::<Elapsed>()).is_some()
    }
}

impl Fault for Error<Failure> {
    fn is_cut(&self) -> bool {
        matches!(self, Error::Elapsed(_))
    }
}

/// A layer of one's own that forgets `classify_cut`.
struct Forgets<C>(C);

impl<E, C: Classify<E>> Classify<E> for Forgets<C> {
    fn classify(&self, error: &E) -> Option<Verdict> {
        self.0.classify(error)
    }
}

/// A layer of one's own that has no opinion on cuts.
struct Silent<C>(C);

impl<E, C: Classify<E>> Classify<E> for Silent<C> {
    fn classify(&self, error: &E) -> Option<Verdict> {
        self.0.classify(error)
    }

    fn classify_cut(&self, _: Cut) -> Option<Verdict> {
        None
    }
}

/// A layer of one's own that passes both questions on.
struct Forwards<C>(C);

impl<E, C: Classify<E>> Classify<E> for Forwards<C> {
    fn classify(&self, error: &E) -> Option<Verdict> {
        self.0.classify(error)
    }

    fn classify_cut(&self, cut: Cut) -> Option<Verdict> {
        self.0.classify_cut(cut)
    }
}

/// A classifier of another crate, for requests that may be repeated. It knows errors that tell of a
/// cut, and it sends every request again.
#[derive(Clone, Copy)]
struct Repeats;

impl<E: Fault> Classify<E> for Repeats {
    fn classify(&self, error: &E) -> Option<Verdict> {
        let verdict = Verdict::transient();
        Some(if error.is_cut() { verdict.on_cut() } else { verdict })
    }

    fn classify_cut(&self, _: Cut) -> Option<Verdict> {
        Some(Verdict::transient())
    }
}

macro_rules! forms {
    ($($form:expr),* $(,)?) => {
        vec![$((stringify!($form), Box::new($form) as Box<dyn Classify<_>>)),*]
    };
}

/// Returns every way to compose a classifier with `post`.
fn around<E: Fault, C: Classify<E> + Copy + Send + Sync + 'static>(post: C) -> Vec<Form<E>> {
    let none = |_: &E| None::<Verdict>;
    let busy = |error: &E| (!error.is_cut()).then(Verdict::transient);
    let plain = |_: &E| true;
    let eager = |_: &E| Verdict::transient();
    let inside = move |error: &E| post.classify(error);
    let certain = move |error: &E| post.classify(error).unwrap_or(Verdict::fatal());
    let first = move |error: &E| busy(error).or_else(|| post.classify(error));
    let held = move |error: &E| Some(post.classify(error)?.after(SECOND));
    let again = Verdict::transient();
    let erased: &'static dyn Classify<E> = Box::leak(Box::new(post));
    let sync: &'static (dyn Classify<E> + Send + Sync) = Box::leak(Box::new(post));
    let (shared, shared_erased) = (Arc::new(post), Arc::new(post) as Arc<dyn Classify<E>>);
    forms![
        post,
        (none, post),
        (post, none),
        (busy, post),
        (post, busy),
        (plain, post),
        (post, plain),
        (eager, post),
        (post, eager),
        (Always, post),
        (post, Always),
        (Repeats, post),
        (post, Repeats),
        ((none, busy), (post, none)),
        ((plain, (none, post)), Always),
        (Always, ((Always, eager), (plain, post))),
        (post.cut_is(again), Always),
        (busy.cut_is(again), post),
        (post, busy.cut_is(again)),
        (plain.cut_is(again), inside.cut_is(again.not_again())),
        shared.clone(),
        (Always, shared.clone()),
        shared.cut_is(again),
        shared_erased.clone(),
        (shared_erased, plain),
        erased,
        sync,
        (plain, erased),
        erased.cut_is(again),
        Arc::new((busy, sync)),
        inside,
        certain,
        first,
        held,
        (inside, plain),
        (plain, inside),
        (busy, inside),
        (Always, certain),
        (held, Always),
        inside.cut_is(again.not_again()),
        post.cut_is(again),
        (busy, post).cut_is(again),
        (post, plain).cut_is(again).cut_is(again),
        Forgets(post),
        Forwards(post),
        Silent(post),
        Forgets((busy, post)),
        Forwards(Arc::new(post)),
        (plain, Forgets(post)),
        (Forgets(post), plain),
        (plain, Forwards(post)),
        (Silent(post), none),
    ]
}

fn forms_of_failure() -> Vec<Form<Failure>> {
    let mut forms = around(POST);
    let over = POST.over(|post, error: &Failure| post.classify(error));
    let by_bool = POST.over(|post, error: &Failure| {
        post.classify(error).is_some_and(|verdict| verdict.is_again())
    });
    let again = Verdict::transient();
    forms.extend(forms![over, (Always, over), over.cut_is(again), by_bool, (by_bool, Always)]);
    forms
}

fn forms_of_union() -> Vec<Form<Error<Failure>>> {
    let mut forms = around(ClassifyOperation(POST));
    for (name, form) in forms_of_failure() {
        let form: Arc<dyn Classify<Failure>> = form.into();
        // A lifted classifier, alone and beside one that would repeat everything.
        let lifted = ClassifyOperation(form);
        let mine = ClassifyOperation(|_: &Failure| true);
        let stated = ClassifyOperation(mine.0.cut_is(Verdict::transient()));
        forms.push((name, Box::new(lifted.clone())));
        forms.push((name, Box::new((mine, lifted.clone()))));
        forms.push((name, Box::new((lifted.clone(), mine))));
        forms.push((name, Box::new((|_: &Error<Failure>| true, lifted.clone()))));
        // A default yields to a statement, so this is for classifiers with a statement.
        if is_stated(&*lifted.0) {
            forms.push((name, Box::new((stated, lifted.clone()))));
            forms.push((name, Box::new((lifted, stated))));
        }
    }
    let over = POST.over(|post, error: &Error<Failure>| ClassifyOperation(*post).classify(error));
    forms.extend(forms![over, (Always, over)]);
    forms
}

/// A statement remains under `cut_is`, and a default does not.
fn is_stated(classifier: &dyn Classify<Failure>) -> bool {
    let lifted = classifier.cut_is(Verdict::transient()).classify_cut(Cut::Stream);
    lifted.is_some_and(|verdict| !verdict.is_again())
}

/// The ways in which an attempt is cut.
#[derive(Clone, Copy, Debug, PartialEq)]
enum By {
    /// The attempt timeout of the policy.
    Attempt,
    /// The total timeout of the policy.
    Deadline,
    /// `.timeout(…)` within the operation, which makes an error of it.
    Postfix,
    /// The end of a stream without its last item, before content.
    Stream,
    /// The same after content, for a stream that resumes.
    Content,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Retry,
    RunAttempt,
    RunByHand,
    Hedge,
    Stream,
    Fallback,
    /// `Upstream::call` within a retry.
    CallInRetry,
    /// A retry within a retry.
    RetryInRetry,
}

const CALLS: [(Kind, &[By]); 8] = [
    (Kind::Retry, &[By::Attempt, By::Deadline, By::Postfix]),
    (Kind::RunAttempt, &[By::Attempt, By::Deadline, By::Postfix]),
    (Kind::RunByHand, &[By::Postfix]),
    (Kind::Hedge, &[By::Attempt, By::Deadline, By::Postfix]),
    (Kind::Stream, &[By::Attempt, By::Deadline, By::Postfix, By::Stream, By::Content]),
    (Kind::Fallback, &[By::Attempt, By::Deadline, By::Postfix]),
    (Kind::CallInRetry, &[By::Postfix]),
    (Kind::RetryInRetry, &[By::Attempt, By::Deadline, By::Postfix]),
];

/// Returns how often a request is sent that is always cut.
fn sends<E: Fault>(kind: Kind, by: By, classifier: &dyn Classify<E>) -> u32 {
    let (timer, sent) = (ManualTimer::new(), Cell::new(0));
    let upstream = Upstream::new("web").with_timer(timer.clone());
    let op = || async {
        sent.set(sent.get() + 1);
        let hangs = pending::<Result<(), E>>();
        if by == By::Postfix { hangs.timeout(SECOND).on(&upstream).await } else { hangs.await }
    };
    let mut policy = RetryPolicy::new().with_attempts(3);
    if by == By::Attempt {
        policy = policy.with_attempt_timeout(SECOND);
    }
    if by == By::Deadline {
        policy = policy.with_total_timeout(SECOND);
    }
    let policy = policy.with_classifier(classifier);
    let all = Upstream::new("all").with_timer(timer.clone());
    let call: std::pin::Pin<Box<dyn Future<Output = ()>>> = match kind {
        Kind::Retry => Box::pin(async {
            drop(retry(|_| op(), policy, Never).on(&upstream).await);
        }),
        Kind::RunAttempt => Box::pin(async {
            let mut run = Run::new(policy, Never).on(&upstream);
            while let Ok(None) = run.attempt(op()).await {}
        }),
        Kind::RunByHand => Box::pin(async {
            let mut run = Run::new(policy, Never).on(&upstream);
            while run.next().await.is_ok() {
                let Err(error) = op().await else { unreachable!("the operation hangs") };
                if run.failed(error).is_err() {
                    break;
                }
            }
        }),
        Kind::Hedge => Box::pin(async {
            // The hedges are due after the cut.
            let mut policy = HedgePolicy::new().with_delay(SECOND * 2).with_hedges(2);
            if by == By::Attempt {
                policy = policy.with_attempt_timeout(SECOND);
            }
            if by == By::Deadline {
                policy = policy.with_total_timeout(SECOND);
            }
            let policy = policy.with_classifier(classifier);
            drop(hedge(|_| op(), policy, Never).on(&upstream).await);
        }),
        Kind::Stream => Box::pin(async {
            let open = |_| async {
                sent.set(sent.get() + 1);
                Ok::<_, E>(match by {
                    By::Stream | By::Content => stream::iter([Ok(0)]).boxed_local(),
                    By::Postfix => {
                        stream::pending().idle_timeout(SECOND).on(&upstream).boxed_local()
                    }
                    By::Attempt | By::Deadline => stream::pending().boxed_local(),
                })
            };
            let part = if by == By::Content { Part::Content } else { Part::Preamble };
            let items = retry_stream(open, policy, Never)
                .on(&upstream)
                .with_parts(move |_: &i32| part)
                .with_required_end()
                .with_resumption(|_| Resumption::Resume);
            drop(items.collect::<Vec<_>>().await);
        }),
        Kind::Fallback => Box::pin(async {
            let mut policy = FallbackPolicy::new();
            if by == By::Attempt {
                policy = policy.with_attempt_timeout(SECOND);
            }
            if by == By::Deadline {
                policy = policy.with_total_timeout(SECOND);
            }
            let policy = policy.with_classifier(classifier);
            drop(fallback(&[1, 2, 3], |_| op(), policy, Never).on(&upstream).await);
        }),
        Kind::CallInRetry => Box::pin(async {
            let outer = RetryPolicy::new().with_classifier(|it: &GaveUp<E>| it.verdict());
            let classifier = &classifier;
            let inner = |_| async { upstream.call(op(), *classifier).await };
            drop(retry(inner, outer, Never).on(&all).await);
        }),
        Kind::RetryInRetry => Box::pin(async {
            let outer = RetryPolicy::new().with_classifier(|it: &GaveUp<E>| it.verdict());
            let inner = |_| retry(|_| op(), policy, Never).on(&upstream);
            drop(retry(inner, outer, Never).on(&all).await);
        }),
    };
    drive(call, &timer);
    sent.get()
}

fn check<E: Fault>(forms: &[Form<E>]) -> u32 {
    let mut checked = 0;
    for (kind, cuts) in CALLS {
        for by in cuts {
            for (name, form) in forms {
                assert_eq!(sends(kind, *by, &**form), 1, "{kind:?} cut by {by:?} under {name}");
                checked += 1;
            }
        }
    }
    checked
}

#[test]
fn a_request_that_must_not_be_repeated_is_sent_once_if_it_is_cut() {
    assert!(check(&forms_of_failure()) > 1000);
}

#[test]
fn a_lifted_classifier_keeps_the_request_from_being_repeated_too() {
    assert!(check(&forms_of_union()) > 4000);
}

/// The same calls repeat a request that may be repeated. Without this law the two above could not
/// fail.
#[test]
fn the_same_calls_repeat_an_idempotent_request() {
    let get = Classifier::idempotent();
    for (kind, cuts) in CALLS {
        for by in cuts {
            // A deadline ends the call itself. Only an outer call goes on.
            let expected = match (kind, by) {
                (Kind::RetryInRetry, By::Deadline) => 3,
                (Kind::RetryInRetry, _) => 9,
                (_, By::Deadline) | (Kind::Hedge, _) => 1,
                _ => 3,
            };
            assert_eq!(
                sends(kind, *by, &get as &dyn Classify<Failure>),
                expected,
                "{kind:?} {by:?}"
            );
            let lifted = ClassifyOperation(get);
            let lifted = &lifted as &dyn Classify<Error<Failure>>;
            assert_eq!(sends(kind, *by, lifted), expected, "{kind:?} {by:?}");
        }
    }
}

/// What repeats a cut request without any word on cuts: a predicate, and no classifier at all. A
/// predicate cannot show that it asked a classifier, so it is the one exception.
#[test]
fn only_a_predicate_repeats_a_cut_request() {
    let asks = |error: &Failure| POST.classify(error).is_some_and(|verdict| verdict.is_again());
    for (classifier, times) in [
        (&Always as &dyn Classify<Failure>, 3),
        (&(|_: &Failure| true), 3),
        (&asks, 3),
        (&(|_: &Failure| Verdict::transient()), 1),
        (&(|_: &Failure| Some(Verdict::transient())), 1),
        (&(|_: &Failure| Verdict::fatal()).cut_is(Verdict::transient()), 3),
    ] {
        assert_eq!(sends(Kind::Retry, By::Attempt, classifier), times);
    }
    // The timeout of the operation is an error, and the classifier within answers for it.
    assert_eq!(sends(Kind::Retry, By::Postfix, &asks), 1);
}

/// A hedge that is due before the cut duplicates the request by design. The cut itself repeats
/// nothing.
#[test]
fn a_hedge_before_the_cut_is_a_duplicate_and_no_repetition() {
    let (timer, sent) = (ManualTimer::new(), Cell::new(0));
    let policy = HedgePolicy::new()
        .with_delay(SECOND)
        .with_hedges(1)
        .with_attempt_timeout(SECOND * 3)
        .with_classifier(POST);
    let op = |_| {
        sent.set(sent.get() + 1);
        pending::<Result<(), Failure>>()
    };
    let upstream = Upstream::new("web").with_timer(timer.clone());
    drop(drive(hedge(op, policy, Never).on(&upstream), &timer));
    assert_eq!(sent.get(), 2);
}

/// A composition of classifiers. A leaf is one of [`LEAVES`].
#[derive(Clone, Debug)]
enum Tree {
    Leaf(usize),
    Pair(Box<Tree>, Box<Tree>),
    CutIs(Box<Tree>, bool),
    Forwards(Box<Tree>),
}

type Shared = Arc<dyn Classify<Error<Failure>> + Send + Sync>;

const LEAVES: usize = 7;

fn leaf(index: usize) -> Shared {
    match index {
        0 => Arc::new(ClassifyOperation(POST)),
        1 => Arc::new(ClassifyOperation(Classifier::idempotent())),
        2 => Arc::new(ClassifyOperation(|_: &Failure| true)),
        3 => Arc::new(ClassifyOperation(|_: &Failure| Verdict::throttled())),
        4 => Arc::new(|_: &Error<Failure>| true),
        5 => Arc::new(|_: &Error<Failure>| None::<Verdict>),
        _ => Arc::new(Always),
    }
}

impl Tree {
    fn build(&self) -> Shared {
        match self {
            Self::Leaf(index) => leaf(*index),
            Self::Pair(first, second) => Arc::new((first.build(), second.build())),
            Self::CutIs(inner, true) => Arc::new(inner.build().cut_is(Verdict::transient())),
            Self::CutIs(inner, false) => {
                Arc::new(inner.build().cut_is(Verdict::transient().not_again()))
            }
            Self::Forwards(inner) => Arc::new(Forwards(inner.build())),
        }
    }

    /// Returns whether a classifier within states that a cut request must not be sent again.
    fn protects(&self) -> bool {
        match self {
            Self::Leaf(index) => *index == 0,
            Self::Pair(first, second) => first.protects() || second.protects(),
            Self::CutIs(inner, again) => !again || inner.protects(),
            Self::Forwards(inner) => inner.protects(),
        }
    }
}

fn tree() -> impl Strategy<Value = Tree> {
    (0..LEAVES).prop_map(Tree::Leaf).prop_recursive(5, 24, 2, |inner| {
        let boxed = || inner.clone().prop_map(Box::new);
        prop_oneof![
            4 => (boxed(), boxed()).prop_map(|(first, second)| Tree::Pair(first, second)),
            1 => (boxed(), any::<bool>()).prop_map(|(inner, again)| Tree::CutIs(inner, again)),
            1 => boxed().prop_map(Tree::Forwards),
        ]
    })
}

proptest! {
    /// One statement protects the request wherever it stands, also if the cut is an error. The
    /// upstream counts as failing.
    #[test]
    fn a_statement_protects_the_request_wherever_it_stands(tree in tree()) {
        let classifier = tree.build();
        for cut in [Cut::AttemptTimeout(SECOND), Cut::Deadline, Cut::Stream] {
            let verdict = classifier.classify_cut(cut).unwrap();
            prop_assert!(!(verdict.is_again() && tree.protects()), "{:?}", verdict);
            prop_assert_eq!(verdict.health(), Health::Failing);
        }
    }

    /// A stated `cut_is` decides only for cuts, so the errors need a classifier that knows them.
    #[test]
    fn a_classifier_protects_the_request_after_its_own_timeout_wherever_it_stands(
        mut trees in prop::collection::vec(0..LEAVES, 1..6),
        at in any::<prop::sample::Index>(),
        rightwards in any::<bool>(),
    ) {
        trees.insert(at.index(trees.len() + 1), 0);
        let leaves = trees.into_iter().map(leaf);
        let pair = |first: Shared, second: Shared| Arc::new((first, second)) as Shared;
        let classifier = if rightwards {
            leaves.rev().reduce(|second, first| pair(first, second))
        } else {
            leaves.reduce(pair)
        };
        let timer = ManualTimer::new();
        let web = Upstream::new("web").with_timer(timer.clone());
        let hangs = pending::<Result<(), Error<Failure>>>().timeout(SECOND).on(&web);
        let elapsed = drive(hangs, &timer).unwrap_err();
        prop_assert!(!classifier.unwrap().classify(&elapsed).unwrap().is_again());
    }
}
