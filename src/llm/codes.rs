//! The machine codes of the providers, as data.
//!
//! A code is compared by its lower-case letters and digits without a final `Error` or `Exception`.
//! So `rate_limit_exceeded`, `RATE_LIMIT_EXCEEDED` and `rateLimitExceeded` are equal. The normal
//! form of `ThrottlingException` is `throttling`. If a body has several codes, the code in the
//! first group decides. A code outside all groups is tried against `STEMS` in the same order of
//! meaning. The generic codes say less than a status, another code or a message.

use std::sync::LazyLock;

use super::generic;
use super::kind::{Kind, Scope};
use super::normal::{LONGEST, normalize};
use super::rule::Rule;
use super::statuses::Statuses;

/// Codes with one meaning.
struct Group {
    kind: Kind,
    scope: Option<Scope>,
    /// A specific message may overrule the code.
    yields_to_words: bool,
    at: Statuses,
    /// The codes with blanks between them.
    names: &'static str,
}

const fn group(kind: Kind, names: &'static str) -> Group {
    Group { kind, scope: None, yields_to_words: false, at: Statuses::ALL, names }
}

impl Group {
    fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.names.split_ascii_whitespace()
    }

    const fn yields_to_words(mut self) -> Self {
        self.yields_to_words = true;
        self
    }

    const fn at(mut self, at: Statuses) -> Self {
        self.at = at;
        self
    }

    const fn over(mut self, scope: Scope) -> Self {
        self.scope = Some(scope);
        self
    }
}

