//! The providers' words, as data: what a message means by what it says.
//!
//! A row is a phrase, or some phrases in that order with at most [`GAP`] bytes between them, parted by `…`. Case does not
//! matter. The group that stands first decides, of those that count at the status.

use std::ops::Range;
use std::sync::LazyLock;

use aho_corasick::AhoCorasick;

use super::kind::{Kind, Scope};
use super::statuses::Statuses;

/// Rows of one meaning.
pub(super) struct Group {
    pub(super) means: Kind,
    pub(super) scope: Option<Scope>,
    at: Statuses,
    /// At these statuses only where the message begins with it: elsewhere in it somebody may be quoted.
    leading_at: Statuses,
    rows: &'static str,
}

const fn group(means: Kind, at: Statuses, rows: &'static str) -> Group {
    Group { means, scope: None, at, leading_at: Statuses::ALL.but(Statuses::ALL), rows }
}

impl Group {
    const fn over(mut self, scope: Scope) -> Self {
        self.scope = Some(scope);
        self
    }

    const fn leading_at(mut self, at: Statuses) -> Self {
        self.leading_at = at;
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
const WIRE: Statuses = Statuses::WIRE;

/// Statuses at which the request itself is at fault.
const OURS: Statuses = BAD.and(LARGE).and(NONE);

/// Between two phrases of a row.
const GAP: u32 = 90;

/// How far into a message still is its beginning: past `Error: ` or the name of a class.
const LEAD: u32 = 24;

static GROUPS: &[Group] = &[
    group(
        Kind::QuotaExhausted,
        BAD.and(AUTH).and(PAY).and(DENIED).and(RATE).and(NONE),
        "exceeded your current quota
         credit balance is too low
         credit balance too low
         insufficient balance
         insufficient account balance
         insufficient credit
         insufficient funds
         insufficient quota
         insufficient_quota
         balance is insufficient
         balance is not enough
         not enough credit
         requires more credits
         more credits are required
         out of credits
         run out of credits
         ran out of credits
         no credits left
         no remaining credits
         used all available credits
         exceeded your monthly included credits
         monthly spending limit
         spending limit
         spending cap
         spend limit
         billing hard limit
         billing is not active
         billing not active
         account is not active, please check your billing
         enable billing
         account is in arrears
         overdue payment
         payment required
         unpaid invoice
         usage limit has been reached
         hit your usage limit
         reached your usage limit
         reached your specified api usage limits
         reached your specified workspace api usage limits
         usage limit reached
         usage limit exceeded
         exceeded your usage limit
         key limit exceeded
         exceeded your monthly
         monthly limit
         monthly quota
         monthly usage
         weekly limit
         weekly usage limit
         quota has been exhausted
         quota is exhausted
         free quota … exhausted
         free tier … exhausted
         exceededbudget
         budget has been exceeded
         exceeded budget
         calls / month
         please recharge
         no resource package
         premium request allowance
         no quota
         quota exceeded for this month
         purchase more credits
         add more credits",
    ),
    group(
        Kind::QuotaExhausted,
        RATE.and(NONE),
        "free-models-per-day
         perday
         requests per day … limit: 0",
    )
    .over(Scope::Day),
    group(
        Kind::Overloaded,
        FAULT.and(RATE).and(NONE).and(WIRE),
        "overloaded
         at capacity
         over capacity
         out of capacity
         capacity exceeded
         exceeded capacity
         exceeds capacity
         capacity constraints
         insufficient capacity
         no capacity
         no available capacity
         capacity available
         capacity is exceeded
         lack of capacity
         high demand
         high load
         heavy load
         high traffic
         server is busy
         servers are busy
         server busy
         service is busy
         system is busy
         system busy
         is too busy
         are too busy
         currently busy
         model is loading
         model loading
         loading model
         currently loading
         still loading
         is not ready
         not ready for inference
         model is starting
         warming up
         cold start
         no slot available
         queue is full
         queue full
         temporarily unavailable
         currently unavailable
         service unavailable
         maximum pending requests
         no healthy upstream
         no available server
         no available workers
         no workers available
         upstream connect error … overflow",
    ),
    group(
        Kind::RateLimit,
        RATE.and(FAULT).and(NONE).and(DENIED),
        "too many concurrent
         concurrency limit
         concurrent requests
         concurrent connections
         concurrent request limit
         concurrency quota
         too many connections
         parallel requests",
    )
    .over(Scope::Concurrency)
    .leading_at(BAD),
    group(
        Kind::RateLimit,
        RATE.and(FAULT).and(NONE).and(DENIED),
        "tokens per day
         requests per day
         per day (rpd)
         per day (tpd)",
    )
    .over(Scope::Day)
    .leading_at(BAD),
    group(
        Kind::RateLimit,
        RATE.and(FAULT).and(NONE).and(DENIED),
        "tokens per min
         requests per min
         tokens_per_minute
         tokens/min
         requests/min
         calls / minute
         perminute
         per-min
         tokens per second
         requests per second",
    )
    .over(Scope::Minute)
    .leading_at(BAD),
    group(
        Kind::RateLimit,
        RATE.and(FAULT).and(NONE).and(DENIED),
        "rate limit
         rate-limit
         ratelimit
         rate_limit
         rate exceeded
         call rate
         request rate
         too many requests
         too many tokens, please wait
         throttl
         slow down
         please wait before
         wait before trying
         wait a moment
         request limit
         requests limit
         token limit … per
         reduce the frequency
         reduce your request
         quota exceeded
         exceeded quota
         quota limit
         exceeded your current quota
         quota will reset
         resource exhausted
         resource has been exhausted
         resources exhausted
         retry your request later
         session limit",
    )
    .leading_at(BAD),
    // Not the prompt but the answer asked for: such requests are invalid, though they speak of tokens too.
    group(
        Kind::InvalidRequest,
        OURS,
        "maximum allowed number of output tokens
         at most … completion tokens
         at most … output tokens
         maximum tokens you requested exceed
         max_tokens must be
         max_tokens … less than or equal
         max_completion_tokens … must be
         is too small",
    ),
    group(
        Kind::ContextLength,
        OURS.and(FAULT).and(RATE),
        "maximum context length
         max context length
         maximum context size
         maximum context window
         context length exceeded
         context length of
         context_length_exceeded
         contextwindowexceeded
         exceed … context length
         exceed … context limit
         exceed … context window
         exceed … context size
         exceeds … contextwindow
         larger than … context
         longer than … context
         greater than … context
         greater than … n_ctx
         too long for … context
         too large for … context
         outside … context window
         ran out of room in the model's context window
         available context size
         context window is full
         context the overflow
         context overflow
         overflows the context
         prompt is too long
         prompt too long
         prompt was too long
         prompt exceeds
         prompt token count
         prompt contains too many tokens
         prompt tokens limit exceeded
         prompt length
         prompt has … tokens
         input is too long
         input too long
         input was too long
         input is too large for
         input token count
         input tokens exceed
         input length … exceed
         input length should be
         input text is too long
         total length of … exceeds
         conversation is too long
         conversation too long
         request too long
         messages too long
         message too long
         too many input tokens
         too many tokens
         too many total text bytes
         token limit exceeded
         token limit was exceeded
         exceeds the token limit
         exceeds token limit
         exceeded token limit
         exceeded model token limit
         exceeds … maximum number of tokens
         exceeds … maximum number of input tokens
         exceeds the model's maximum
         exceeds max length
         exceeds maximum length of … tokens
         exceeds max_model_len
         exceeds max_seq_len
         maximum prompt length
         maximum input length
         maximum allowed input length
         maximum number of input tokens
         max input token
         reduce the length of the
         reduce your prompt
         shorten your prompt
         max_new_tokens` must be <=
         must have less than … tokens
         range of input length
         tokens > 
         tokens in the prompt cannot exceed
         max size: … tokens",
    ),
    group(
        Kind::TooLarge,
        BAD.and(LARGE).and(RATE).and(NONE),
        "request too large
         request_too_large
         request is too large
         request entity too large
         request body too large
         payload too large
         payload size exceeds
         content too large
         body exceeded
         exceeds the maximum size
         exceeds the maximum allowed number of bytes
         maximum request size
         request size exceeds
         request payload size
         request exceeds the maximum
         file is too large
         file too large
         exceeds maximum file size",
    ),
    group(
        Kind::ContentFilter,
        OURS.and(DENIED).and(FAULT),
        "content management policy
         content filter
         content_filter
         content policy
         contentpolicy
         content moderation
         content safety
         content violates
         safety system
         safety filter
         safety check
         safety reasons
         safety polic
         responsible ai
         responsibleai
         usage polic
         usage guidelines
         was flagged
         been flagged
         is flagged
         were flagged
         flagged as
         flagged by
         flagged for
         requires moderation
         violat … polic
         violat … terms of
         inappropriate content
         sensitive content
         sensitive word
         unsafe or sensitive
         content exists risk
         prohibited content
         prohibited_content
         prohibited use
         blocked by content
         blocked by our
         blocked due to
         blocked by guardrail
         guardrail intervened",
    ),
    group(
        Kind::InvalidOutput,
        BAD.and(FAULT).and(NONE),
        "tool call validation failed
         failed to call a function
         failed_generation
         failed to generate json
         failed to validate json
         generated json does not match
         model did not call a tool
         model produced invalid
         model output … not valid
         could not parse the model
         failed to parse tool call
         failed to parse model output
         invalid tool call arguments
         parsing failed. the model generated output
         response did not match
         no content generated
         returned an empty response
         model returned no",
    ),
    group(
        Kind::Auth,
        BAD.and(AUTH).and(DENIED).and(NONE),
        "incorrect api key
         invalid api key
         invalid api-key
         invalid api_key
         invalid x-api-key
         invalid apikey
         api key is invalid
         api key not valid
         api key not found
         api key … expired
         api key … is invalid
         api key … not valid
         api key … reported as leaked
         api key … revoked
         api key … disabled
         api key is missing
         api key is required
         api key must be
         missing api key
         no api key
         provide an api key
         provide a valid api key
         pass a valid api key
         invalid authentication
         invalid authorization
         invalid bearer
         invalid credential
         invalid token
         invalid access token
         invalid username or password
         token is invalid
         token has expired
         token is expired
         token expired
         expired token
         security token included in the request
         authentication fail
         authentication error
         authentication credentials
         authentication required
         authentication token
         not authenticated
         failed to authenticate
         unauthorized
         unauthenticated
         unregistered callers
         missing authorization
         authorization header
         no auth credentials
         no cookie auth
         could not resolve authentication
         unable to locate credentials
         login required
         user not found",
    ),
    group(
        Kind::NotFound,
        BAD.and(MISSING).and(DENIED).and(FAULT).and(NONE),
        "model not found
         model_not_found
         model not exist
         model … does not exist
         model … doesn't exist
         model … not found
         model … is not available
         model … isn't available
         model … not a valid
         model … was not found
         model … could not be found
         model … has been deprecated
         model … is deprecated
         model … has been retired
         model … has been removed
         model … decommissioned
         model … no longer available
         model … no longer supported
         model … end of its life
         model … end-of-life
         model … has been shut down
         model … is not supported when
         model … is not supported for
         model identifier is invalid
         model id … on-demand throughput
         model ids … invalid
         unable to access model
         is not a valid model
         is not a supported model
         not a valid model id
         invalid model
         unknown model
         unsupported model
         unrecognized model
         unexpected model name
         unrecognised model
         no such model
         no model named
         nonexistent model
         supported models are
         supported api model names are
         supported model names
         available models
         list of supported models
         list of available models
         call listmodels
         permitted models
         no endpoints found
         no allowed providers
         try pulling it first
         deployment … does not exist
         deployment … not found
         engine … does not exist
         no longer available
         previous response … not found",
    ),
    // Apart, as only at a 400 it is the model that is spoken of: "X is not supported with this model" is another thing.
    group(Kind::NotFound, BAD, "model … is not supported"),
    group(
        Kind::Permission,
        BAD.and(AUTH).and(DENIED).and(MISSING).and(NONE),
        "location is not supported
         unsupported country
         country, region, or territory
         not available in your country
         not available in your region
         not supported in your region
         does not have access to
         do not have access to
         don't have access to
         you don't have access
         not have permission
         permission denied
         access denied
         access to … denied
         not authorized to
         is not authorized
         not permitted to
         has not been used in project
         must be verified
         terms acceptance
         accept the terms
         organization has been disabled
         organization has been restricted
         account has been suspended
         account is suspended
         account has been deactivated
         account … disabled
         forbidden",
    ),
    group(
        Kind::Timeout,
        FAULT.and(NONE).and(WIRE),
        "timed out
         timeout
         time-out
         etimedout
         deadline exceeded
         deadline expired
         deadline has elapsed
         took too long",
    ),
    // What only we can have done.
    group(
        Kind::Cancelled,
        WIRE,
        "aborted by user
         aborted by the user
         user aborted
         aborterror
         operation was aborted
         request was aborted
         cancelled by user
         canceled by user
         operation was canceled
         operation was cancelled",
    ),
    group(
        Kind::InvalidRequest,
        WIRE,
        "invalid url
         relative url without a base
         builder error
         unsupported scheme
         unsupported protocol
         url scheme is not allowed",
    ),
    group(
        Kind::Network,
        WIRE.and(NONE),
        "connection reset
         connection refused
         connection closed
         connection aborted
         connection error
         connection terminated
         connection was closed
         connection lost
         connection termination
         closed unexpectedly
         closed the connection
         econnreset
         econnrefused
         econnaborted
         epipe
         ehostunreach
         enetunreach
         enotfound
         eai_again
         broken pipe
         socket hang up
         socket connection
         other side closed
         fetch failed
         failed to fetch
         network error
         network is unreachable
         no route to host
         getaddrinfo
         dns error
         failed to lookup address
         name resolution
         name or service not known
         certificate
         tls handshake
         ssl handshake
         handshake fail
         unexpected eof
         unexpected end of
         unexpected-eof
         incomplete message
         incomplete chunked
         incomplete read
         invalid chunk
         peer closed
         premature close
         prematurely
         error sending request
         error reading a body
         error decoding response body
         request or response body error
         upstream connect error
         stream closed
         stream disconnected
         stream ended
         stream error
         stream was reset
         stream interrupted
         goaway
         refused_stream
         http2 error
         protocol error
         terminated",
    ),
    // The reason phrases of HTTP, where a text is all there is.
    group(
        Kind::Server,
        NONE.and(WIRE),
        "internal server error\n bad gateway\n internal error\n server error\n server had an error",
    ),
    group(Kind::Permission, WIRE, "forbidden"),
    group(Kind::Auth, WIRE, "unauthorized"),
    group(Kind::NotFound, NONE, "not found"),
    group(
        Kind::InvalidRequest,
        NONE,
        "bad request\n unprocessable entity\n validation error\n invalid request\n not implemented",
    ),
];

/// A row that matched.
#[derive(Clone, Copy)]
pub(super) struct Hit {
    pub(super) kind: Kind,
    pub(super) scope: Option<Scope>,
    /// The row's first phrase.
    pub(super) name: &'static str,
}

/// All phrases in one automaton, so that a message is read once however many there are.
struct Phrases {
    automaton: AhoCorasick,
    rows: Vec<Row>,
}

struct Row {
    group: &'static Group,
    name: &'static str,
    parts: Vec<usize>,
}

/// Where a phrase stands in a message: its first and its last place.
#[derive(Clone, Copy)]
struct Place {
    first: (u32, u32),
    last: (u32, u32),
}

static PHRASES: LazyLock<Option<Phrases>> = LazyLock::new(|| {
    let mut patterns: Vec<&'static str> = Vec::new();
    let mut rows = Vec::new();
    for group in GROUPS {
        for line in group.rows.lines() {
            let mut parts = Vec::new();
            for phrase in line.split('…').map(|phrase| phrase.trim_matches(BLANK)) {
                parts.push(patterns.iter().position(|known| *known == phrase).unwrap_or_else(|| {
                    patterns.push(phrase);
                    patterns.len() - 1
                }));
            }
            let name = parts.first().and_then(|first| patterns.get(*first)).copied().unwrap_or_default();
            rows.push(Row { group, name, parts });
        }
    }
    let automaton = AhoCorasick::builder().ascii_case_insensitive(true).build(&patterns).ok()?;
    Some(Phrases { automaton, rows })
});

const BLANK: [char; 2] = [' ', '\n'];

/// The first row, in the table's order, that `message` has outside of `quoted` and that counts at `status`.
pub(super) fn look_up(
    message: &str,
    quoted: &[Range<usize>],
    status: Statuses,
    mut veto: impl FnMut(&Hit) -> bool,
) -> Option<Hit> {
    let phrases = PHRASES.as_ref()?;
    let mut places: Vec<Option<Place>> = Vec::new();
    for found in phrases.automaton.find_overlapping_iter(message) {
        if quoted.iter().any(|range| range.contains(&found.start())) {
            continue;
        }
        if places.is_empty() {
            places.resize(phrases.automaton.patterns_len(), None);
        }
        let span = (position(found.start()), position(found.end()));
        if let Some(place) = places.get_mut(found.pattern().as_usize()) {
            let first = place.map_or(span, |place| place.first);
            *place = Some(Place { first, last: span });
        }
    }
    if places.is_empty() {
        return None;
    }
    let hits = phrases.rows.iter().filter(|row| row.counts(&places, status));
    hits.map(|row| Hit { kind: row.group.means, scope: row.group.scope, name: row.name }).find(|hit| !veto(hit))
}

impl Row {
    fn counts(&self, places: &[Option<Place>], status: Statuses) -> bool {
        let place = |part: &usize| places.get(*part).copied().flatten();
        let Some(first) = self.parts.first().and_then(place) else { return false };
        let at = self.group.at.meets(status) || self.group.leading_at.meets(status) && first.first.0 <= LEAD;
        at && self.parts.windows(2).all(|pair| match (pair.first().and_then(place), pair.get(1).and_then(place)) {
            (Some(a), Some(b)) => follows(a.first, b.first) || follows(a.last, b.last) || follows(a.first, b.last),
            _ => false,
        })
    }
}

fn follows(a: (u32, u32), b: (u32, u32)) -> bool {
    b.0.checked_sub(a.1).is_some_and(|between| between <= GAP)
}

/// Messages are bounded far below 4 GiB.
fn position(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_found_by_its_own_words() {
        let phrases = PHRASES.as_ref().unwrap();
        for row in &phrases.rows {
            let words: Vec<_> =
                GROUPS.iter().flat_map(|group| group.rows.lines()).filter(|line| line.contains(row.name)).collect();
            assert!(!words.is_empty() && !row.name.is_empty(), "an empty row in {:?}", row.group.means);
        }
        assert!(phrases.rows.iter().all(|row| row.name == row.name.to_ascii_lowercase()));
    }
}
