//! The numbers of LLM tokens that an answer reports.

use std::borrow::Cow;

use serde_json::{Deserializer, Map, Value};

use crate::body::PARSED;
use crate::text;
use resile::quota::{self, Usage};

/// Returns the usage that an answer reports, or `None` if it reports none.
///
/// The body is a whole answer in JSON, the data of one stream event, or several events. Later
/// numbers replace earlier ones. So the whole stream gives the usage of its end.
///
/// | format | place of the usage |
/// |---|---|
/// | OpenAI chat completions, Azure, Mistral, `DeepSeek`, xAI | `usage` |
/// | Groq | `usage`, in streams `x_groq.usage` |
/// | OpenAI responses | `usage`, in streams `response.usage` |
/// | Anthropic messages | `usage`, in streams `message.usage` and then `usage` |
/// | Gemini, Vertex | `usageMetadata` |
/// | Bedrock Converse | `usage`, in streams `metadata.usage` |
/// | Bedrock `InvokeModel` streams | `amazon-bedrock-invocationMetrics` |
/// | Cohere | `usage.tokens` and `meta.tokens`, or else `billed_units` there |
/// | Ollama | `prompt_eval_count` and `eval_count` |
///
/// * Input: tokens read from a cache or written to it are not counted as input. They are the
///   usage's [cache reads](Usage::cache_reads) and [cache writes](Usage::cache_writes).
/// * Output: tokens of reasoning and thoughts are included.
/// * Absent numbers: null, negative numbers, fractions and strings.
/// * Long bodies: of a body above 256 KiB only the last 16 KiB are searched. Most formats have the
///   usage near the end.
///
/// # Examples
///
/// ```
/// let body = br#"{"choices":[],"usage":{
///     "prompt_tokens":1200,"completion_tokens":350,
///     "prompt_tokens_details":{"cached_tokens":1000}}}"#;
/// let usage = resile_llm::usage(body).unwrap();
/// assert_eq!(usage.input(), Some(200));
/// assert_eq!(usage.cache_reads(), 1_000);
/// assert_eq!(usage.output(), Some(350));
/// ```
#[must_use]
pub fn usage(body: &[u8]) -> Option<Usage> {
    let usage = if body.len() > PARSED {
        last_usage(body.get(body.len() - TAIL..)?)
    } else if !NAMES.iter().any(|name| contains(body, name)) {
        return None; // most events of a stream
    } else if text::is_events(body) {
        let body = String::from_utf8_lossy(body);
        text::events(&body)
            .map(Cow::into_owned)
            .fold(Usage::new(), |usage, data| usage.merged(usage_of_values(data.as_bytes())))
    } else {
        usage_of_values(body)
    };
    Some(usage).filter(|usage| !usage.is_empty())
}

/// Records the [`usage`] that an answer reports as the usage of the current attempt.
///
/// Call this within the operation of a call, with a whole answer or with each event of its stream.
/// See [`quota::record`]. Returns false if the body reports no usage or if there is no current
/// attempt. An event without usage costs one search for a few words.
///
/// # Examples
///
/// ```
/// use resile_llm::{Failure, Phase};
///
/// /// Handles the data of one event.
/// fn on_event(data: &str) -> Result<(), Failure> {
///     resile_llm::record_usage(data.as_bytes());
///     match Failure::find_in_event(data, Phase::Content) {
///         Some(failure) => Err(failure),
///         None => Ok(()),
///     }
/// }
/// # on_event("{\"choices\":[]}").unwrap_or_default();
/// ```
pub fn record_usage(body: &[u8]) -> bool {
    usage(body).is_some_and(quota::record)
}

/// Words of which a body with a usage has at least one.
const NAMES: [&str; 4] = ["\"usage", "eval_count\"", "invocationMetrics\"", "\"billed_units\""];

/// The number of bytes at the end of a long body to search.
const TAIL: usize = 16 * 1024;

/// Objects around a usage.
const WRAPPERS: [&str; 5] = ["message", "response", "delta", "metadata", "x_groq"];

/// The places of the numbers in an answer. A later place counts more.
const PLACES: [&str; 8] = [
    "",
    "amazon-bedrock-invocationMetrics",
    "meta.billed_units",
    "meta.tokens",
    "usage.billed_units",
    "usage.tokens",
    "usage",
    "usageMetadata",
];

/// The names of the numbers in one format. Of several names the first one present counts, but the
/// output is the sum of all its names.
struct Format {
    input: &'static str,
    output: &'static [&'static str],
    /// The cache reads and writes that the input includes.
    included_reads: &'static [&'static str],
    included_writes: &'static [&'static str],
    /// The cache reads and writes that come beside the input.
    reads: &'static [&'static str],
    writes: &'static [&'static str],
}

const PLAIN: Format = Format {
    input: "",
    output: &[],
    included_reads: &[],
    included_writes: &[],
    reads: &[],
    writes: &[],
};