/// The groups in order of priority: quota, capacity, context and content, rate, credentials, the
/// rest. The more a code commits to, the earlier its group.
static GROUPS: &[Group] = &[
    group(
        Kind::QuotaExhausted,
        "accessterminatedbilling accountquotaexceeded allocationquotafreetieronly arrearage billing \
         billingdisabled billinghardlimitreached billingnotactive budgetexceeded creditbalancetoolow credits \
         creditsexhausted exceededcurrentquota freeusagelimit insufficientbalance insufficientcredits \
         insufficientfunds insufficientg1creditsbalance insufficientquota insufficientuserquota monthlylimit \
         monthlyoutofcredits notenoughbalance notenoughcredits paymentrequired quotaexceeded quotaexhausted \
         quotareached \
         servicequotaexceeded spendlimitexceeded usagenotincluded \
         userquotaexceeded",
    ),
    group(Kind::QuotaExhausted, "usagelimitexceeded usagelimitreached").over(Scope::Window),
    group(Kind::QuotaExhausted, "dailylimitexceeded dailyquotaexceeded").over(Scope::Day),
    group(
        Kind::Overloaded,
        "capacityexceeded engineoverloaded modelcapacityexhausted modelloading modelnotready modeloverloaded \
         nocapacity overcapacity overloaded serverbusy serverisoverloaded serveroverloaded \
         servicetiercapacityexceeded serviceunavailable temporarilyunavailable unavailable",
    ),
    group(Kind::Overloaded, "slowdown").at(Statuses::ALL.but(Statuses::RATE)),
    group(
        Kind::ContextLength,
        "contextlengthexceeded contextoverflow contextwindowexceeded exceedcontextsize inputtoolong \
         maxcontextlengthexceeded modelmaxprompttokensexceeded modelcontextwindowexceeded prompttoolong \
         prompttokenlimitexceeded",
    ),
    // At a 413 this is the size of the request.
    group(Kind::ContextLength, "tokenslimitreached").at(Statuses::ALL.but(Statuses::LARGE)),
    group(
        Kind::ContentFilter,
        "blockedbysafety contentblocked contentfilter contentfiltered contentpolicyviolation cyberpolicy \
         datainspectionfailed guardrailintervened inappropriatecontent moderationblocked prohibitedcontent \
         responsibleaipolicyviolation safety sensitivecontent",
    ),
    group(
        Kind::InvalidOutput,
        "jsonvalidatefailed malformedfunctioncall modelproducedinvalid outputparsefailed toolusefailed",
    ),
    group(Kind::RateLimit, "concurrencylimitexceeded concurrentrequestlimitexceeded toomanyconcurrentrequests")
        .over(Scope::Concurrency),
    group(Kind::RateLimit, "slowdown").at(Statuses::RATE),
    group(
        Kind::RateLimit,
        "ratelimit ratelimited ratelimitexceeded ratelimitreached requestlimitexceeded \
         requestsperminutelimitexceeded throttled throttling tokensperminutelimitexceeded toomanyrequests \
         userratelimitexceeded",
    ),
    // OpenAI's `type` at a 429 names the exceeded unit. `RESOURCE_EXHAUSTED` is a status of Google
    // and gRPC, for a limit of any kind.
    group(Kind::RateLimit, "requests resourceexhausted tokens").at(Statuses::RATE).yields_to_words(),
    group(Kind::Overloaded, "resourceexhausted").yields_to_words(),
    group(
        Kind::Auth,
        "accesstokenexpired apikeyexpired apikeyinvalid auth authentication authenticationfailed \
         credentialsmissing expiredapikey expiredtoken incorrectapikey incompletesignature invalidapikey \
         invalidauthentication invalidclienttokenid invalidcredentials invalidgrant invalidsignature \
         invalidtoken missingapikey missingauthenticationtoken noapikey tokenexpired tokeninvalidated \
         tokenrevoked unauthenticated unauthorized unrecognizedclient",
    ),
    // These name the model. Words about a key are no reason to doubt the key.
    group(
        Kind::Permission,
        "keymodelaccessdenied orgmodelaccessdenied projectmodelaccessdenied teammodelaccessdenied \
         usermodelaccessdenied",
    ),
    group(
        Kind::Permission,
        "accessdenied accessterminated accesstokenscopeinsufficient accountdeactivated apikeyserviceblocked \
         consumersuspended forbidden insufficientpermissions locationpolicyviolated missingscope \
         modelaccessdenied modelpermissionblockedorg modelpermissionblockedproject modeltermsrequired \
         organizationrestricted permission permissiondenied servicedisabled unsupportedcountryregionterritory \
         userprojectdenied validationrequired",
    )
    .yields_to_words(),
    group(
        Kind::NotFound,
        "deploymentnotfound invalidmodel invalidmodelid invalidmodelname modeldecommissioned modeldeprecated \
         modelnotavailable modelnotexist modelnotfound modelnotsupported notfound resourcenotfound \
         unavailablemodel unknownmodel unknownurl unsupportedmodel",
    ),
    group(Kind::TooLarge, "filetoolarge payloadtoolarge requestentitytoolarge requesttoolarge requestbodytoolarge"),
    group(Kind::Timeout, "deadlineexceeded gatewaytimeout modeltimeout requesttimeout timeout upstreamtimeout"),
    group(Kind::Conflict, "aborted conflict"),
    group(Kind::InvalidRequest, "notimplemented notsupported outofrange unimplemented unprocessableentity"),
    group(Kind::Server, "model modelstream"),
    // At an error status, these codes say less than the status.
    group(
        Kind::Server,
        "badgateway internal internalfailure internalserver processing serverfault upstream \
         upstreamhttp",
    )
    .at(Statuses::NONE.and(Statuses::WIRE))
    .yields_to_words(),
];

/// The statuses at which the name of a period is the name of a limit.
const LIMITED: Statuses =
    Statuses::NONE.and(Statuses::WIRE).and(Statuses::RATE).and(Statuses::PAY).and(Statuses::DENIED);

