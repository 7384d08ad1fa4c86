//! Classifies mutated answers of LLM providers and checks the laws of the classification:
//!
//! * It never panics, and it takes no longer than a second.
//! * A wait is never zero.
//! * An explanation has the same failure, and its places are in the message.
//! * A permanent kind is retried only if the provider says so. A provider's no is always obeyed.
//! * A call that we cancelled is never retried.
//! * A usage is never empty.
//! * No reset of a limit is zero.
//!
//! ```text
//! cargo run --release -- [SECONDS] [SEED]
//! ```
//!
//! A run is deterministic for a seed, except for its end by time. It needs no other toolchain than
//! the crate's. An input that breaks a law is written to `found/`, and the run ends with status 1.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant, SystemTime};

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use resile::Classify;
use resile::quota::Dimension;
use resile_llm::{self as llm, Classifier, Failure, Kind, Phase, Reply};

/// Whole answers of every shape, one per line. Mutations start from these.
const SEEDS: [&str; 7] = [
    include_str!("../../tests/data/llm/kinds.jsonl"),
    include_str!("../../tests/data/llm/clashes.jsonl"),
    include_str!("../../tests/data/llm/waits.jsonl"),
    include_str!("../../tests/data/llm/grammar.jsonl"),
    include_str!("../../tests/data/llm/texts.jsonl"),
    include_str!("../../tests/data/llm/providers.jsonl"),
    include_str!("../../tests/data/llm/seconds.jsonl"),
];

/// Tokens that are hard for parsers.
const TOKENS: [&str; 60] = [
    "{",
    "}",
    "[",
    "]",
    "\"",
    "\\",
    "\\u0000",
    "\\ud800",
    ":",
    ",",
    "null",
    "true",
    "-",
    "1e999",
    "1e-999",
    "NaN",
    "inf",
    "0",
    "18446744073709551616",
    "99999999999999999999999999999999",
    "429",
    "data: ",
    "\n\n",
    "event: error\n",
    "<title>",
    "</title>",
    "{\"error\":",
    "\"message\":\"",
    "\"details\":[",
    "\"retryDelay\":\"9999999999999999s\"",
    "try again in ",
    "Limit ",
    "Requested ",
    "limit: 0",
    "{'message': '",
    "'",
    " > ",
    "tokens",
    "quota",
    "…",
    "\u{feff}",
    "\u{0}",
    "ſ",
    "İ",
    "\"code\":",
    "rate limit ",
    "\"usage\":{",
    "\"prompt_tokens\":",
    "\"input_tokens\":",
    "\"output_tokens\":",
    "\"usageMetadata\":{\"promptTokenCount\":",
    "status = StatusCode.RESOURCE_EXHAUSTED",
    "details = \"",
    "rpc error: code = Unavailable desc = ",
    "8 INTERNAL: ",
    "code: ",
    "(rate_limit_exceeded) ",
    "ConnectTimeoutError(",
    "}\n{",
    "\"is_error\":true,",
];

const HEADERS: [&str; 16] = [
    "retry-after",
    "retry-after-ms",
    "x-ms-retry-after-ms",
    "date",
    "x-should-retry",
    "x-amzn-errortype",
    "x-ratelimit-remaining-tokens",
    "x-ratelimit-reset-tokens",
    "anthropic-ratelimit-unified-status",
    "anthropic-ratelimit-unified-reset",
    "x-codex-primary-used-percent",
    "x-codex-primary-reset-after-seconds",
    "ratelimit",
    "ratelimit-policy",
    "x-ratelimit-limit-requests-minute",
    "anthropic-ratelimit-input-tokens-reset",
];

const VALUES: [&str; 23] = [
    "0",
    "1",
    "-1",
    "1.5",
    "NaN",
    "inf",
    "1e400",
    "9999999999999999999999",
    "6m0s",
    "2m59.56s",
    "true",
    "false",
    "rejected",
    "100",
    "Fri, 29 Sep 2023 16:26:57 GMT",
    "Sun, 06 Nov 1994 08:49:37 GMT",
    "Thu, 01 Jan 1970 00:00:00 GMT",
    "Fri, 31 Dec 9999 23:59:59 GMT",
    "9999-12-31T23:59:59Z",
    "-9999-01-01T00:00:00Z",
    "\"a\";r=0;t=12, \"b\";r=4",
    "\"a\";q=100;w=60;qu=\"tokens\"",
    "limit=10, remaining=0, reset=6",
];

