//! The end of a call within an attempt, as seen through the error of that attempt.
//!
//! The outer call knows its error as an `Error` at most, and not as a `GaveUp<E>`, because it does
//! not know `E`. So the question goes through [`source`](Error::source): while a question is open on
//! this thread, a `GaveUp` that is asked for its source answers the question too.

use std::borrow::Cow;
use std::cell::Cell;
use std::error::Error;
use std::time::Duration;

use crate::policy::StopReason;
use crate::question;

/// The end of a call within an attempt.
pub(crate) struct End {
    /// The type of its error in one word.
    pub(crate) error_type: Cow<'static, str>,
    /// True if a part of its upstream refused it. The part has events of its own.
    pub(crate) is_refusal: bool,
    /// Its reason.
    pub(crate) reason: StopReason,
    /// The wait that it recommends.
    pub(crate) retry_after: Option<Duration>,
}

#[derive(Default)]
enum Question {
    #[default]
    None,
    Open,
    Answered(End),
}

thread_local! {
    static QUESTION: Cell<Question> = const { Cell::new(Question::None) };
    static PASSED_ON: Cell<bool> = const { Cell::new(false) };
}

/// Sources of an error that are asked at most.
const LINKS: usize = 16;

/// Returns the end of the first call in the chain of errors that `error` returns.
pub(crate) fn ask<'e>(error: impl FnOnce() -> Option<&'e (dyn Error + 'static)>) -> Option<End> {
    let before = QUESTION.try_with(|question| question.replace(Question::Open)).ok()?;
    let mut link = error();
    for _ in 0..LINKS {
        if !is_open() {
            break;
        }
        let Some(error) = link else { break };
        link = error.source();
    }
    match QUESTION.replace(before) {
        Question::Answered(end) => Some(end),
        Question::None | Question::Open => None,
    }
}

/// Returns whether a question on this thread has no answer yet.
fn is_open() -> bool {
    let look = |question: &Cell<Question>| {
        let seen = question.take();
        let is_open = matches!(seen, Question::Open);
        question.set(seen);
        is_open
    };
    QUESTION.try_with(look).unwrap_or(false)
}

/// Answers an open question.
pub(crate) fn answer(end: impl FnOnce() -> End) {
    if is_open() {
        let end = Question::Answered(end());
        let _ = QUESTION.try_with(|question| question.set(end));
    }
}

/// Reports that a fallback passes the request on to its next alternative. Meanwhile no error on this
/// thread says that the error is final: the request is sent elsewhere.
pub(crate) fn passing_on(report: impl FnOnce()) {
    question::ask(&PASSED_ON, true, report);
}

/// Returns whether the request is passed on to another alternative.
pub(super) fn is_passed_on() -> bool {
    PASSED_ON.try_with(Cell::get).unwrap_or(false)
}
