//! The rows of phrases as data, in groups with one meaning each.

use crate::kind::{Kind, Scope};
use crate::statuses::Statuses;

/// Rows with one meaning.
pub(super) struct Group {
    pub(super) means: Kind,
    pub(super) scope: Option<Scope>,
    pub(super) at: Statuses,
    /// The statuses at which the rows count only at the start of a message. Elsewhere the message
    /// may quote other text.
    pub(super) leading_at: Statuses,
    /// The rows only name a status.
    pub(super) names_status: bool,
    pub(super) rows: &'static str,
}

const fn group(means: Kind, at: Statuses, rows: &'static str) -> Group {
    Group {
        means,
        scope: None,
        at,
        leading_at: Statuses::ALL.but(Statuses::ALL),
        names_status: false,
        rows,
    }
}

/// Creates a group about a limit on requests. At a 400 its rows count only at the start of a
/// message.
const fn limit(rows: &'static str) -> Group {
    let at = Statuses::RATE.and(Statuses::FAULT).and(Statuses::NONE).and(Statuses::DENIED);
    Group { leading_at: Statuses::BAD, ..group(Kind::RateLimit, at, rows) }
}

impl Group {
    const fn names_status(mut self) -> Self {
        self.names_status = true;
        self
    }

    const fn over(mut self, scope: Scope) -> Self {
        self.scope = Some(scope);
        self
    }
}

const NONE: Statuses = Statuses::NONE;
const BAD: Statuses = Statuses::BAD;
const AUTH: Statuses = Statuses::AUTH;
const PAY: Statuses = Statuses::PAY;
const DENIED: Statuses = Statuses::DENIED;
const MISSING: Statuses = Statuses::MISSING;
const LARGE: Statuses = Statuses::LARGE;
const RATE: Statuses = Statuses::RATE;
const FAULT: Statuses = Statuses::FAULT;
const BUSY: Statuses = Statuses::BUSY;
const WIRE: Statuses = Statuses::WIRE;

/// Every 4xx that answers this request.
const REFUSED: Statuses = BAD.and(AUTH).and(PAY).and(DENIED).and(MISSING).and(LARGE).and(RATE);

/// The statuses at which the request itself is at fault.
const OURS: Statuses = BAD.and(LARGE).and(NONE);

/// Words that deny a limit of the caller's own. They overrule a code for a rate limit.
pub(super) const NOT_OWN: &str = "not your usage limit\ntemporarily limiting requests";

/// Words about a used-up quota of any kind. Google uses them for the quota of a minute too.
pub(super) const BARE_QUOTA: &str = "quota exceeded";

