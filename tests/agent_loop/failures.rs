//! What the loop does about each failure.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use crate::agent::{Event, Fault, Limits, Message, ModelError, State, Turn, Who};
use crate::fakes::{
    Does, FakeModel, Says, agent, calls, done, error, observations, plain, probe, steps, turn,
};

#[tokio::test(start_paused = true)]
async fn a_retry_consumes_no_step_and_the_model_does_not_hear_of_it() {
    let model = FakeModel::new([Says::Retried(3, turn("probe", r#"{"n":1}"#)), done(true)]);
    let agent = plain(&model);
    let outcome = agent.execute("a task").await.unwrap();
    assert_eq!((outcome.steps, steps(&agent)), (2, 2));
    let waits =
        agent.history().iter().filter(|event| matches!(event, Event::Waiting { .. })).count();
    assert_eq!(waits, 3, "it is in the history");
    assert!(!model.prompt().contains("busy"));
}

#[tokio::test(start_paused = true)]
async fn a_permanent_error_of_the_model_ends_the_run_at_once() {
    let quota = ModelError { retry_after: Some(Duration::from_secs(3600)), ..error(Fault::Failed) };
    let model = FakeModel::new([Says::Error(quota), done(true)]);
    let outcome = plain(&model).execute("a task").await.unwrap();
    assert_eq!((outcome.state, outcome.success, model.calls()), (State::Error, false, 1));
    for part in ["some words", "some_kind", "some_rule", "3600"] {
        assert!(outcome.text.contains(part), "{}", outcome.text);
    }
}

#[tokio::test(start_paused = true)]
async fn a_prompt_that_is_too_long_is_shrunk_once() {
    let shrink = |messages: &mut Vec<Message>| messages.pop().is_some();
    let model = FakeModel::new([Says::Error(error(Fault::TooLong)), done(true)]);
    assert!(plain(&model).with_shrink(shrink).execute("the errand").await.unwrap().success);
    assert!(!model.prompt().contains("the errand"), "the hook has made it shorter");

    let model = FakeModel::new([Says::Error(error(Fault::TooLong))]);
    let outcome = plain(&model).with_shrink(shrink).execute("the errand").await.unwrap();
    assert_eq!((outcome.state, model.calls()), (State::Error, 2));

    let model = FakeModel::new([Says::Error(error(Fault::TooLong))]);
    assert_eq!(plain(&model).execute("the errand").await.unwrap().state, State::Error);
    assert_eq!(model.calls(), 1, "nothing to shrink");
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_used_is_asked_for_again_so_many_times_in_a_row() {
    let nothing = Says::Turn(Turn { text: "hm".to_owned(), ..Turn::default() });
    let faults = [
        (Says::Error(error(Fault::Unusable)), "some words"),
        (calls("browse", "{}"), "there is no tool 'browse'"),
        (calls("probe", "{}"), "missing field `n`"),
        (calls("probe", "{\"n\":"), "the arguments of 'probe' are wrong"),
        (calls("done", r#"{"text":"no success"}"#), "the arguments of 'done' are wrong"),
        (nothing, "it contains no tool call"),
    ];
    for (fault, words) in faults {
        let model = FakeModel::new([fault.clone(), fault.clone(), fault.clone(), done(true)]);
        let (good, runs) = agent(&model, Does::Well, true, Limits::new());
        assert!(good.execute("a task").await.unwrap().success);
        assert!(model.prompt().contains(words), "it is told: {words}");
        assert_eq!(runs.load(Ordering::Relaxed), 0);

        let model = FakeModel::new([fault.clone()]);
        let outcome = plain(&model).execute("a task").await.unwrap();
        assert_eq!((outcome.state, model.calls()), (State::Error, 4), "{words}");

        // Progress begins the count anew.
        let three = || [fault.clone(), fault.clone(), fault.clone()];
        let model =
            FakeModel::new(three().into_iter().chain([probe()]).chain(three()).chain([done(true)]));
        assert!(plain(&model).execute("a task").await.unwrap().success);
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_was_cut_off_is_not_run() {
    let cut = Turn { cut: true, ..turn("probe", r#"{"n":1}"#) };
    let model = FakeModel::new([Says::Turn(cut), done(true)]);
    let (agent, runs) = agent(&model, Does::Well, true, Limits::new());
    assert!(agent.execute("a task").await.unwrap().success);
    assert_eq!(runs.load(Ordering::Relaxed), 0);
    assert!(model.prompt().contains("cut off"));
}

#[tokio::test(start_paused = true)]
async fn only_an_idempotent_tool_is_tried_again() {
    for (is_idempotent, runs_expected, told) in
        [(true, 3, "measured"), (false, 1, "failed because: busy")]
    {
        let model = FakeModel::new([probe(), done(true)]);
        let (agent, runs) = agent(&model, Does::Flaky(2), is_idempotent, Limits::new());
        let outcome = agent.execute("a task").await.unwrap();
        assert_eq!((outcome.success, outcome.steps), (true, 2));
        assert_eq!(runs.load(Ordering::Relaxed), runs_expected);
        assert!(observations(&agent)[0].contains(told));
        let retried = |event: &Event| matches!(event, Event::Waiting { who: Who::Tool, .. });
        assert_eq!(
            agent.history().iter().filter(|event| retried(event)).count(),
            runs_expected as usize - 1
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_tools_permanent_failure_is_an_observation_whatever_its_words() {
    let model = FakeModel::new([probe(), done(false)]);
    let (agent, runs) = agent(&model, Does::FailsForGood, true, Limits::new());
    assert_eq!(agent.execute("a task").await.unwrap().state, State::Completed);
    assert_eq!(runs.load(Ordering::Relaxed), 1, "not judged by what its words look like");
    let told = "Tool 'probe' failed because: rate limit, try again in 2 s. \
                Correct the input, try a different approach, or finish.";
    assert_eq!(observations(&agent), [told]);
    assert!(model.prompt().contains(told));
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_a_tool_is_an_observation() {
    let model = FakeModel::new([probe(), done(false)]);
    let (agent, runs) = agent(&model, Does::Panics, true, Limits::new());
    assert_eq!(agent.execute("a task").await.unwrap().state, State::Completed);
    assert_eq!(runs.load(Ordering::Relaxed), 1);
    assert!(observations(&agent)[0].contains("out of range"));
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_the_model_is_an_error_and_the_agent_lives() {
    let agent = plain(&FakeModel::new([Says::Panics, done(true)]));
    assert_eq!(agent.execute("a task").await.unwrap().state, State::Error);
    assert!(agent.execute("another").await.unwrap().success);
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_hangs_is_cut_at_its_limit() {
    let model = FakeModel::new([probe(), done(false)]);
    let (agent, runs) =
        agent(&model, Does::Deaf, false, Limits { tool: Duration::from_secs(7), ..Limits::new() });
    let began = Instant::now();
    assert_eq!(agent.execute("a task").await.unwrap().state, State::Completed);
    assert_eq!((began.elapsed(), runs.load(Ordering::Relaxed)), (Duration::from_secs(7), 1));
    assert!(observations(&agent)[0].contains("did not finish within 7s"));
}

#[tokio::test(start_paused = true)]
async fn where_the_model_is_down_the_other_one_is_asked() {
    let down = ModelError { retry_after: Some(Duration::from_secs(9)), ..error(Fault::Down) };
    let model = FakeModel::new([Says::Error(down.clone())]);
    let other = FakeModel::new([done(true)]);
    let agent = plain(&model).with_fallback(other.clone());
    assert!(agent.execute("a task").await.unwrap().success);
    assert_eq!((model.calls(), other.calls(), steps(&agent)), (1, 1, 1));

    let outcome = plain(&model).execute("a task").await.unwrap();
    assert_eq!(outcome.state, State::Error);
    assert!(outcome.text.contains("come back in 9.0 s"));
}