/// Parts of codes. They are tried on codes that are not in `GROUPS`.
static STEMS: &[Group] = &[
    group(
        Kind::QuotaExhausted,
        "insufficientquota insufficientbalance insufficientcredit usagelimit billing outofcredit spendlimit \
         spendinglimit quotaexhausted quotareached insufficientfund overdue nobalance notenoughbalance setlimit",
    ),
    group(Kind::QuotaExhausted, "quotaexceeded").at(Statuses::ALL.but(Statuses::RATE)),
    group(Kind::QuotaExhausted, "daily perday").over(Scope::Day).at(LIMITED),
    group(Kind::QuotaExhausted, "monthly permonth weekly perweek hourly perhour").over(Scope::Window).at(LIMITED),
    group(Kind::Overloaded, "overload capacity unavailable notready serverbusy systembusy"),
    group(Kind::ContextLength, "contextlength contextwindow contextsize prompttoolong inputtoolong characterstoolong tokenstoolong outofcontext maxprompttokens"),
    group(
        Kind::ContentFilter,
        "contentfilter contentpolicy policyviolation biopolicy moderation safety sensitivecontent guardrail \
         datainspection unsafe censor riskdetect",
    ),
    group(Kind::RateLimit, "concurrency").over(Scope::Concurrency),
    group(Kind::RateLimit, "ratelimit throttl toomanyrequest ratequota limitrequest qpsover qpslimit"),
    group(Kind::RateLimit, "exhausted quotaexceeded").at(Statuses::RATE),
    group(Kind::Auth, "apikey unauthorized authentication accesstoken credential authfail signature tokenexpired"),
    group(Kind::Permission, "permission accessdenied forbidden").yields_to_words(),
    group(Kind::NotFound, "modelnotfound invalidmodel unknownmodel unsupportedmodel modelnotexist"),
    // At a 400 the request refers to something missing, such as an earlier answer. The model
    // exists. At a 401 or 403 a key is missing.
    group(Kind::NotFound, "notfound").at(Statuses::ALL.but(Statuses::BAD).but(Statuses::AUTH).but(Statuses::DENIED)),
    group(Kind::TooLarge, "toolarge"),
    group(Kind::Timeout, "timeout timedout"),
    group(
        Kind::InvalidRequest,
        "unsupported unknownparam missingrequired invalidvalue invalidtype abovemax belowmin notsupported \
         invalidjson invalidschema invalidfunction invalidimage invalidbase64",
    )
    .at(Statuses::ALL.but(Statuses::FAULT.and(Statuses::BUSY).and(Statuses::RATE)))
    .yields_to_words(),
    group(Kind::Server, "internalserver upstream").at(Statuses::NONE.and(Statuses::WIRE)).yields_to_words(),
];

/// The meaning of a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CodeMatch {
    /// The place in the order of priority. A smaller rank is stronger.
    pub(super) rank: usize,
    pub(super) kind: Kind,
    pub(super) scope: Option<Scope>,
    pub(super) yields_to_words: bool,
    pub(super) rule: Rule,
}

/// All names with the places of their groups in the order of the names.
static NAMES: LazyLock<Vec<(&'static str, usize)>> = LazyLock::new(|| {
    let mut names: Vec<_> = GROUPS
        .iter()
        .enumerate()
        .flat_map(|(at, group)| group.names().map(move |name| (name, at)))
        .collect();
    names.sort_unstable();
    names
});

/// Returns the meaning of `code` at that status if a group or a stem has the code.
pub(super) fn look_up(code: &str, status: Statuses) -> Option<CodeMatch> {
    let mut buffer = [0; LONGEST];
    let name = normalize(code, &mut buffer)?;
    match_whole(name, status)
        .or_else(|| {
            // "Throttling.User": each part may be a code.
            let mut buffer = [0; LONGEST];
            let mut parts = code.split('.').skip(usize::from(!code.contains('.')));
            parts.find_map(|part| match_whole(normalize(part, &mut buffer)?, status))
        })
        .or_else(|| match_stem(name, status))
}

