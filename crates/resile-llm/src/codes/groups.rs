//! Whole codes, in groups with one meaning each.

use crate::kind::{Kind, Scope};
use crate::statuses::Statuses;

/// Codes with one meaning.
pub(super) struct Group {
    pub(super) kind: Kind,
    pub(super) scope: Option<Scope>,
    /// A specific message may overrule the code.
    pub(super) yields_to_words: bool,
    pub(super) at: Statuses,
    /// The codes with blanks between them, in lower case and without separators: `rate_limit_exceeded`
    /// is `ratelimitexceeded`.
    names: &'static str,
}

pub(super) const fn group(kind: Kind, names: &'static str) -> Group {
    Group { kind, scope: None, yields_to_words: false, at: Statuses::ALL, names }
}

impl Group {
    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.names.split_ascii_whitespace()
    }

    pub(super) const fn yields_to_words(mut self) -> Self {
        self.yields_to_words = true;
        self
    }

    pub(super) const fn at(mut self, at: Statuses) -> Self {
        self.at = at;
        self
    }

    pub(super) const fn over(mut self, scope: Scope) -> Self {
        self.scope = Some(scope);
        self
    }
}

/// The groups in order of priority: quota, capacity, context and content, rate, credentials, the
/// rest. The more a code commits to, the earlier its group.
pub(super) static GROUPS: &[Group] = &[
    group(
        Kind::QuotaExhausted,
        "accessterminatedbilling accountquotaexceeded allocationquotafreetieronly arrearage billing \
         billingdisabled billinghardlimitreached billingnotactive budgetexceeded creditbalancetoolow \
         creditsexhausted exceededcurrentquota freeusagelimit \
         insufficientfunds insufficientquota insufficientuserquota monthlylimit \
         monthlyoutofcredits notenoughbalance notenoughcredits paymentrequired quotaexceeded quotaexhausted \
         servicequotaexceeded spendlimitexceeded usagenotincluded \
         userquotaexceeded",
    ),
    group(Kind::QuotaExhausted, "usagelimitexceeded usagelimitreached").over(Scope::Window),
    group(Kind::QuotaExhausted, "dailylimitexceeded dailyquotaexceeded").over(Scope::Day),
    group(
        Kind::Overloaded,
        "capacityexceeded engineoverloaded modelcapacityexhausted modelloading modelnotready modeloverloaded \
         nocapacity overcapacity overloaded serverbusy serverisoverloaded serveroverloaded \
         serviceunavailable temporarilyunavailable unavailable",
    ),
    group(Kind::Overloaded, "slowdown").at(Statuses::ALL.but(Statuses::RATE)),
    group(
        Kind::ContextLength,
        "contextlengthexceeded contextoverflow contextwindowexceeded exceedcontextsize inputtoolong \
         maxcontextlengthexceeded modelmaxprompttokensexceeded modelcontextwindowexceeded \
         prompttokenlimitexceeded",
    ),
    // At a 413 this is the size of the request.
    group(Kind::ContextLength, "tokenslimitreached").at(Statuses::ALL.but(Statuses::LARGE)),
    group(
        Kind::ContentFilter,
        "blockedbysafety contentblocked contentfilter contentfiltered contentpolicyviolation \
         datainspectionfailed guardrailintervened inappropriatecontent moderationblocked prohibitedcontent \
         responsibleaipolicyviolation safety sensitivecontent",
    ),
    group(
        Kind::InvalidOutput,
        "jsonvalidatefailed malformedfunctioncall modelproducedinvalid outputparsefailed toolusefailed",
    ),
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
        "accesstokenexpired apikeyexpired apikeyinvalid authentication authenticationfailed \
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
         modelaccessdenied modelnotopen modelpermissionblockedorg modelpermissionblockedproject modeltermsrequired \
         organizationrestricted permission permissiondenied servicedisabled servicenotopen unsupportedcountryregionterritory \
         userprojectdenied",
    )
    .yields_to_words(),
    group(
        Kind::NotFound,
        "deploymentnotfound invalidmodel invalidmodelid invalidmodelname modeldecommissioned modeldeprecated \
         modelnotavailable modelnotexist modelnotfound modelnotsupported notfound resourcenotfound \
         unavailablemodel unknownmodel unknownurl unsupportedmodel",
    ),
    group(Kind::TooLarge, "filetoolarge payloadtoolarge requestentitytoolarge requesttoolarge requestbodytoolarge"),
    group(Kind::Timeout, "deadlineexceeded etimedout gatewaytimeout modeltimeout requesttimeout timeout upstreamtimeout"),
    group(Kind::Conflict, "aborted conflict"),
    group(Kind::InvalidRequest, "notimplemented notsupported outofrange unimplemented unprocessableentity"),
    // Amazon's words for a failed model. A gateway sends it for a model that it does not know.
    group(Kind::Server, "model modelstream")
        .at(Statuses::ALL.but(Statuses::BAD).but(Statuses::AUTH).but(Statuses::DENIED).but(Statuses::MISSING)),
    // The codes of libraries for broken connections.
    group(
        Kind::Network,
        "apiconnection connectionclosed connectionreset eaiagain econnaborted econnrefused \
         econnreset ehostunreach enetunreach enotfound epipe errstreamprematureclose underrsocket",
    ),
    // At an error status, these codes say less than the status.
    group(
        Kind::Server,
        "badgateway internal internalfailure internalserver processing serverfault upstream \
         upstreamhttp",
    )
    .at(Statuses::NONE.and(Statuses::WIRE))
    .yields_to_words(),
];
