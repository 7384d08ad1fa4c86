//! The reaction of the agent loop to each failure.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use crate::agent::{Event, Fault, Limits, Message, ModelError, State, Turn, Who};
use crate::fakes::{
    Answer, Behaviour, FakeModel, agent, calls, done, error, observations, plain, probe, steps,
    turn,
};

#[tokio::test(start_paused = true)]
async fn a_retry_uses_no_step_and_is_hidden_from_the_model() {
    let model = FakeModel::new([Answer::Retried(3, turn("probe", r#"{"n":1}"#)), done(true)]);
    let agent = plain(&model);
    let outcome = agent.execute("a task").await.unwrap();
    assert_eq!((outcome.steps, steps(&agent)), (2, 2));
    let waits =
        agent.history().iter().filter(|event| matches!(event, Event::Waiting { .. })).count();
    assert_eq!(waits, 3, "the history has every wait");
    assert!(!model.prompt().contains("busy"));
}

#[tokio::test(start_paused = true)]
async fn a_permanent_error_of_the_model_ends_the_run_at_once() {
    let quota = ModelError { retry_after: Some(Duration::from_secs(3600)), ..error(Fault::Failed) };
    let model = FakeModel::new([Answer::Error(quota), done(true)]);
    let outcome = plain(&model).execute("a task").await.unwrap();
    assert_eq!((outcome.state, outcome.success, model.calls()), (State::Error, false, 1));
    for part in ["some words", "some_kind", "some_rule", "3600"] {
        assert!(outcome.text.contains(part), "{}", outcome.text);
    }
}

#[tokio::test(start_paused = true)]
async fn a_prompt_that_is_too_long_is_shrunk_once() {
    let shrink = |messages: &mut Vec<Message>| messages.pop().is_some();
    let model = FakeModel::new([Answer::Error(error(Fault::TooLong)), done(true)]);
    assert!(plain(&model).with_shrink(shrink).execute("the errand").await.unwrap().success);
    assert!(!model.prompt().contains("the errand"), "the hook made the prompt shorter");

    let model = FakeModel::new([Answer::Error(error(Fault::TooLong))]);
    let outcome = plain(&model).with_shrink(shrink).execute("the errand").await.unwrap();
    assert_eq!((outcome.state, model.calls()), (State::Error, 2));

    let model = FakeModel::new([Answer::Error(error(Fault::TooLong))]);
    assert_eq!(plain(&model).execute("the errand").await.unwrap().state, State::Error);
    assert_eq!(model.calls(), 1, "there is no hook to shrink the prompt");
}

#[tokio::test(start_paused = true)]
async fn unusable_output_is_requested_again_up_to_three_times_in_a_row() {
    let nothing = Answer::Turn(Turn { text: "hm".to_owned(), ..Turn::default() });
    let faults = [
        (Answer::Error(error(Fault::Unusable)), "some words"),
        (calls("browse", "{}"), "there is no tool 'browse'"),
        (calls("probe", "{}"), "missing field `n`"),
        (calls("probe", "{\"n\":"), "the arguments of 'probe' are wrong"),
        (calls("done", r#"{"text":"no success"}"#), "the arguments of 'done' are wrong"),
        (nothing, "it contains no tool call"),
    ];
    for (fault, words) in faults {
        let model = FakeModel::new([fault.clone(), fault.clone(), fault.clone(), done(true)]);
        let (good, runs) = agent(&model, Behaviour::Well, true, Limits::new());
        assert!(good.execute("a task").await.unwrap().success);
        assert!(model.prompt().contains(words), "the model is told: {words}");
        assert_eq!(runs.load(Ordering::Relaxed), 0);

        let model = FakeModel::new([fault.clone()]);
        let outcome = plain(&model).execute("a task").await.unwrap();
        assert_eq!((outcome.state, model.calls()), (State::Error, 4), "{words}");

        // Progress restarts the count.
        let three = || [fault.clone(), fault.clone(), fault.clone()];
        let model =
            FakeModel::new(three().into_iter().chain([probe()]).chain(three()).chain([done(true)]));
        assert!(plain(&model).execute("a task").await.unwrap().success);
    }
}

#[tokio::test(start_paused = true)]
async fn a_truncated_tool_call_is_not_run() {
    let cut = Turn { cut: true, ..turn("probe", r#"{"n":1}"#) };
    let model = FakeModel::new([Answer::Turn(cut), done(true)]);
    let (agent, runs) = agent(&model, Behaviour::Well, true, Limits::new());
    assert!(agent.execute("a task").await.unwrap().success);
    assert_eq!(runs.load(Ordering::Relaxed), 0);
    assert!(model.prompt().contains("cut off"));
}

#[tokio::test(start_paused = true)]
async fn only_an_idempotent_tool_is_retried() {
    for (is_idempotent, runs_expected, observation) in
        [(true, 3, "measured"), (false, 1, "may have acted: busy. Do not run it again")]
    {
        let model = FakeModel::new([probe(), done(true)]);
        let (agent, runs) = agent(&model, Behaviour::Flaky(2), is_idempotent, Limits::new());
        let outcome = agent.execute("a task").await.unwrap();
        assert_eq!((outcome.success, outcome.steps), (true, 2));
        assert_eq!(runs.load(Ordering::Relaxed), runs_expected);
        assert!(observations(&agent)[0].contains(observation));
        let retried = |event: &Event| matches!(event, Event::Waiting { who: Who::Tool, .. });
        assert_eq!(
            agent.history().iter().filter(|event| retried(event)).count(),
            runs_expected as usize - 1
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_permanent_failure_of_a_tool_is_an_observation_for_any_text() {
    let model = FakeModel::new([probe(), done(false)]);
    let (agent, runs) = agent(&model, Behaviour::FailsForGood, true, Limits::new());
    assert_eq!(agent.execute("a task").await.unwrap().state, State::Completed);
    assert_eq!(runs.load(Ordering::Relaxed), 1, "the text of the failure is not classified");
    let observation = "Tool 'probe' failed because: rate limit, try again in 2 s. \
                Correct the input, try a different approach, or finish.";
    assert_eq!(observations(&agent), [observation]);
    assert!(model.prompt().contains(observation));
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_a_tool_is_an_observation() {
    let model = FakeModel::new([probe(), done(false)]);
    let (agent, runs) = agent(&model, Behaviour::Panics, false, Limits::new());
    assert_eq!(agent.execute("a task").await.unwrap().state, State::Completed);
    assert_eq!(runs.load(Ordering::Relaxed), 1);
    let observation = &observations(&agent)[0];
    assert!(observation.starts_with("Tool 'probe' may have acted: it panicked: "), "{observation}");
    assert!(observation.contains("out of range"));
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_the_model_is_an_error_and_the_agent_stays_usable() {
    let agent = plain(&FakeModel::new([Answer::Panics, done(true)]));
    assert_eq!(agent.execute("a task").await.unwrap().state, State::Error);
    assert!(agent.execute("another").await.unwrap().success);
}

#[tokio::test(start_paused = true)]
async fn a_hanging_tool_is_cut_at_its_timeout() {
    let model = FakeModel::new([probe(), done(false)]);
    let (agent, runs) = agent(
        &model,
        Behaviour::IgnoresToken,
        false,
        Limits { tool: Duration::from_secs(7), ..Limits::new() },
    );
    let began = Instant::now();
    assert_eq!(agent.execute("a task").await.unwrap().state, State::Completed);
    assert_eq!((began.elapsed(), runs.load(Ordering::Relaxed)), (Duration::from_secs(7), 1));
    let observation = "Tool 'probe' may have acted: it did not finish within 7s. \
                Do not run it again before you have checked that it did not.";
    assert_eq!(observations(&agent), [observation]);
}

#[tokio::test(start_paused = true)]
async fn the_fallback_model_is_used_while_the_model_is_down() {
    let down = ModelError { retry_after: Some(Duration::from_secs(9)), ..error(Fault::Down) };
    let model = FakeModel::new([Answer::Error(down.clone())]);
    let other = FakeModel::new([done(true)]);
    let agent = plain(&model).with_fallback(other.clone());
    assert!(agent.execute("a task").await.unwrap().success);
    assert_eq!((model.calls(), other.calls(), steps(&agent)), (1, 1, 1));

    let outcome = plain(&model).execute("a task").await.unwrap();
    assert_eq!(outcome.state, State::Error);
    assert!(outcome.text.contains("come back in 9.0 s"));
}