/// The first format with a number counts. Some gateways send zeros of a second format beside it.
static FORMATS: [Format; 6] = [
    Format {
        input: "prompt_tokens",
        output: &["completion_tokens"],
        included_reads: &[
            "prompt_tokens_details.cached_tokens",
            "prompt_cache_hit_tokens",
            "cached_tokens",
        ],
        included_writes: &["prompt_tokens_details.cache_write_tokens"],
        ..PLAIN
    },
    // OpenAI's responses include the cached tokens, but Anthropic's messages do not.
    Format {
        input: "input_tokens",
        output: &["output_tokens"],
        included_reads: &["input_tokens_details.cached_tokens"],
        reads: &["cache_read_input_tokens"],
        writes: &["cache_creation_input_tokens"],
        ..PLAIN
    },
    Format {
        input: "promptTokenCount",
        output: &["candidatesTokenCount", "thoughtsTokenCount"],
        included_reads: &["cachedContentTokenCount"],
        ..PLAIN
    },
    Format {
        input: "inputTokens",
        output: &["outputTokens"],
        reads: &["cacheReadInputTokens", "cacheReadInputTokenCount"],
        writes: &["cacheWriteInputTokens", "cacheWriteInputTokenCount"],
        ..PLAIN
    },
    Format {
        input: "inputTokenCount",
        output: &["outputTokenCount"],
        reads: &["cacheReadInputTokenCount"],
        writes: &["cacheWriteInputTokenCount"],
        ..PLAIN
    },
    Format { input: "prompt_eval_count", output: &["eval_count"], ..PLAIN },
];

/// Reads the JSON values of a text up to the first fault.
fn usage_of_values(text: &[u8]) -> Usage {
    let text = text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(text);
    let values = Deserializer::from_slice(text).into_iter::<Value>().map_while(Result::ok);
    values.fold(Usage::new(), |usage, value| usage.merged(usage_of(&value, 0)))
}

/// Reads an answer or an array of answers.
fn usage_of(value: &Value, depth: usize) -> Usage {
    let merge = |usage: Usage, value: &Value| usage.merged(usage_of(value, depth + 1));
    match value {
        Value::Array(items) if depth == 0 => items.iter().fold(Usage::new(), merge),
        Value::Object(answer) if depth <= 2 => {
            let inner = WRAPPERS.iter().filter_map(|name| answer.get(*name));
            let inner = inner.fold(Usage::new(), merge);
            let places = PLACES.iter().filter_map(|place| object(answer, place));
            places.filter_map(counts).fold(inner, Usage::merged)
        }
        _ => Usage::new(),
    }
}

/// Reads the last usage in the end of a long answer. Quotes inside of strings are escaped, so the
/// key is no part of a string.
fn last_usage(tail: &[u8]) -> Usage {
    let keys = ["\"usage\":", "\"usageMetadata\":"];
    let after = |key: &str| {
        let place = tail.windows(key.len()).rposition(|part| part == key.as_bytes())?;
        tail.get(place + key.len()..)
    };
    let value = keys.into_iter().find_map(after).and_then(|rest| {
        Deserializer::from_slice(rest).into_iter::<Map<String, Value>>().next()?.ok()
    });
    value.as_ref().and_then(counts).unwrap_or_default()
}

/// Reads the numbers of the first format with a number.
fn counts(numbers: &Map<String, Value>) -> Option<Usage> {
    FORMATS.iter().find_map(|format| format.read(numbers))
}

impl Format {
    fn read(&self, numbers: &Map<String, Value>) -> Option<Usage> {
        let first = |names: &[&str]| names.iter().find_map(|name| number(numbers, name));
        let input = number(numbers, self.input);
        let outputs = self.output.iter().filter_map(|name| number(numbers, name));
        let output = outputs.reduce(u64::saturating_add);
        if input.is_none() && output.is_none() {
            return None;
        }
        let mut usage = Usage::new();
        if let Some(input) = input {
            let included_reads = first(self.included_reads);
            let included_writes = first(self.included_writes);
            let plain = input
                .saturating_sub(included_reads.unwrap_or(0))
                .saturating_sub(included_writes.unwrap_or(0));
            usage = usage
                .with_input(plain)
                .with_cache_reads(included_reads.or_else(|| first(self.reads)).unwrap_or(0))
                .with_cache_writes(included_writes.or_else(|| first(self.writes)).unwrap_or(0));
        }
        if let Some(output) = output {
            usage = usage.with_output(output.saturating_add(reasoning(numbers)));
        }
        Some(usage)
    }
}

/// Returns the tokens of reasoning that come beside the output. OpenAI includes them, but xAI
/// counts them apart: then only their sum with the rest is the total.
fn reasoning(numbers: &Map<String, Value>) -> u64 {
    let reasoning =
        number(numbers, "completion_tokens_details.reasoning_tokens").unwrap_or_default();
    let rest = ["prompt_tokens", "completion_tokens"];
    let rest = rest.iter().filter_map(|name| number(numbers, name));
    let sum = rest.fold(reasoning, u64::saturating_add);
    if number(numbers, "total_tokens") == Some(sum) { reasoning } else { 0 }
}

/// Returns the number at a path. Names are joined by dots.
fn number(object: &Map<String, Value>, path: &str) -> Option<u64> {
    let (outer, name) = path.rsplit_once('.').unwrap_or(("", path));
    self::object(object, outer)?.get(name)?.as_u64()
}

/// Returns the object at a path. The empty path is the object itself.
fn object<'v>(mut object: &'v Map<String, Value>, path: &str) -> Option<&'v Map<String, Value>> {
    for name in path.split('.').filter(|name| !name.is_empty()) {
        object = object.get(name)?.as_object()?;
    }
    Some(object)
}

fn contains(body: &[u8], word: &str) -> bool {
    body.windows(word.len()).any(|part| part == word.as_bytes())
}
