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
    #[cfg(feature = "stream")]
    static PART: Cell<Part> = const { Cell::new(Part::Unasked) };
    static QUESTION: Cell<Question> = const { Cell::new(Question::None) };
    static PASSED_ON: Cell<bool> = const { Cell::new(false) };
}

/// The knowledge of an outer call about the streams that it drops.
#[cfg(feature = "stream")]
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// No call asks.
    Unasked,
    /// None of them has shown a part of an answer.
    None,
    /// One of them has.
    Shown,
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

/// Drops an attempt by `drop`. Returns whether a stream in it has shown a part of an answer, the rest
/// of which never comes. An attempt that was not cut has returned its error before, and its streams
/// have ended.
#[cfg(feature = "stream")]
pub(crate) fn drops_part(is_cut: bool, drop: impl FnOnce()) -> bool {
    if !is_cut {
        drop();
        return false;
    }
    question::ask(&PART, Part::None, drop).1 == Some(Part::Shown)
}

/// Drops an attempt by `drop`. There are no streams.
#[cfg(not(feature = "stream"))]
#[inline]
pub(crate) fn drops_part(_is_cut: bool, drop: impl FnOnce()) -> bool {
    drop();
    false
}

/// Polls an attempt by `poll`. Returns also whether a stream that was dropped meanwhile has shown a part of
/// an answer. A call around this one sees it too.
#[cfg(feature = "stream")]
pub(crate) fn polls_part<R>(poll: impl FnOnce() -> R) -> (R, bool) {
    let (polled, part) = question::ask(&PART, Part::None, poll);
    let has_shown = part == Some(Part::Shown);
    if has_shown {
        note_part();
    }
    (polled, has_shown)
}

/// Polls an attempt by `poll`. There are no streams.
#[cfg(not(feature = "stream"))]
#[inline]
pub(crate) fn polls_part<R>(poll: impl FnOnce() -> R) -> (R, bool) {
    (poll(), false)
}

/// Notes that a stream is dropped which has shown a part of an answer.
#[cfg(feature = "stream")]
pub(crate) fn note_part() {
    let _ = PART.try_with(|part| {
        if part.get() == Part::None {
            part.set(Part::Shown);
        }
    });
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
