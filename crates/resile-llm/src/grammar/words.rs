//! The words of the grammar, as data.

/// A set of meanings of a word.
pub(super) type Meanings = u64;

pub(super) const MINUTE: Meanings = 1;
pub(super) const HOURS: Meanings = 1 << 1;
pub(super) const DAY: Meanings = 1 << 2;
/// A week, a month or the period of a plan.
pub(super) const LONG: Meanings = 1 << 3;
pub(super) const PERIODS: Meanings = HOURS | DAY | LONG;
/// The limited thing: a quota, requests, tokens.
pub(super) const ALLOWANCE: Meanings = 1 << 4;
/// The allowance has been used up.
pub(super) const USED: Meanings = 1 << 5;
/// More is offered or promised.
pub(super) const OFFER: Meanings = 1 << 6;
pub(super) const MONEY: Meanings = 1 << 7;
/// There is not enough of something.
pub(super) const LACK: Meanings = 1 << 8;
/// An amount of money that the customer has set.
pub(super) const CAP: Meanings = 1 << 9;
/// The allowance of a plan. It comes back at a moment and not bit by bit.
pub(super) const PLAN: Meanings = 1 << 10;
/// The input from the caller: a prompt, a context.
pub(super) const PROMPT: Meanings = 1 << 11;
pub(super) const LONGER: Meanings = 1 << 12;
pub(super) const MEASURE: Meanings = 1 << 13;
/// A file or a list: its size is not the length of a prompt.
pub(super) const PART: Meanings = 1 << 14;
/// A text that a filter can block.
pub(super) const MATTER: Meanings = 1 << 15;
pub(super) const UNSAFE: Meanings = 1 << 16;
pub(super) const BLOCKED: Meanings = 1 << 17;
/// The output of the model.
pub(super) const OUTPUT: Meanings = 1 << 18;
pub(super) const UNPARSED: Meanings = 1 << 19;
/// Words about requests per time.
pub(super) const RATE: Meanings = 1 << 20;
/// Words about the present load.
pub(super) const LOAD: Meanings = 1 << 24;

pub(super) const CREDENTIAL: Meanings = 1 << 21;
/// A credential does not count.
pub(super) const REFUSED: Meanings = 1 << 22;

/// A day, or only the time of the message.
pub(super) const TODAY: Meanings = 1 << 23;
/// The words within do not count.
pub(super) const VOID: Meanings = 1 << 25;
pub(super) const MODEL: Meanings = 1 << 26;
/// There is no such thing.
pub(super) const ABSENT: Meanings = 1 << 27;
/// There is such a thing, but not for everyone.
pub(super) const BARRED: Meanings = 1 << 28;
pub(super) const REGION: Meanings = 1 << 29;
pub(super) const TOOL: Meanings = 1 << 30;
/// A connection or something that is sent through it.
pub(super) const LINK: Meanings = 1 << 31;
/// The connection has ended too early, or never began.
pub(super) const BROKEN: Meanings = 1 << 32;
/// The size of a body or a file.
pub(super) const BYTES: Meanings = 1 << 33;

/// A part of a request, or a way to call.
pub(super) const FIELD: Meanings = 1 << 34;
/// Someone lacks a permission.
pub(super) const FORBIDDEN: Meanings = 1 << 35;
/// The request of the caller: what cannot be parsed is not the answer.
pub(super) const REQUEST: Meanings = 1 << 36;
/// One statement says that the limit per minute is used up. No word has this meaning.
pub(super) const MINUTE_USED: Meanings = 1 << 37;

