//! Classifies errors of LLM providers: the kind, a possible retry, and the remedy. Run it with:
//!
//! ```text
//! cargo run -p resile-llm --example classify -- --explain 429 '{"error":{"code":"insufficient_quota"}}'
//! curl -s https://… | cargo run -p resile-llm --example classify -- --explain 503
//! pbpaste | cargo run -p resile-llm --example classify -- --text
//! cargo run -p resile-llm --example classify < errors.jsonl
//! ```
//!
//! `--explain` also names the evidence that decided, what lost against it and how sure the kind is.
//! `--text` reads a pasted error, of which only the text is left. It explains the error,
//! and prints the line for `tests/data/llm/providers.jsonl`: fill in the name, the provider and the
//! source, correct what was misread, and remove names and keys.
//!
//! Without arguments, the program reads one JSON object per line from stdin:
//! `{"id", "status", "headers", "body", "phase", "now"}`. Only `body` is required. The other fields
//! may be absent or null. `phase` is `transport`, `response`, `body_200`, `sse_pre_content` or
//! `sse_mid`. The program answers each line with one line: `{"id", "kind", "retryable",
//! "retry_after_ms", "scope", "recovery", "status", "code", "message", "rule", "found", "lost",
//! "certainty"}`. `found` is the text that the rule read, and `lost` are the rules for other kinds.

#[path = "terminal/mod.rs"]
mod terminal;

use std::error::Error;
use std::fmt::Display;
use std::io::{self, BufRead, Read, Write};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderName, HeaderValue};
use resile_llm::{Certainty, Explanation, Failure, Kind, Phase, Reason, Reply, Rule};
use serde_json::{Map, Value, json};

use terminal::{bold, dim, green, red, wrap};

const USAGE: &str = "usage: classify < LINES.jsonl
       classify --explain [STATUS] [BODY]    (reads a missing BODY from stdin)
       classify --text [TEXT]                (reads a missing TEXT from stdin)";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments.as_slice() {
        [] => lines(io::stdin().lock(), io::stdout().lock()),
        ["-h" | "--help"] => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        ["--explain", rest @ ..] => match status_and_body(rest) {
            Ok((None, body)) if body.trim().is_empty() => {
                return misused("there is no status, and the body is empty");
            }
            Ok((status, body)) => explain(status, &body),
            Err(complaint) => return misused(&complaint),
        },
        ["--text"] => match stdin() {
            Ok(text) if text.trim().is_empty() => return misused("the text on stdin is empty"),
            text => text.map_err(Into::into).and_then(|text| pasted(text.trim())),
        },
        ["--text", text] if text.trim().is_empty() => return misused("the text is empty"),
        ["--text", text] => pasted(text.trim()),
        ["--text", ..] => return misused("the text must be one argument"),
        [other, ..] => return misused(&format!("unknown argument `{other}`")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        // A closed pipe is no failure: `classify < errors | head -1`.
        Err(error) if is_broken_pipe(&*error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("classify: {error}");
            ExitCode::FAILURE
        }
    }
}

fn misused(complaint: &str) -> ExitCode {
    eprintln!("classify: {complaint} (see --help)");
    ExitCode::from(2)
}

