//! The rules: the meanings that must stand together in one statement.

use super::Said;
use super::words::{
    ABSENT, ALLOWANCE, BARRED, BLOCKED, BROKEN, BYTES, CAP, CREDENTIAL, DAY, FIELD, FORBIDDEN,
    LACK, LINK, LOAD, LONG, LONGER, MATTER, MEASURE, MINUTE, MINUTE_USED, MODEL, MONEY, Meanings,
    OFFER, OUTPUT, PART, PERIODS, PLAN, PROMPT, RATE, REFUSED, REGION, REQUEST, TOOL, UNPARSED,
    UNSAFE, USED,
};
use crate::kind::{Kind, Scope};
use crate::numbers;
use crate::statuses::Statuses;

const NONE: Statuses = Statuses::NONE;
const BAD: Statuses = Statuses::BAD;
const DENIED: Statuses = Statuses::DENIED;
const LARGE: Statuses = Statuses::LARGE;

/// The statuses at which a high load may be the reason.
const CROWDED: Statuses =
    NONE.and(Statuses::FAULT).and(Statuses::BUSY).and(Statuses::RATE).and(Statuses::WIRE);

/// The statuses at which a statement about a limit needs no word for "used up".
pub(super) const LIMITED: Statuses = Statuses::RATE.and(Statuses::PAY);

/// The statuses at which a limit may be the reason.
const LIMITING: Statuses =
    Statuses::ALL.but(Statuses::AUTH).but(Statuses::LARGE).but(Statuses::MISSING);

/// The statuses at which the request or its answer may be the reason.
const OURS: Statuses = Statuses::BAD
    .and(Statuses::LARGE)
    .and(Statuses::FAULT)
    .and(Statuses::NONE)
    .and(Statuses::DENIED);

/// Returns whether a statement has all of these meanings.
pub(super) const fn has(said: Meanings, all: Meanings) -> bool {
    said & all == all
}

/// Returns the quota that a statement says is used up.
pub(super) fn quota(said: Meanings, all: Meanings, status: Statuses) -> Option<Said> {
    if !LIMITING.meets(status) {
        return None;
    }
    let of = |scope, rule| Some(Said { kind: Kind::QuotaExhausted, scope, rule });
    // "The limit is exceeded. The maximum is 400 a day."
    let is_named = all & USED != 0 && said & LONGER != 0 && all & MINUTE == 0;
    // "Too many requests: 20 per minute. It is 900 per day with a plan."
    let is_other = said & OFFER != 0 || all & MINUTE_USED != 0;
    let is_used = said & USED != 0 || is_named || LIMITED.meets(status) && !is_other;
    if said & PERIODS != 0 && said & (ALLOWANCE | CAP | MONEY) != 0 && said & MINUTE == 0 && is_used
    {
        let scope = if said & LONG != 0 {
            Scope::Window
        } else if said & DAY != 0 {
            Scope::Day
        } else {
            Scope::Window
        };
        return of(Some(scope), "a limit per hour or more");
    }
    if has(said, MONEY | LACK) || has(said, CAP | USED) && said & (MEASURE | PART) == 0 {
        return of(None, "not enough money");
    }
    // A plan's allowance is named in one statement. The moment of its return may be in the next.
    let is_plan = all & PLAN != 0 && all & (RATE | LOAD | MINUTE) == 0 && said & PROMPT == 0;
    if is_plan && has(said, ALLOWANCE | USED) && !Statuses::FAULT.and(Statuses::BUSY).meets(status)
    {
        return of(Some(Scope::Window), "a plan's allowance");
    }
    None
}

pub(super) fn longer(one: Option<Said>, other: Option<Said>) -> Option<Said> {
    match (one, other) {
        (Some(first), Some(second)) if first.scope.is_none() && second.scope.is_some() => {
            Some(second)
        }
        (Some(first), Some(second))
            if second.scope == Some(Scope::Window) && first.scope == Some(Scope::Day) =>
        {
            Some(second)
        }
        (first, second) => first.or(second),
    }
}

/// Returns what a statement says beside a quota. `text` is the message from the statement on.
pub(super) fn other<'m>(
    said: Meanings,
    all: Meanings,
    status: Statuses,
    text: impl FnOnce() -> &'m str,
) -> Option<Said> {
    let of = |kind, rule| Some(Said { kind, scope: None, rule });
    let request = if OURS.meets(status) { request(said, all, status, text) } else { None };
    if let Some((kind, rule)) = request {
        return of(kind, rule);
    }
    let is_crowd = said & LOAD != 0 && all & (RATE | MINUTE | PROMPT | PERIODS) == 0;
    if is_crowd && CROWDED.meets(status) {
        return of(Kind::Overloaded, "a high load");
    }
    let is_wire = NONE.and(Statuses::WIRE).meets(status);
    if is_wire && has(said, LINK | BROKEN) {
        return of(Kind::Network, "a broken connection");
    }
    None
}

/// Returns what a statement says about the request or its answer.
fn request<'m>(
    said: Meanings,
    all: Meanings,
    status: Statuses,
    text: impl FnOnce() -> &'m str,
) -> Option<(Kind, &'static str)> {
    let is_length = said & (PART | UNPARSED) == 0 && all & (RATE | LOAD) == 0;
    if is_length && !DENIED.meets(status) {
        // A refused prompt comes with its length and the limit.
        let are_numbers = || BAD.and(LARGE).meets(status) && numbers::are_two(text());
        let is_long = said & LONGER != 0 || all & (MINUTE | PERIODS) == 0 && are_numbers();
        if has(said, PROMPT | MEASURE) && is_long {
            return Some((Kind::ContextLength, "the prompt is too long"));
        }
    }
    if has(said, BYTES | LONGER) && said & LINK == 0 && !DENIED.meets(status) {
        return Some((Kind::TooLarge, "too many bytes"));
    }
    if said & UNSAFE != 0 && said & (MATTER | BLOCKED) != 0 || has(said, MATTER | BLOCKED) {
        return Some((Kind::ContentFilter, "unsafe content"));
    }
    if has(said, CREDENTIAL | REFUSED) && !LARGE.meets(status) {
        return Some((Kind::Auth, "a credential is refused"));
    }
    if has(said, REGION | BARRED) && BAD.and(DENIED).and(NONE).meets(status) {
        return Some((Kind::Permission, "a barred region"));
    }
    if has(said, MODEL | FORBIDDEN)
        && said & (FIELD | PART | TOOL) == 0
        && BAD.and(DENIED).and(NONE).meets(status)
    {
        return Some((Kind::Permission, "a forbidden model"));
    }
    if has(said, MODEL | ABSENT)
        && said & (PART | TOOL | MATTER | FIELD | MEASURE) == 0
        && BAD.and(NONE).meets(status)
    {
        return Some((Kind::NotFound, "an absent model"));
    }
    if has(said, TOOL | ABSENT) && said & BARRED == 0 && NONE.meets(status) {
        return Some((Kind::InvalidOutput, "a call of an absent tool"));
    }
    if has(said, REQUEST | UNPARSED) {
        let rule = "the request cannot be parsed";
        return NONE.meets(status).then_some((Kind::InvalidRequest, rule));
    }
    if NONE.and(Statuses::FAULT).meets(status) && has(said, OUTPUT | UNPARSED) {
        return Some((Kind::InvalidOutput, "the answer cannot be parsed"));
    }
    None
}
