//! Tests what a process says of a budget that has too few tokens here. A whole agent in virtual time, with the models
//! of the scripts in place of the server.

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use resile::time::ManualTimer;
use resile::upstream::Shared;
use resile::{Budget, Never, RetryPolicy, Upstream, retry};

use super::Plan;
use super::job::{Answer, Job};
use super::round::{Failure, Outcome};
use super::step::Agent;
use super::world::{Server, context};
use crate::scripts::ScriptError;

const TICK: Duration = Duration::from_millis(10);
/// The words while the store may have tokens, and after it has said that it has none.
const HERE: &str = "this process holds too few tokens of the fleet's budget";
const NONE: &str = "the retry budget is spent";

/// A process and the server, with the exchanges that run.
struct World<'a> {
    agent: Agent<'a, ManualTimer>,
    shared: &'a Shared<'a, ManualTimer>,
    timer: &'a ManualTimer,
    server: Server,
    jobs: Vec<Job>,
    now: Duration,
    /// The tokens that other processes have given back to the store.
    of_others: i64,
}

impl World<'_> {
    /// Ends the exchanges that run, with the answers of the server if it is there.
    fn end(&mut self, is_there: bool) {
        let server = &mut self.server;
        let (jobs, now) = (std::mem::take(&mut self.jobs), self.now);
        let of_others = self.of_others * crate::scale::TOKEN;
        let answer = |job: Job| {
            let answer = if is_there {
                let mut answer = server.answer(0, &job, now);
                if let Answer::Lease(reply) = &mut answer {
                    reply.level += of_others;
                }
                Ok(answer)
            } else {
                Err(Failure::Script(ScriptError::Lost("no server".to_owned())))
            };
            (job, answer, TICK)
        };
        let outcomes: Vec<Outcome> = jobs.into_iter().map(answer).collect();
        if !outcomes.is_empty() {
            self.agent.apply(outcomes, now);
        }
    }

    /// Lets time pass, with exchanges that take one step each.
    fn run(&mut self, time: Duration, is_there: bool) {
        let until = self.now + time;
        while self.now < until {
            self.end(is_there);
            self.agent.step(self.now);
            self.agent.report(self.now);
            self.jobs = self.agent.due(0, self.now);
            self.timer.advance(TICK);
            self.now += TICK;
        }
    }

    /// Uses the tokens that the process has. Returns their number.
    fn spend(&self) -> usize {
        let budget = self.shared.upstream().budget().unwrap();
        std::iter::repeat_with(|| budget.withdraw()).take_while(|paid| *paid).count()
    }

    /// Uses all tokens of the process and of the store.
    fn exhaust(&mut self) {
        for _ in 0..50 {
            self.spend();
            self.run(Duration::from_millis(200), true);
        }
    }

    /// Returns the end of a call whose retry the budget does not pay for.
    fn refused(&self) -> String {
        let down = || std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        let call = retry(|_| async { Err::<(), _>(down()) }, RetryPolicy::new(), Never);
        let mut call = pin!(call.on(self.shared.upstream()));
        match call.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(end) => end.unwrap_err().to_string(),
            Poll::Pending => panic!("the budget has paid for a retry"),
        }
    }

    /// Returns the tokens that the store has, as it last said.
    fn level(&self) -> i64 {
        self.agent.leases[0].0.level().unwrap() / crate::scale::TOKEN
    }
}

/// Lets a process share a budget with a server for three seconds, and then do something.
fn play(then: impl FnOnce(&mut World<'_>)) {
    let timer = ManualTimer::new();
    let upstream = Upstream::new("shop").with_budget(Budget::new()).with_timer(timer.clone());
    let context = context(0, Plan::new());
    let shared = upstream.share().unwrap();
    let agent = Agent::new(&shared, &context);
    let (server, jobs, now) = (Server::default(), Vec::new(), Duration::ZERO);
    let mut world =
        World { agent, shared: &shared, timer: &timer, server, jobs, now, of_others: 0 };
    world.run(Duration::from_secs(3), true);
    then(&mut world);
}

#[test]
fn a_store_that_is_away_has_not_said_that_it_has_no_tokens() {
    play(|world| {
        assert!(world.level() > 0, "{}", world.level());
        for _ in 0..200 {
            world.run(TICK, false);
            world.spend(); // that of its part in safe mode too
            let words = world.refused();
            assert!(words.contains(HERE), "{:?}: {words}", world.now);
        }
    });
}

/// A token that is used while an exchange runs is not one that the store has refused.
#[test]
fn an_answer_that_brings_nothing_is_no_word_on_a_store_with_tokens() {
    play(|world| {
        while world.jobs.iter().all(|job| !matches!(job, Job::Lease { .. })) {
            world.run(TICK, true);
        }
        assert!(world.spend() > 0);
        world.end(true);
        assert!(world.level() > 0, "{}", world.level());
        let words = world.refused();
        assert!(words.contains(HERE), "{words}");
    });
}

#[test]
fn a_store_that_has_said_none_has_none() {
    play(|world| {
        world.exhaust();
        assert_eq!(world.level(), 0);
        let words = world.refused();
        assert!(words.contains(NONE), "{words}");
        world.run(Duration::from_millis(100), false);
        let words = world.refused();
        assert!(words.contains(NONE), "the last word of the store: {words}");
    });
}

/// The process has earned a token by itself, so the answers that tell of more tokens bring none.
#[test]
fn a_store_that_has_tokens_again_has_not_said_that_it_has_none() {
    play(|world| {
        world.exhaust();
        let words = world.refused();
        assert!(words.contains(NONE), "{words}");
        let budget = world.shared.upstream().budget().unwrap();
        while budget.available() == 0 {
            budget.deposit();
        }
        world.of_others = 4;
        world.run(Duration::from_secs(3), true);
        assert_eq!((budget.available(), world.level()), (1, 4));
        world.run(TICK, false);
        assert_eq!(world.spend(), 1);
        for _ in 0..100 {
            let words = world.refused();
            assert!(words.contains(HERE), "{:?}: {words}", world.now);
            world.run(TICK, false);
        }
    });
}