fn is_broken_pipe(error: &(dyn Error + 'static)) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// Classifies each line of the input and prints one line of JSON for it.
fn lines(input: impl BufRead, mut output: impl Write) -> Result<(), Box<dyn Error>> {
    for (number, line) in input.lines().enumerate() {
        let line = line?;
        if line.trim().is_empty() {
            continue;
        }
        let case: Value =
            serde_json::from_str(&line).map_err(|error| format!("line {}: {error}", number + 1))?;
        let explained = classify(&case);
        let failure = explained.failure();
        let lost = explained.lost().iter().map(|reason| reason.rule().to_string());
        let answer = json!({
            "id": case["id"],
            "kind": failure.kind().as_str(),
            "retryable": failure.is_retryable(),
            "retry_after_ms": failure.wait().map(|wait| u64::try_from(wait.as_micros().div_ceil(1000)).unwrap_or(u64::MAX)),
            "scope": failure.scope().map(|scope| scope.as_str()),
            "recovery": failure.recovery().as_str(),
            "status": failure.status(),
            "code": failure.code().or(failure.error_type()),
            "message": failure.message(),
            "rule": failure.rule().to_string(),
            "found": explained.decisive().text(),
            "lost": lost.collect::<Vec<_>>(),
            "certainty": explained.certainty().as_str(),
        });
        writeln!(output, "{answer}")?;
    }
    Ok(())
}

fn classify(case: &Value) -> Explanation {
    let body = case["body"].as_str().unwrap_or_default();
    let headers = case["headers"].as_object().map(headers).unwrap_or_default();
    let phase = match case["phase"].as_str() {
        Some("transport") => Phase::Connect,
        Some("sse_pre_content") => Phase::Preamble,
        Some("sse_mid") => Phase::Content,
        _ => Phase::Response,
    };
    let now = case["now"].as_str().and_then(|now| now.parse::<jiff::Timestamp>().ok());
    let now = now.map_or_else(SystemTime::now, SystemTime::from);
    let reply = Reply::new(body.as_bytes()).with_headers(&headers).with_phase(phase);
    let status = case["status"].as_u64().and_then(|status| u16::try_from(status).ok());
    status.map_or(reply, |status| reply.with_status(status)).explain(now)
}

fn headers(fields: &Map<String, Value>) -> HeaderMap {
    let field = |(name, value): (&String, &Value)| {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        Some((HeaderName::try_from(name).ok()?, HeaderValue::try_from(value).ok()?))
    };
    fields.iter().filter_map(field).collect()
}

fn status_and_body(arguments: &[&str]) -> Result<(Option<u16>, String), String> {
    let status = |text: &str| text.parse().ok().filter(|status| (100..1000).contains(status));
    match arguments {
        [] => Ok((None, stdin()?)),
        [only] => match status(only) {
            Some(status) => Ok((Some(status), stdin()?)),
            None if only.starts_with('-') => Err(format!("unknown argument `{only}`")),
            None => Ok((None, (*only).to_owned())),
        },
        [first, body] => {
            let status = status(first).ok_or_else(|| format!("`{first}` is not an HTTP status"))?;
            Ok((Some(status), (*body).to_owned()))
        }
        [.., last] => Err(format!("`{last}` is one argument too many: quote the body")),
    }
}

fn stdin() -> Result<String, String> {
    let mut body = Vec::new();
    io::stdin().read_to_end(&mut body).map_err(|error| error.to_string())?;
    Ok(String::from_utf8_lossy(&body).into_owned())
}

/// Prints the classification of one error, one fact per line.
fn explain(status: Option<u16>, body: &str) -> Result<(), Box<dyn Error>> {
    let reply = Reply::new(body.as_bytes());
    let explained =
        status.map_or(reply, |status| reply.with_status(status)).explain(SystemTime::now());
    let failure = explained.failure();
    let retry = match (failure.is_retryable(), failure.wait()) {
        (false, None) if failure.kind() == Kind::Unknown => {
            red("no: what the error means is unknown")
        }
        (false, None) => red("no: the same request will fail again"),
        (false, Some(wait)) => red(format!("no: the limit resets in {}", spoken(wait))),
        (true, None) => green("yes, after a backoff: the provider asks for no wait"),
        (true, Some(wait)) => green(format!("yes, in {}, as the provider asks", spoken(wait))),
    };
    let tokens = failure.tokens();
    let mut out = io::stdout().lock();
    line(&mut out, "kind", Some(bold(failure.kind())))?;
    line(&mut out, "scope", failure.scope())?;
    line(&mut out, "retry", Some(retry))?;
    line(&mut out, "do", Some(failure.recovery().advice()))?;
    line(&mut out, "rule", Some(rule(explained.decisive())))?;
    line(&mut out, "found", explained.decisive().text())?;
    for reason in explained.lost() {
        let found = reason.text().map(|text| format!(": {text:?}")).unwrap_or_default();
        line(&mut out, "against", Some(format!("{} ({}){found}", rule(reason), reason.kind())))?;
    }
    line(&mut out, "against", ignored_wait(failure))?;
    line(&mut out, "how sure", Some(how_sure(&explained)))?;
    line(&mut out, "why", failure.is_by_status_alone().then(|| not_found(failure)))?;
    line(&mut out, "status", failure.status())?;
    line(&mut out, "code", failure.code())?;
    line(&mut out, "type", failure.error_type())?;
    line(&mut out, "tokens", tokens.prompt().map(|prompt| format!("{prompt} in the request")))?;
    line(&mut out, "limit", tokens.limit().map(|limit| format!("{limit} tokens")))?;
    line(&mut out, "message", failure.message())?;
    Ok(())
}

/// Explains a pasted error and prints its fixture.
fn pasted(text: &str) -> Result<(), Box<dyn Error>> {
    explain(None, text)?;
    Ok(fixture(text)?)
}

/// Returns the rule of a reason. The name of a code is left out if the code as it was sent stands beside
/// it, because the table spells codes in another way.
fn rule(reason: &Reason) -> String {
    match (reason.rule(), reason.text()) {
        (Rule::Code(_), Some(_)) => "code".to_owned(),
        (rule, _) => rule.to_string(),
    }
}

/// Prints the line of a fixture for a text.
fn fixture(text: &str) -> io::Result<()> {
    let failure = Failure::from_error_text(text);
    let mut fixture = json!({
        "name": "TODO: what is special about it",
        "provider": "TODO",
        "source": "TODO: the address where it was seen",
        "body": text,
        "kind": failure.kind().as_str(),
        "retry": failure.is_retryable(),
    });
    if let Some(wait) = failure.wait() {
        let wait = u64::try_from(wait.as_micros().div_ceil(1_000)).unwrap_or(u64::MAX);
        fixture["wait"] = wait.into();
    }
    let mut out = io::stdout().lock();
    writeln!(out, "\na fixture, with the wait in milliseconds. Remove names and keys:\n{fixture}")
}

/// Returns the wait in the words of the provider if it does not count: a quota of a day does not come back
/// within the seconds that the words beside it name.
fn ignored_wait(failure: &Failure) -> Option<String> {
    let is_ignored = failure.kind() == Kind::QuotaExhausted && failure.wait().is_none();
    let words = failure.message().filter(|_| is_ignored)?;
    let wait = Failure::from_text(429, words).wait()?;
    Some(format!("the wait of {} in the message: the quota does not reset by then", spoken(wait)))
}

/// Returns how sure the kind is, and why.
fn how_sure(explained: &Explanation) -> String {
    let certainty = explained.certainty();
    let why = match (certainty, explained.decisive().rule()) {
        (Certainty::Likely, Rule::Phrase(_) | Rule::Grammar(_)) => "words decided, and not a code",
        (Certainty::Likely, Rule::Stem(_)) => "a part of a code decided",
        (Certainty::Likely, _) => "what stands against it says the contrary about a retry",
        (Certainty::Sure, Rule::Code(_)) => "an exact code decided",
        (Certainty::Sure, Rule::Google(_)) => "a detail of the provider names the limit",
        (Certainty::Sure, Rule::Arithmetic) => "the numbers of the provider prove it",
        _ => return certainty.to_string(),
    };
    format!("{certainty}: {why}")
}

/// Returns what was searched in vain.
fn not_found(failure: &Failure) -> String {
    let mut sought = Vec::new();
    match (failure.code(), failure.error_type()) {
        (None, None) => sought.push("there is no code and no type".to_owned()),
        (code, kind) => {
            sought.extend(code.map(|code| format!("the code `{code}` is unknown or generic")));
            sought.extend(kind.map(|kind| format!("the type `{kind}` is unknown or generic")));
        }
    }
    sought.push(match failure.message() {
        Some(_) => "no phrase and no statement of the message is known".to_owned(),
        None => "there is no message".to_owned(),
    });
    let end =
        if failure.status().is_some() { "the status decides alone" } else { "no rule decides" };
    format!("{}: {end}", sought.join(", "))
}

/// Returns a wait in words, as in "2h 30m" or "11s 100ms". It is rounded up: to a second from a minute on,
/// and to a tenth of it from a second on.
fn spoken(wait: Duration) -> String {
    let step: u64 = match wait.as_secs() {
        0 => 1,
        1..60 => 100,
        _ => 1_000,
    };
    let millis = u64::try_from(wait.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
    let wait = millis.div_ceil(step).checked_mul(step).map_or(Duration::MAX, Duration::from_millis);
    jiff::SignedDuration::try_from(wait)
        .map_or_else(|_| "more than 292 billion years".to_owned(), |wait| format!("{wait:#}"))
}

/// Prints a name and its value, if the value is known.
fn line(out: &mut impl Write, name: &str, value: Option<impl Display>) -> io::Result<()> {
    let Some(value) = value else { return Ok(()) };
    let name = dim(format!("{name:>8}"));
    writeln!(out, "{}", wrap(&format!("{name}  {value}"), 10))
}