/// Words of one or several meanings, with `|` between them. A word counts from its start on: what
/// follows it may be a longer form. A blank at its end stands for the end of the word, be it a blank,
/// a mark or the end of the message. No word begins with a blank: there are many of them in a
/// message.
pub(super) static WORDS: &[(Meanings, &str)] = &[
    (
        MINUTE,
        "per min|-minute|/min|/ min|per second|per-second|/sec|a minute|each minute|every minute|minute limit|in one minute|within one minute\
         |per 1 minute|rpm|tpm|qps|每分钟|分钟|每秒|毎分|毎秒|分あたり|秒あたり|분당|초당",
    ),
    (HOURS, "hourly|per hour|/hour|/ hour|hour |-hour|five hour|24h|每小时|小时|時間あたり|시간당"),
    (HOURS | ALLOWANCE, "5h limit|hour limit"),
    // Alibaba links to this chapter of its documentation at a limit of tokens per minute.
    (MINUTE | ALLOWANCE, "error-code#token-limit"),
    (
        DAY,
        "per day|per-day|/day|daily|day |24 hours|24-hour|rpd|tpd|for the day|\
         每日|每天|当日|当天|日配额|日限|1日|日あたり|일일|하루",
    ),
    (
        LONG,
        "week|month|7-day|7 day|seven-day|billing cycle|billing period|周|每月|本月|当月|月度|今月|毎月|월간|이번 달",
    ),
    (
        ALLOWANCE,
        "limit|quota|allowance|request|token|calls|messages|限额|配额|次数|上限|调用|使用量|クォータ|リクエスト|할당량|한도|요청",
    ),
    (ALLOWANCE | PLAN, "allocation|usage|session|用量"),
    (TODAY, "today|今日|今天"),
    (
        USED,
        "hit |reached|over the |over your |have consumed|have been consumed|has been consumed|too many|spent|no more|maxed|out of|ran out|used up|used all\
         |已达|达到|已满|초과|上限に達|超過|超えました",
    ),
    // The last says that a failed call cost nothing.
    (VOID, "be empty|non-empty|no credits were"),
    (USED | LACK, "exhaust|deplete|用尽|用完|耗尽"),
    (USED | LONGER, "exceed|超过|超出|超限"),
    (LACK, "ran out|run out|out of |used all"),
    (OFFER, "unlock|upgrade|increase|get more|higher|learn more"),
    (
        MONEY,
        "credit|balance |balances|funds|wallet|prepaid|prepay|payment|余额|账户|额度|点数|积分|资源包",
    ),
    (
        LACK,
        "insufficient|not enough|too low|is low|negative|overdue|past due|no credit|not have|t have|zero|unpaid|declined|have no |has no |require|not sufficient|欠费|不足|充值|预扣费",
    ),
    // Who owes money or must pay in has none left.
    (MONEY | LACK, "overdue |top up|top-up"),
    (CAP, "spend|budget|cost limit|billing limit|消费"),
    (
        PLAN,
        "resets|reset at|subscription|allotment|resource pack|overage|free allocat|free quota|free trial|免费|套餐",
    ),
    (PROMPT, "prompt|input|question|context|conversation|history|text|transcript|输入|上下文"),
    (LONGER, "too large|too big"),
    (LONGER | MEASURE, "too long|overlong|过长|超长|overflow"),
    (
        LONGER,
        "longer than|larger than|greater than|more than|maximum|max |at most|only supports|supports up to|beyond|surpass|be <=|> 1|> 2|> 3|> 4|> 5|> 6|> 7|> 8|> 9|大于|最大",
    ),
    (MEASURE, "token|character|length|window|size|context limit|长度|字符"),
    (
        PART,
        "image|file|bytes|kb |mb |megabyte|audio|video|pixel|batch|items|output token|thinking|reasoning|max tokens|max completion tokens|temperature",
    ),
    (
        MATTER,
        "content|prompt|input|output|image|text|question|answer|response|message|query|内容|输入|输出|コンテンツ|応答|回答|プロンプト|콘텐츠|응답|프롬프트",
    ),
    (
        UNSAFE,
        "unsafe|to safety|for safety|of safety|inappropriate|high risk|high-risk|harmful|censor|policy violation|offensive|flagged|sensitive info|sensitive content|sensitive data|sensitive topic|new sensitive\
         |risk control|违规|敏感|不合规|不適切|有害|부적절|유해",
    ),
    (MATTER | UNSAFE, "guardrail|sensitive word|unsafe generation"),
    (BLOCKED, "blocked|filtered|rejected|prohibited|拦截|ブロック|차단"),
    (
        OUTPUT,
        "response|output|completion|generated|tool call|function call|json|schema|structured\
         |model behavior|arguments",
    ),
    (
        UNPARSED,
        "could not parse|couldn't parse|could not be parsed|failed to parse|cannot parse|can't parse|unable to parse|error parsing|while parsing\
         |not valid json|invalid json|json invalid|json parse|did not match|does not match|didn't match|not match|malformed|eof while pars|empty\
         |expected value|output validation|length limit was|unterminated|jsondecodeerror|failed to decode|invalid tool|is incomplete",
    ),
    // Pydantic prints this for a field of an answer.
    (
        OUTPUT | UNPARSED,
        "input value=|type validation failed|empty message|no content returned|returned no content",
    ),
    (REQUEST, "request body|body of your request|invalid request"),
    (
        CREDENTIAL,
        "api key|apikey|api-key|access token|security token|session token|auth token|refresh token|credential|secret key|bearer|password|login|密钥|令牌|apiキー|api キー|api키|api 키|認証情報|자격 증명",
    ),
    (
        REFUSED,
        "invalid|incorrect|expire|missing|not match|wrong|revoked|not valid|malformed|unauthorized|fail|not found|no longer valid|leaked|compromis|disabled|deactivat\
         |无效|过期|错误|無効|不正|期限切れ|유효하지|만료|잘못",
    ),
    (RATE, "rate limit|rate-limit|ratelimit|concurren|per min|throttl|频率|并发|速率"),
    (
        LOAD,
        "capacity|overload|busy|high demand|high load|heavy load|high traffic|saturat|congest\
         |繁忙|饱和|拥挤|负载|过载|混雑|過負荷|高負荷|과부하|혼잡",
    ),
    (MODEL, "model|engine|deployment|模型|モデル|모델"),
    (
        ABSENT,
        "not exist|t exist|not found|no such|unrecogni|not a valid|no longer available|no longer support|deprecat|retired|decommission\
         |不存在|找不到|見つかりません|존재하지",
    ),
    (BARRED, "unavailable|not offered|restricted|prohibited"),
    (BARRED | FORBIDDEN, "not allowed|not permitted|not authorized"),
    (ABSENT | BARRED, "not available|not supported|unsupported|不支持"),
    (REGION, "region|country|countries|territor|your location|geographic|地区|国家|地域|지역"),
    (TOOL, "tool|function"),
    (
        FIELD,
        "field|value|role|parameter|param |argument|propert|option|feature|header|streaming|参数|パラメータ|매개변수",
    ),
    (
        LINK,
        "connection|stream|socket|transfer|tls|ssl|tunnel|peer|chunk|segment|handshake|response body|连接|接続|연결",
    ),
    (
        BROKEN,
        "reset|closed|broken|refused|aborted|lost|terminated|disconnect|premature|incomplete|interrupt|dropped|forcibly|hang up\
         |hung up|unreachable|unexpected eof|invalid length|not closed|cut short|重置|断开|中断",
    ),
    (BYTES, "bytes|byte |mb |kb |megabyte|payload|file size|image size|body size|request body"),
];