/// A xorshift64* generator: Vigna, "An experimental exploration of Marsaglia's xorshift generators,
/// scrambled" (2016).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() >> 11).unwrap_or(0) % end.max(1)
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}

/// One answer of a provider.
#[derive(Debug)]
struct Input {
    status: Option<u16>,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
    phase: Phase,
    now: SystemTime,
}

fn main() {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<u64>().expect("a number"));
    let limit = Duration::from_secs(arguments.next().unwrap_or(60));
    let seed = arguments.next().unwrap_or(1);
    let seeds: Vec<&str> = SEEDS.iter().flat_map(|lines| lines.lines()).map(body_of).collect();
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    std::panic::set_hook(Box::new(|_| {}));
    let (began, mut runs, mut slowest, mut kinds) =
        (Instant::now(), 0_u64, Duration::ZERO, [0_u64; 32]);
    while began.elapsed() < limit {
        for _ in 0..256 {
            let input = mutated(&seeds, &mut random);
            let started = Instant::now();
            let judged = catch_unwind(AssertUnwindSafe(|| hold_the_laws(&input)));
            let took = started.elapsed();
            slowest = slowest.max(took);
            runs += 1;
            match judged {
                Ok(Ok(kind)) => kinds[kind as usize % 32] += 1,
                Ok(Err(law)) => report(&input, law),
                Err(_) => report(&input, "the classification panics"),
            }
            if took > Duration::from_secs(1) {
                report(&input, "the classification takes longer than a second");
            }
        }
    }
    let met = kinds.iter().filter(|count| **count > 0).count();
    println!(
        "{runs} inputs in {:.0?}, slowest {slowest:.1?}, {met} kinds met, no law broken",
        began.elapsed()
    );
}

/// Returns the body of a fixture, roughly: the text after `"body":`.
fn body_of(line: &str) -> &str {
    let after = line.split_once("\"body\":").map_or(line, |(_, body)| body);
    after.rsplit_once(",\"kind\"").map_or(after, |(body, _)| body)
}

fn mutated(seeds: &[&str], random: &mut Random) -> Input {
    let mut body = random.of(seeds).as_bytes().to_vec();
    // The text of a fixture is a JSON string: its content is wanted.
    if body.first() == Some(&b'"') && random.below(2) == 0 {
        body = String::from_utf8_lossy(&body)
            .trim_matches('"')
            .replace("\\n", "\n")
            .replace("\\\"", "\"")
            .into_bytes();
    }
    for _ in 0..random.below(6) {
        mutate(&mut body, seeds, random);
    }
    let status = (random.below(4) > 0).then(|| {
        random.of(&[200, 400, 401, 402, 403, 404, 408, 413, 422, 429, 500, 503, 529, 0, 99, 65_535])
    });
    let headers = (0..random.below(4)).map(|_| (random.of(&HEADERS), value(random))).collect();
    let phase = random.of(&[Phase::Connect, Phase::Response, Phase::Preamble, Phase::Content]);
    let now = SystemTime::UNIX_EPOCH
        + Duration::from_secs(random.of(&[0, 1, 1_760_000_000, 253_402_300_799]));
    Input { status, headers, body, phase, now }
}

fn value(random: &mut Random) -> String {
    let mut value = random.of(&VALUES).to_owned();
    if random.below(4) == 0 {
        let at = random.below(value.len());
        value.insert(at, char::from(b' ' + u8::try_from(random.below(94)).unwrap_or(0)));
    }
    value
}

