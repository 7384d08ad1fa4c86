//! The script of the provider: one act for each request.

use std::collections::VecDeque;

use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use rand::seq::SliceRandom;

use crate::cli::Scenario;

/// The reaction to one request for a completion.
#[derive(Clone, Copy, Debug)]
pub(super) enum Act {
    /// The model calls a tool: its name and arguments.
    Call(&'static str, &'static str),
    /// The request fails.
    Fail(Fault),
}

/// A failure of the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    // Status 429 with each form of hint.
    HintMillis,
    HintSeconds,
    HintDate,
    HintBody,
    HintReset,
    HintSentence,
    Unavailable,
    Overloaded,
    Html,
    Reset,
    Hang,
    Drip,
    Cut,
    ErrorEvent,
    ErrorIn200,
    Malformed,
    TooLong,
    Quota,
}

use Act::{Call, Fail};

/// All transient failures.
const STORM: [Fault; 15] = [
    Fault::HintMillis,
    Fault::Unavailable,
    Fault::HintSeconds,
    Fault::Reset,
    Fault::HintDate,
    Fault::Html,
    Fault::HintBody,
    Fault::Hang,
    Fault::HintReset,
    Fault::Cut,
    Fault::HintSentence,
    Fault::ErrorEvent,
    Fault::Overloaded,
    Fault::Drip,
    Fault::ErrorIn200,
];

const DONE: Act =
    Call("done", r#"{"text":"Resile: to spring back; also, to withdraw.","success":true}"#);
const LOOKUP: Act = Call("lookup", r#"{"topic":"resile"}"#);

/// The acts of a scenario.
pub(super) struct Script {
    acts: VecDeque<Act>,
    /// The act of every request after the last of `acts`.
    then: Act,
    /// The acts to start again with, if the script repeats.
    again: Option<VecDeque<Act>>,
}

impl Script {
    /// Returns the script of a scenario. `seed` shuffles the faults of the storm, and zero keeps
    /// their order.
    pub(super) fn of(scenario: Scenario, seed: u64) -> Self {
        let (acts, then) = match scenario {
            Scenario::Calm => (vec![LOOKUP, Call("slow_report", r#"{"seconds":1}"#)], DONE),
            Scenario::Stormy => (storm(seed), DONE),
            Scenario::Captcha => (
                vec![LOOKUP],
                Call(
                    "done",
                    r#"{"text":"The library asks for a captcha, so a person must continue.","success":false}"#,
                ),
            ),
            Scenario::Outage => (vec![Fail(Fault::Html), Fail(Fault::Reset)], Fail(Fault::Html)),
            Scenario::Quota => (vec![LOOKUP], Fail(Fault::Quota)),
            Scenario::Runaway => (Vec::new(), LOOKUP),
            Scenario::Stop => (vec![LOOKUP], Call("slow_report", r#"{"seconds":30}"#)),
        };
        Self { acts: acts.into(), then, again: None }
    }

    /// Makes the script start again after its end.
    pub(super) fn endless(mut self) -> Self {
        self.acts.push_back(self.then);
        self.again = Some(self.acts.clone());
        self
    }

    /// Returns the act for the next request.
    pub(super) fn next(&mut self) -> Act {
        if self.acts.is_empty() {
            if let Some(again) = &self.again {
                self.acts.clone_from(again);
            }
        }
        self.acts.pop_front().unwrap_or(self.then)
    }
}

/// Returns every fault, at most two before one answer, and every mistake of a model.
fn storm(seed: u64) -> Vec<Act> {
    const ANSWERS: [Act; 10] = [
        LOOKUP,
        Call("flaky_sensor", r#"{"room":"library"}"#),
        Call("slow_report", r#"{"seconds":1}"#),
        Fail(Fault::Malformed),
        Call("browse", r#"{"url":"https://example.org"}"#),
        LOOKUP,
        Call("send_mail", r#"{"to":7}"#),
        Call("send_mail", r#"{"to":"ada","text":"resile: to spring back"}"#),
        Fail(Fault::TooLong),
        Call("lookup", r#"{"topic":"outbox"}"#),
    ];
    let mut faults = STORM;
    if seed != 0 {
        faults.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
    }
    let mut faults = faults.chunks(2);
    let before = |answer| {
        faults
            .next()
            .unwrap_or_default()
            .iter()
            .copied()
            .map(Fail)
            .chain([answer])
            .collect::<Vec<_>>()
    };
    ANSWERS.into_iter().flat_map(before).collect()
}