pub(super) static GROUPS: &[Group] = &[
    // These rows come before the rows about a usage limit.
    group(Kind::Overloaded, FAULT.and(BUSY).and(RATE).and(NONE), NOT_OWN),
    group(
        Kind::QuotaExhausted,
        REFUSED.and(NONE).and(FAULT).and(BUSY).but(MISSING.and(LARGE)),
        include_str!("quota.txt"),
    ),
    group(Kind::QuotaExhausted, RATE.and(NONE), include_str!("quota_day.txt")).over(Scope::Day),
    // Without a metric behind them these words are about an allowance.
    group(Kind::QuotaExhausted, RATE.and(NONE), BARE_QUOTA),
    // A plan does not include such requests.
    group(Kind::QuotaExhausted, RATE, "extra usage is required"),
    // A service that is there for others is not overloaded.
    group(Kind::Permission, BAD.and(DENIED).and(NONE), "unavailable in your"),
    group(
        Kind::Overloaded,
        FAULT.and(BUSY).and(RATE).and(NONE).and(WIRE),
        include_str!("capacity.txt"),
    ),
    group(Kind::Overloaded, BAD, include_str!("loading.txt")),
    limit(include_str!("concurrency.txt")).over(Scope::Concurrency),
    limit(include_str!("rate_minute.txt")).over(Scope::Minute),
    limit(include_str!("rate.txt")),
    // These rows are about a part that is too large. They mention tokens, like rows about a long
    // prompt.
    group(Kind::InvalidRequest, OURS, include_str!("output_size.txt")),
    group(Kind::TooLarge, OURS, "split into smaller\ntoo many inputs"),
    group(Kind::ContextLength, LARGE, "exceeds model context\nexceed … context window"),
    // A 413 is about the size of the whole request if its words say so.
    group(Kind::TooLarge, LARGE, include_str!("size.txt")),
    group(Kind::ContextLength, OURS.and(FAULT).and(BUSY), include_str!("context.txt")),
    group(Kind::ContextLength, BAD.and(DENIED), "extra usage is required for long context"),
    // Of the words of a transport only these are about the prompt.
    group(
        Kind::ContextLength,
        WIRE,
        "exceed … context window\nexceed … context length\nmaximum context length",
    ),
    group(Kind::TooLarge, OURS.and(RATE), include_str!("size.txt")),
    // The access has ended because someone violated the terms. It is not this content.
    group(Kind::Permission, BAD.and(DENIED).and(NONE).and(RATE), include_str!("ended.txt")),
    group(Kind::ContentFilter, OURS.and(DENIED).and(FAULT).and(RATE), include_str!("content.txt")),
    group(Kind::InvalidOutput, BAD.and(FAULT).and(NONE), include_str!("output.txt")),
    // A gateway without a key of its own may answer with any status.
    group(
        Kind::Auth,
        BAD.and(AUTH).and(DENIED).and(NONE).and(FAULT).and(BUSY).and(WIRE),
        include_str!("auth_config.txt"),
    ),
    group(Kind::Auth, BAD.and(AUTH).and(DENIED).and(NONE), include_str!("auth.txt")),
    // The model is there, but not here.
    group(
        Kind::Permission,
        BAD.and(DENIED).and(NONE),
        "location is not supported\nnot available in your\nterritory not supported",
    ),
    group(Kind::NotFound, BAD.and(AUTH).and(MISSING).and(NONE), include_str!("model.txt")),
    // Only at a 400: elsewhere the model exists but does not support a parameter.
    group(Kind::NotFound, BAD.and(AUTH), "model … is not supported"),
    // A gateway without a route to the model says so with a 503.
    group(Kind::NotFound, BUSY, "无可用渠道\nno available channel"),
    group(Kind::NotFound, FAULT, include_str!("model_fault.txt")),
    // The machine has too little memory for the model. Another model may fit.
    group(Kind::NotFound, FAULT.and(NONE), "model requires more system memory"),
    group(Kind::Permission, BAD.and(DENIED).and(NONE), include_str!("access.txt")),
    // Local servers answer like this with a 500, and the failure does not pass.
    group(
        Kind::InvalidRequest,
        FAULT,
        "is not supported\ndoes not support\nnot implemented\ncannot use both",
    ),
    group(Kind::Timeout, FAULT.and(NONE).and(WIRE), include_str!("timeout.txt")),
    // Only the caller can have done this.
    group(Kind::Cancelled, WIRE, include_str!("cancelled.txt")),
    group(Kind::InvalidRequest, WIRE, include_str!("request_wire.txt")),
    group(Kind::InvalidOutput, NONE, include_str!("parse.txt")),
    // Words of the provider behind a client's words about its stream.
    group(
        Kind::Server,
        NONE.and(WIRE),
        "crashed\nunexpectedly stopped\nprocess has terminated\nprocess no longer running\nout of memory\ncuda error\nhas errored\nerror occurred while processing\nan error occurred during\nserver had an error\nserver had an issue",
    ),
    group(Kind::Network, WIRE.and(NONE), include_str!("network.txt")),
    // The words of validators.
    group(Kind::InvalidRequest, NONE, include_str!("request.txt")),
    // These are the reason phrases of HTTP, for failures that are only a text.
    group(Kind::Server, NONE.and(WIRE), include_str!("server.txt")).names_status(),
    group(Kind::Permission, WIRE.and(NONE).and(BAD).and(DENIED), "forbidden").names_status(),
    group(Kind::Auth, WIRE.and(NONE), "unauthorized").names_status(),
    group(Kind::NotFound, NONE, "not found").names_status(),
    group(
        Kind::InvalidRequest,
        NONE,
        "bad request\nunprocessable entity\nvalidation error\ninvalid request\nnot implemented",
    )
    .names_status(),
    group(Kind::InvalidRequest, NONE, include_str!("request_weak.txt")).names_status(),
    group(
        Kind::Overloaded,
        NONE.and(WIRE),
        "is unavailable\nare unavailable\nmodel unavailable\nnow unavailable",
    )
    .names_status(),
    // A gateway's 400 for a failure behind it.
    group(
        Kind::Server,
        BAD,
        "upstream request failed\nencountered a server error\ninternal server error",
    ),
];
