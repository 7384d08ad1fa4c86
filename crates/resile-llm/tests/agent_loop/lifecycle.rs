//! The states of an agent and its transitions.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use resile::{Cooldown, RetryPolicy, Upstream, retry};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::agent::{Event, Limits, Refusal, State, WaitReporter, Who};
use crate::fakes::{
    Answer, Behaviour, FakeModel, agent, calls, done, observations, plain, probe, steps, turn,
};

#[tokio::test(start_paused = true)]
async fn done_completes_the_run_with_or_without_success() {
    for success in [true, false] {
        let agent = plain(&FakeModel::new([probe(), done(success)]));
        assert_eq!(agent.state(), State::Idle);
        let outcome = agent.execute("a task").await.unwrap();
        assert_eq!((outcome.state, outcome.success, outcome.steps), (State::Completed, success, 2));
        assert_eq!(outcome.text, "that is all");
        assert_eq!(agent.state(), State::Completed);
    }
}

#[tokio::test(start_paused = true)]
async fn a_second_task_is_refused_while_one_runs() {
    let agent = Arc::new(plain(&FakeModel::new([Answer::Hangs])));
    let running = tokio::spawn({
        let agent = Arc::clone(&agent);
        async move { agent.execute("the first").await }
    });
    sleep(Duration::from_secs(1)).await;
    assert_eq!(agent.state(), State::Running);
    let refusal = agent.execute("the second").await.unwrap_err();
    assert_eq!(refusal, Refusal::Running);
    assert_eq!(refusal.to_string(), "a task is already running");
    assert_eq!(agent.state(), State::Running, "the first task goes on");
    agent.stop().await;
    assert_eq!(running.await.unwrap().unwrap().state, State::Stopped);
}

#[tokio::test(start_paused = true)]
async fn an_empty_task_is_refused() {
    let agent = plain(&FakeModel::new([done(true)]));
    assert_eq!(agent.execute(" \n").await.unwrap_err(), Refusal::Empty);
    assert_eq!(agent.state(), State::Idle);
}

