//! A thread that makes calls: it polls, cancels and drops them, and moves the clock.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use resile::breaker::Advice;
use resile::time::ManualTimer;
use resile::upstream::Isolation;
use tokio_util::sync::CancellationToken;

use crate::call::{Call, End, Making};
use crate::dice::Dice;
use crate::fuse::Injected;
use crate::laws::{self, Broken};
use crate::tally::Tally;
use crate::world::{HOSTS, World};

/// The number of calls that a thread has in flight.
const SLOTS: usize = 40;
/// The time after which a call of several threads waits for ever.
const HANGS_AFTER: Duration = Duration::from_secs(20);

/// A law that does not hold, and the number of the call after which it was seen.
#[derive(Debug)]
pub(crate) struct Loss {
    pub(crate) call: u64,
    pub(crate) words: Broken,
}

/// The flag of a waker.
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

/// A call in flight.
struct Task<'w> {
    making: Making<'w>,
    number: u64,
    host: usize,
    has_one_end: bool,
    token: CancellationToken,
    /// The visits until the token is cancelled, and until the call is dropped.
    until: [u64; 2],
}

/// A thread that makes calls.
pub(crate) struct Worker<'w> {
    world: &'w World,
    dice: Dice,
    tasks: [Option<Task<'w>>; SLOTS],
    flags: [(Arc<Flag>, Waker); SLOTS],
    isolation: Option<Isolation<'w, ManualTimer>>,
    pub(crate) tally: Tally,
}

impl<'w> Worker<'w> {
    pub(crate) fn new(world: &'w World, thread: u64) -> Self {
        let flags = std::array::from_fn(|_| {
            let flag = Arc::new(Flag(AtomicBool::new(false)));
            (Arc::clone(&flag), Waker::from(flag))
        });
        Self {
            world,
            dice: Dice::new(world.seed, u64::MAX - thread),
            tasks: std::array::from_fn(|_| None),
            flags,
            isolation: None,
            tally: Tally::default(),
        }
    }

    /// Makes calls until `next` reaches `end`, and waits for the end of all calls.
    pub(crate) fn run(&mut self, next: &AtomicU64, end: u64) -> Result<(), Loss> {
        let (mut idle, mut idle_since) = (0_u32, None::<Instant>);
        loop {
            self.intervene(end)?;
            let at = usize::try_from(self.dice.below(SLOTS as u64)).unwrap_or_default();
            if self.tasks[at].is_none() && self.start(at, next, end) {
                idle = 0;
            }
            let is_woken = self.flags[at].0.0.swap(false, Ordering::AcqRel);
            if self.tasks[at].is_some() && (is_woken || self.dice.is_one_in(64)) {
                self.visit(at)?;
                idle = 0;
                continue;
            }
            idle += 1;
            if idle < 20 || self.is_any_woken() {
                continue;
            }
            idle = 0;
            let starts = next.load(Ordering::Relaxed) < end;
            let is_idle = !starts || self.tasks.iter().all(Option::is_some);
            if self.world.is_alone {
                laws::no_idle_permit(self.world).map_err(|words| Loss { call: end, words })?;
            }
            if !is_idle {
                continue;
            }
            if self.tasks.iter().all(Option::is_none) {
                self.isolate(None);
                return Ok(());
            }
            if let Some(left) = self.world.timer.until_next() {
                self.world.advance(left);
                idle_since = None;
            } else {
                self.isolate(None);
                let since = *idle_since.get_or_insert_with(Instant::now);
                if self.world.is_alone || since.elapsed() > HANGS_AFTER {
                    return Err(self.hangs());
                }
                std::thread::yield_now();
            }
        }
    }

    fn is_any_woken(&self) -> bool {
        let both = self.tasks.iter().zip(&self.flags);
        both.into_iter().any(|(task, flag)| task.is_some() && flag.0.0.load(Ordering::Acquire))
    }

    fn hangs(&self) -> Loss {
        let waiting: Vec<u64> = self.tasks.iter().flatten().map(|task| task.number).collect();
        let call = waiting.iter().copied().min().unwrap_or_default();
        Loss { call, words: format!("calls that nothing wakes: {waiting:?}") }
    }