/// The fewest letters and digits of a code that counts under any name. Shorter codes are words too.
const SURE: usize = 10;

/// Returns whether `text` is a code of the table and no ordinary word.
pub(super) fn is_known(text: &str) -> bool {
    let mut buffer = [0; LONGEST];
    !text.contains(' ')
        && normalize(text, &mut buffer).is_some_and(|name| {
            name.len() >= SURE && NAMES.binary_search_by(|(known, _)| known.cmp(&name)).is_ok()
        })
}

/// Returns whether `text` is [known](is_known) as the code of a failure that does not pass.
pub(super) fn is_permanent(text: &str) -> bool {
    is_known(text) && look_up(text, Statuses::ALL).is_some_and(|code| !code.kind.is_passing())
}

fn match_whole(name: &str, status: Statuses) -> Option<CodeMatch> {
    let first = NAMES.partition_point(|(known, _)| *known < name);
    let (known, at) = NAMES[first..]
        .iter()
        .take_while(|(known, _)| *known == name)
        .find(|(_, at)| GROUPS.get(*at).is_some_and(|group| group.at.meets(status)))?;
    Some(code_match(*at, GROUPS.get(*at)?, Rule::Code(known)))
}

fn match_stem(name: &str, status: Statuses) -> Option<CodeMatch> {
    if generic::is_generic(name) {
        return None;
    }
    let hit = |group: &'static Group| {
        group.names().find(|stem| stem.len() <= name.len() && name.contains(stem))
    };
    let (group, stem) = STEMS
        .iter()
        .filter(|group| group.at.meets(status))
        .find_map(|group| Some((group, hit(group)?)))?;
    // A stem ranks with the first group of its meaning because it commits to no more.
    let rank = GROUPS.iter().position(|known| known.kind == group.kind).unwrap_or(GROUPS.len());
    Some(code_match(rank, group, Rule::Stem(stem)))
}

fn code_match(rank: usize, group: &Group, rule: Rule) -> CodeMatch {
    CodeMatch {
        rank,
        kind: group.kind,
        scope: group.scope,
        yields_to_words: group.yields_to_words,
        rule,
    }
}

/// Returns the status that a code spells out: `http_429`, `upstream_http_503`.
pub(super) fn status_in(code: &str) -> Option<u16> {
    if !code.ends_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let digits = code.rsplit_once("http_")?.1;
    let status = digits.strip_prefix("status_").unwrap_or(digits).parse().ok()?;
    (400..600).contains(&status).then_some(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_normal_form() {
        for name in GROUPS.iter().flat_map(Group::names) {
            let mut buffer = [0; LONGEST];
            assert_eq!(normalize(name, &mut buffer), Some(name));
        }
    }

    #[test]
    fn a_name_stands_once_per_status() {
        for (n, (name, at)) in NAMES.iter().enumerate() {
            for (other, there) in &NAMES[n + 1..] {
                let apart = GROUPS[*at].at != GROUPS[*there].at;
                assert!(name != other || apart, "{name} is in two groups with the same statuses");
            }
        }
    }

    #[test]
    fn spellings_of_a_code_are_equal() {
        for code in [
            "rate_limit_exceeded",
            "RATE_LIMIT_EXCEEDED",
            "rateLimitExceeded",
            "RateLimitExceededError",
        ] {
            assert_eq!(
                look_up(code, Statuses::NONE).map(|said| said.kind),
                Some(Kind::RateLimit),
                "{code}"
            );
        }
        let amazon = "com.amazon.coral#ThrottlingException:http://internal.amazon.com/coral/com.amazon.bedrock/";
        assert_eq!(
            look_up(amazon, Statuses::BAD).map(|said| said.rule),
            Some(Rule::Code("throttling"))
        );
    }

    #[test]
    fn generic_codes_match_no_group() {
        for code in generic::names() {
            assert_eq!(look_up(code, Statuses::ALL), None, "{code}");
        }
    }
}
