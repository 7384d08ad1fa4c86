//! Parts of codes, in groups with one meaning each.

use super::groups::{Group, group};
use crate::kind::{Kind, Scope};
use crate::statuses::Statuses;

/// The statuses at which the name of a period is the name of a limit.
const LIMITED: Statuses =
    Statuses::NONE.and(Statuses::WIRE).and(Statuses::RATE).and(Statuses::PAY).and(Statuses::DENIED);

/// Parts of codes. They are tried on codes that are not in `GROUPS`.
pub(super) static STEMS: &[Group] = &[
    group(
        Kind::QuotaExhausted,
        "insufficientquota insufficientbalance insufficientcredit outofcredit creditsbalance usagelimit billing spendlimit \
         spendinglimit quotaexhausted insufficientfund overdue nobalance notenoughbalance setlimit",
    ),
    group(Kind::QuotaExhausted, "daily perday").over(Scope::Day).at(LIMITED),
    group(Kind::QuotaExhausted, "monthly permonth weekly perweek hourly perhour").over(Scope::Window).at(LIMITED),
    group(Kind::Overloaded, "overload capacity unavailable notready serverbusy systembusy"),
    group(Kind::ContextLength, "contextlength contextwindow contextsize prompttoolong inputtoolong characterstoolong tokenstoolong outofcontext maxprompttokens"),
    group(
        Kind::ContentFilter,
        "contentfilter contentpolicy policyviolation biopolicy moderation safety guardrail \
         datainspection unsafe censor sensitive risk",
    ),
    group(Kind::RateLimit, "concurren").over(Scope::Concurrency),
    group(Kind::RateLimit, "ratelimit throttl toomanyrequest ratequota limitrequest qps"),
    // At a 429 this may be the quota of a minute.
    group(Kind::QuotaExhausted, "quotaexceeded quotareached")
        .at(Statuses::ALL.but(Statuses::RATE).but(Statuses::LARGE)),
    group(Kind::RateLimit, "exhausted quotaexceeded").at(Statuses::RATE),
    // At a 429 or a 503 a gateway waits for one of its own credentials.
    group(Kind::Auth, "apikey unauthorized authentication accesstoken credential authfail signature tokenexpired")
        .at(Statuses::ALL.but(Statuses::RATE).but(Statuses::BUSY)),
    group(Kind::Permission, "permission accessdenied forbidden noauth").yields_to_words(),
    group(Kind::NotFound, "modelnotfound invalidmodel unknownmodel unsupportedmodel modelnotexist"),
    // At a 400 the request refers to something missing, such as an earlier answer. The model
    // exists. At a 401 or 403 a key is missing.
    group(Kind::NotFound, "notfound").at(Statuses::ALL.but(Statuses::BAD).but(Statuses::AUTH).but(Statuses::DENIED)),
    group(Kind::TooLarge, "toolarge"),
    group(Kind::Timeout, "timeout timedout"),
    group(Kind::Network, "prematureclose connectionreset incompletechunked errhttp2 neterr"),
    group(
        Kind::InvalidRequest,
        "unsupported unknownparam missingrequired invalidvalue invalidtype abovemax belowmin notsupported \
         invalidjson invalidschema invalidfunction invalidimage invalidbase64",
    )
    .at(Statuses::ALL.but(Statuses::FAULT.and(Statuses::BUSY).and(Statuses::RATE)))
    .yields_to_words(),
    group(Kind::Server, "internalserver upstream").at(Statuses::NONE.and(Statuses::WIRE)).yields_to_words(),
];