    /// Starts the next call, unless there is none.
    fn start(&mut self, at: usize, next: &AtomicU64, end: u64) -> bool {
        let drawn = next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |number| {
            (number < end).then_some(number + 1)
        });
        let Ok(number) = drawn else { return false };
        let token = CancellationToken::new();
        let call = Call::new(self.world, number, token.clone());
        let soon = |share: u64| {
            if self.dice.is_one_in(share) { self.dice.below(12) } else { u64::MAX }
        };
        self.tasks[at] = Some(Task {
            number,
            host: call.host(),
            has_one_end: call.way.has_one_end(),
            until: [soon(8), soon(6)],
            making: Box::pin(call.make()),
            token,
        });
        self.flags[at].0.0.store(true, Ordering::Release);
        self.tally.started += 1;
        true
    }

    /// Polls, cancels or drops a call.
    fn visit(&mut self, at: usize) -> Result<(), Loss> {
        let Some(task) = &mut self.tasks[at] else { return Ok(()) };
        let [cancel, drops] = task.until;
        task.until = [cancel, drops]
            .map(|left| if left == u64::MAX { left } else { left.saturating_sub(1) });
        if cancel == 0 && !task.token.is_cancelled() {
            task.token.cancel();
            self.tally.cancelled += 1;
        }
        let book = &self.world.hosts[task.host].book;
        let before = book.ends.load(Ordering::Relaxed);
        let outcome = if drops == 0 {
            Ok(None)
        } else {
            let context = &mut Context::from_waker(&self.flags[at].1);
            catch_unwind(AssertUnwindSafe(|| Some(task.making.as_mut().poll(context))))
        };
        let (number, host) = (task.number, task.host);
        let counts = task.has_one_end && self.world.is_alone && self.world.hosts[host].is_observed;
        let lost = |words| Loss { call: number, words };
        let ends = match outcome {
            Ok(Some(Poll::Pending)) => [0, 0],
            Ok(Some(Poll::Ready(end))) => {
                self.tally.add(end);
                self.bury(at)?;
                let one = u64::from(end != End::Left);
                [one, one]
            }
            Ok(None) => {
                self.tally.dropped += 1;
                self.bury(at)?;
                [0, 0]
            }
            Err(payload) if payload.is::<Injected>() => {
                self.tally.panicked += 1;
                self.bury(at)?;
                [0, 1]
            }
            Err(_) => return Err(lost("the crate panicked: see above".to_owned())),
        };
        let ended = book.ends.load(Ordering::Relaxed) - before;
        if counts && !(ends[0]..=ends[1]).contains(&ended) {
            return Err(lost(format!("the call has {ended} events of its end, not {ends:?}")));
        }
        for host in &self.world.hosts {
            if let Some((_, exactness)) = host.ledger.as_ref().filter(|_| self.world.is_alone) {
                laws::levels(self.world, host, *exactness).map_err(lost)?;
            }
        }
        Ok(())
    }

    /// Drops a call. An observer may panic meanwhile.
    fn bury(&mut self, at: usize) -> Result<(), Loss> {
        let Some(task) = self.tasks[at].take() else { return Ok(()) };
        let number = task.number;
        self.flags[at].0.0.store(false, Ordering::Release);
        match catch_unwind(AssertUnwindSafe(|| drop(task))) {
            Err(payload) if !payload.is::<Injected>() => {
                Err(Loss { call: number, words: "the crate panicked in a drop".to_owned() })
            }
            _ => Ok(()),
        }
    }

    /// Moves the clock, and does what an operator may do.
    fn intervene(&mut self, end: u64) -> Result<(), Loss> {
        let (world, dice) = (self.world, &self.dice);
        if dice.is_one_in(24) {
            world.advance(dice.time(28));
        }
        if dice.is_one_in(200_000) {
            world.advance(Duration::from_secs(60 << dice.below(21)));
        }
        if !dice.is_one_in(500) {
            return Ok(());
        }
        let at = usize::try_from(dice.below(HOSTS as u64)).unwrap_or_default();
        let (upstream, choice) = (&world.hosts[at].upstream, dice.below(6));
        let (is_suspect, span) = (dice.is_one_in(3), dice.time(31));
        let intervened = catch_unwind(AssertUnwindSafe(|| match choice {
            0 => upstream.reset(),
            1 => upstream.hold(span),
            2 => upstream.advise(Advice::new().with_suspicion(is_suspect)),
            3 => upstream.advise(Advice::new().without_probe_for(span)),
            4 => self.isolate(Some(upstream)),
            _ => self.isolate(None),
        }));
        match intervened {
            Err(payload) if !payload.is::<Injected>() => {
                Err(Loss { call: end, words: format!("intervention {choice} panicked") })
            }
            _ => Ok(()),
        }
    }

    /// Ends the isolation of an upstream, and isolates another.
    fn isolate(&mut self, upstream: Option<&'w resile::Upstream<ManualTimer>>) {
        let ended = self.isolation.take();
        _ = catch_unwind(AssertUnwindSafe(|| drop(ended)));
        self.isolation = upstream.map(resile::Upstream::isolate);
    }
}