#[tokio::test(start_paused = true)]
async fn stop_ends_the_run_and_the_agent_can_run_again() {
    // In a call that obeys the token, in a call that ignores it, in a wait, and in a tool.
    for first in
        [Answer::Hangs, Answer::IgnoresToken, Answer::Retried(100, turn("probe", "{}")), probe()]
    {
        let (agent, _) = agent(
            &FakeModel::new([first, done(true)]),
            Behaviour::IgnoresToken,
            true,
            Limits::new(),
        );
        let stop = async {
            sleep(Duration::from_millis(2500)).await;
            agent.stop().await;
            agent.state()
        };
        let began = Instant::now();
        let (outcome, state) = tokio::join!(agent.execute("a task"), stop);
        assert_eq!(outcome.unwrap().state, State::Stopped);
        assert_eq!(state, State::Stopped, "stop returns after the run has ended");
        assert_eq!(began.elapsed(), Duration::from_millis(2500), "stop ends the run at once");
        assert!(agent.execute("another").await.unwrap().success);
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_is_cut_reports_the_time_left() {
    let agent = plain(&FakeModel::new([Answer::Retried(100, turn("probe", "{}"))]));
    let stop = async {
        sleep(Duration::from_millis(2500)).await;
        agent.stop().await;
    };
    let (outcome, ()) = tokio::join!(agent.execute("a task"), stop);
    assert_eq!(outcome.unwrap().state, State::Stopped);
    let (mut waited, mut left) = (0, 0);
    for event in agent.history() {
        match event {
            Event::Waiting { wait_ms, .. } => waited += wait_ms,
            Event::WaitCut { left_ms, .. } => left += left_ms,
            _ => {}
        }
    }
    assert!(left > 0);
    assert_eq!(waited - left, 2500);
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_is_cut_reports_the_time_left_and_no_attempt() {
    let (events, token) = (Mutex::new(Vec::new()), CancellationToken::new());
    let emit = |event| events.lock().unwrap().push(event);
    let fake = Upstream::new("fake").with_cooldown(Cooldown::new());
    fake.hold(Duration::from_secs(100));
    {
        let waits = WaitReporter::new(Who::Model, &emit);
        let call = retry(|_| async { Ok::<_, &str>(()) }, RetryPolicy::new(), &token)
            .on(fake.observed_by(&waits));
        let stop = async {
            sleep(Duration::from_millis(2500)).await;
            token.cancel();
        };
        let (outcome, ()) = tokio::join!(call, stop);
        assert_eq!(outcome.unwrap_err().attempts(), 0);
    }
    let events = events.into_inner().unwrap();
    let [
        Event::Held { wait_ms },
        Event::WaitCut { attempt: 1, held: true, left_ms, .. },
        Event::GaveUp { .. },
    ] = &events[..]
    else {
        panic!("{events:?}");
    };
    assert_eq!(wait_ms - left_ms, 2500);
}

#[tokio::test(start_paused = true)]
async fn stop_without_a_run_does_nothing() {
    let agent = plain(&FakeModel::new([done(true)]));
    agent.stop().await;
    assert_eq!(agent.state(), State::Idle);
    assert!(
        agent.execute("a task").await.unwrap().success,
        "the earlier stop does not end the next run"
    );
    agent.stop().await;
    assert_eq!(agent.state(), State::Completed);
}

#[tokio::test(start_paused = true)]
async fn dispose_ends_the_run_refuses_tasks_and_may_be_called_twice() {
    let agent = plain(&FakeModel::new([Answer::Hangs]));
    let dispose = async {
        sleep(Duration::from_secs(1)).await;
        agent.dispose().await;
        agent.dispose().await;
    };
    let (outcome, ()) = tokio::join!(agent.execute("a task"), dispose);
    assert_eq!(outcome.unwrap().state, State::Stopped);
    assert_eq!(agent.execute("another").await.unwrap_err(), Refusal::Disposed);
    assert_eq!(agent.execute("").await.unwrap_err(), Refusal::Disposed);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_run_leaves_the_agent_usable() {
    let agent = plain(&FakeModel::new([Answer::Hangs, done(true)]));
    assert!(timeout(Duration::from_secs(1), agent.execute("a task")).await.is_err());
    assert_eq!(agent.state(), State::Stopped);
    assert!(agent.execute("another").await.unwrap().success);
}

#[tokio::test(start_paused = true)]
async fn a_tools_result_after_the_stop_is_discarded() {
    let model = FakeModel::new([probe(), done(true)]);
    let (agent, runs) = agent(&model, Behaviour::Late, false, Limits::new());
    let stop = async {
        sleep(Duration::from_secs(1)).await;
        agent.stop().await;
    };
    let (outcome, ()) = tokio::join!(agent.execute("a task"), stop);
    assert_eq!(outcome.unwrap().state, State::Stopped);
    assert_eq!(runs.load(std::sync::atomic::Ordering::Relaxed), 1);
    assert!(agent.history().iter().any(|event| matches!(event, Event::Discarded { .. })));
    assert!(observations(&agent).is_empty());
    assert_eq!(model.calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_step_limit_is_the_number_of_model_calls() {
    for max in [1, 2, 7] {
        let model = FakeModel::new([probe()]);
        let (agent, _) =
            agent(&model, Behaviour::Well, false, Limits { steps: max, ..Limits::new() });
        let outcome = agent.execute("a task").await.unwrap();
        assert_eq!((outcome.state, outcome.success), (State::Error, false));
        assert_eq!((model.calls(), outcome.steps, steps(&agent)), (max, max, max as usize));
    }
    let model = FakeModel::new([done(true)]);
    let (agent, _) = agent(&model, Behaviour::Well, false, Limits { steps: 1, ..Limits::new() });
    assert_eq!(agent.execute("a task").await.unwrap().state, State::Completed);
}

#[tokio::test(start_paused = true)]
async fn the_model_is_warned_once_at_five_and_once_at_two_steps_left() {
    const FIVE: &str =
        "Only 5 steps remaining. Consider wrapping up or calling done with partial results.";
    const TWO: &str =
        "Critical: Only 2 steps left! You must finish the task or call done immediately.";
    for (max, five, two) in [(40, true, true), (5, true, true), (2, false, true)] {
        let model = FakeModel::new([probe()]);
        let (agent, _) =
            agent(&model, Behaviour::Well, false, Limits { steps: max, ..Limits::new() });
        agent.execute("a task").await.unwrap();
        let seen = observations(&agent);
        assert_eq!(seen.iter().filter(|text| *text == FIVE).count(), usize::from(five), "of {max}");
        assert_eq!(seen.iter().filter(|text| *text == TWO).count(), usize::from(two), "of {max}");
        assert_eq!(
            seen.iter().filter(|text| text.contains("Only")).count(),
            usize::from(five) + usize::from(two)
        );
        assert!(model.prompt().contains(TWO), "the prompt has the warning");
    }
    let model = FakeModel::new([probe()]);
    let (agent, _) = agent(&model, Behaviour::Well, false, Limits { steps: 3, ..Limits::new() });
    agent.execute("a task").await.unwrap();
    assert!(
        observations(&agent)[0].starts_with("Only 3 steps remaining."),
        "the warning also comes with fewer than five steps at the start"
    );
}

#[tokio::test(start_paused = true)]
async fn the_whole_run_has_a_timeout() {
    let model = FakeModel::new([calls("probe", r#"{"n":1}"#), Answer::IgnoresToken]);
    let (agent, _) = agent(
        &model,
        Behaviour::Well,
        false,
        Limits { wall: Duration::from_secs(60), ..Limits::new() },
    );
    let began = Instant::now();
    assert_eq!(agent.execute("a task").await.unwrap().state, State::Error);
    assert_eq!(began.elapsed(), Duration::from_secs(60));
}