fn mutate(body: &mut Vec<u8>, seeds: &[&str], random: &mut Random) {
    let at = random.below(body.len() + 1);
    match random.below(9) {
        0 => body.truncate(at),
        1 => body.splice(at..at, random.of(&TOKENS).bytes()).for_each(drop),
        2 => {
            let end = at + random.below(body.len() - at + 1).min(16);
            body.drain(at..end);
        }
        3 => {
            if let Some(byte) = body.get_mut(at) {
                *byte ^= 1 << random.below(8);
            }
        }
        4 => {
            let other = random.of(seeds).as_bytes();
            let from = random.below(other.len() + 1);
            body.splice(at..at, other[from..].iter().copied()).for_each(drop);
        }
        // The body as a string inside another body.
        5 => {
            let quoted = String::from_utf8_lossy(body).replace('\\', "\\\\").replace('"', "\\\"");
            *body = format!("{{\"error\":{{\"message\":\"{quoted}\"}}}}").into_bytes();
        }
        6 => {
            let token = random.of(&TOKENS).repeat(1 + random.below(400));
            body.splice(at..at, token.bytes()).for_each(drop);
        }
        7 => {
            let deep = 1 + random.below(300);
            let open =
                random.of(&["[", "{\"error\":", "{\"detail\":", "{\"response\":{\"error\":"]);
            body.splice(0..0, open.repeat(deep).bytes()).for_each(drop);
        }
        _ => {
            let end = at + random.below(body.len() - at + 1);
            let part = body[at..end].to_vec();
            body.splice(at..at, part).for_each(drop);
        }
    }
    body.truncate(1 << 20);
}

fn hold_the_laws(input: &Input) -> Result<Kind, &'static str> {
    let field = |(name, value): &(&str, String)| {
        Some((HeaderName::try_from(*name).ok()?, HeaderValue::try_from(value.as_str()).ok()?))
    };
    let headers: HeaderMap = input.headers.iter().filter_map(field).collect();
    let reply = Reply::new(&input.body).with_headers(&headers).with_phase(input.phase);
    let reply = input.status.map_or(reply, |status| reply.with_status(status));
    let failure = reply.classify(input.now);
    let told = headers.get("x-should-retry").and_then(|value| value.to_str().ok()).map(str::trim);
    let text = format!("{failure} {failure:?} {}", failure.rule());
    let verdict = Classifier::new().classify(&failure);
    let explained = reply.explain(input.now);
    let again = explained.failure();
    let _: Option<Failure> = reply.find(input.now);
    let status = input.status.and_then(|status| StatusCode::from_u16(status).ok());
    let limits = resile_llm::limits(status.unwrap_or_default(), &headers, input.now);
    let is_zero =
        |dimension| limits.get(dimension).reset.is_some_and(|reset: Duration| reset.is_zero());
    let usage = llm::usage(&input.body);
    let words = String::from_utf8_lossy(&input.body);
    let in_words = Failure::find_in_text(&words);
    let message = failure.message().unwrap_or_default();
    let reasons = explained.lost().iter().chain([explained.decisive()]);
    let mut places = reasons.filter_map(|reason| Some((reason.span()?, reason.text())));
    match () {
        () if places.any(|(span, text)| message.get(span) != text) => Err("a place is wrong"),
        () if usage.is_some_and(|usage| usage.is_empty()) => Err("a usage is empty"),
        () if Dimension::ALL.into_iter().any(is_zero) => Err("a reset is zero"),
        () if failure.is_retryable() && !failure.kind().is_passing() && told != Some("true") => {
            Err("a permanent kind is retried")
        }
        () if failure.is_retryable() && failure.kind() == Kind::Cancelled => {
            Err("a call that we cancelled is retried")
        }
        () if failure.is_retryable() && told == Some("false") => {
            Err("the provider's no is ignored")
        }
        () if failure.wait().is_some_and(|wait| wait.is_zero()) => Err("a wait is zero"),
        () if verdict.is_none_or(|verdict| verdict.is_again() != failure.is_retryable()) => {
            Err("the verdict disagrees with is_retryable")
        }
        () if again.kind() != failure.kind() || again.wait() != failure.wait() => {
            Err("two runs give two results")
        }
        () if failure.to_string().chars().any(char::is_control) => {
            Err("the display has a control character")
        }
        () if in_words.is_some_and(|found| found.wait().is_some_and(|wait| wait.is_zero())) => {
            Err("a wait in words is zero")
        }
        () if text.is_empty() => Err("the failure has no text"),
        () => Ok(failure.kind()),
    }
}

fn report(input: &Input, law: &str) -> ! {
    let _ = std::fs::create_dir_all("found");
    let name = format!(
        "found/{:016x}",
        input
            .body
            .iter()
            .fold(14_695_981_039_346_656_037, |hash: u64, byte| (hash ^ u64::from(*byte))
                .wrapping_mul(1_099_511_628_211))
    );
    let _ = std::fs::write(&name, &input.body);
    println!(
        "{law}: status {:?}, headers {:?}, phase {:?}, now {:?}, body in {name}",
        input.status, input.headers, input.phase, input.now
    );
    std::process::exit(1);
}
