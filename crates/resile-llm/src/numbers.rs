//! The numbers in a message: LLM tokens and limits.

use crate::tokens::Tokens;

/// A number and its place in a text.
#[derive(Clone, Copy)]
struct Number {
    value: u64,
    start: usize,
    end: usize,
}

/// Returns the numbers of `text` that stand alone. Numbers inside identifiers, versions, dates and
/// URLs do not. `1,000` is one number.
fn numbers(text: &str) -> impl Iterator<Item = Number> {
    let bytes = text.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            let start = crate::text::next_byte(bytes, at, |byte| byte.is_ascii_digit())?;
            let mut end = start;
            let mut value: Option<u64> = Some(0);
            while let Some(byte) = bytes.get(end) {
                let digit_follows = bytes.get(end + 1).is_some_and(u8::is_ascii_digit);
                match byte {
                    b'0'..=b'9' => {
                        value = value.and_then(|value| {
                            value.checked_mul(10)?.checked_add(u64::from(byte - b'0'))
                        });
                    }
                    b',' | b'_' if digit_follows && end - start <= 15 => {}
                    _ => break,
                }
                end += 1;
            }
            at = end;
            let joined = |byte: Option<&u8>| {
                byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || b"-_./:".contains(byte))
            };
            let before = joined(start.checked_sub(1).and_then(|before| bytes.get(before)));
            let word = bytes
                .get(end)
                .is_some_and(|byte| byte.is_ascii_alphanumeric() || b"-_/".contains(byte));
            // A time of day or a fraction.
            let fraction = bytes.get(end).is_some_and(|byte| b".:".contains(byte))
                && bytes.get(end + 1).is_some_and(u8::is_ascii_digit);
            if let Some(value) = value.filter(|_| !before && !word && !fraction) {
                return Some(Number { value, start, end });
            }
        }
    })
}

/// Returns whether a text has two different numbers of three digits or more.
pub(crate) fn are_two(text: &str) -> bool {
    let mut large = numbers(text).take(16).map(|number| number.value).filter(|value| *value > 99);
    large.next().is_some_and(|first| large.any(|next| next != first))
}

/// Words before a limit.
const LIMITS: [&str; 12] = [
    "maximum",
    "limit",
    "max",
    "at most",
    "up to",
    "<=",
    "exceed",
    "context size",
    "context length",
    "context window",
    "less than",
    "n_ctx",
];

/// The number of bytes before a number in which such a word counts.
const NEAR: usize = 48;

/// Returns the numbers of LLM tokens that a message about an overlong prompt names.
pub(crate) fn tokens(text: &str) -> Tokens {
    let all: Vec<_> = numbers(text).take(16).collect();
    // "N > M" and "A + B > M": the comparison leaves no doubt.
    for pair in all.windows(2) {
        if let [left, right] = pair {
            let between = text.get(left.end..right.start).unwrap_or_default();
            if between.trim_start_matches(" tokens").trim() == ">" {
                let sum = all.iter().rev().skip_while(|number| number.start >= left.start).take(1);
                let sum = sum.filter(|number| {
                    text.get(number.end..left.start).is_some_and(|between| between.trim() == "+")
                });
                let prompt = sum.map(|number| number.value).fold(left.value, u64::saturating_add);
                return Tokens { prompt: Some(prompt), limit: Some(right.value) };
            }
        }
    }
    let is_limit = |number: &&Number| {
        let from = crate::text::floor_char_boundary(text, number.start.saturating_sub(NEAR));
        let before = text.get(from..number.start).unwrap_or_default().to_ascii_lowercase();
        // Only the text after the previous number counts.
        let before = before.rsplit(|c: char| c.is_ascii_digit()).next().unwrap_or_default();
        let after = text.get(number.end..).unwrap_or_default();
        LIMITS.iter().any(|word| before.contains(word))
            || after.starts_with(" max")
            || after.starts_with(" token limit")
    };
    let plausible = |number: &&Number| number.value >= 16;
    let limit = all.iter().filter(plausible).find(is_limit).map(|number| number.value);
    let others = all.iter().filter(plausible).map(|number| number.value);
    let prompt = limit.and_then(|limit| others.filter(|value| *value > limit).max());
    Tokens { prompt, limit }
}

/// Returns N and M of a lower-case "Limit N … Requested M". This request alone needs M.
pub(crate) fn requested(lower: &str) -> Option<(u64, u64)> {
    let (mut limit, mut requested) = (None, None);
    for number in numbers(lower) {
        let before = lower.get(..number.start)?.trim_end_matches([' ', ':', '=', '~']);
        if before.ends_with("limit") {
            limit = limit.or(Some(number.value));
        } else if before.ends_with("requested") {
            requested = requested.or(Some(number.value));
        }
    }
    limit.zip(requested)
}

/// Returns whether the numbers of a lower-case "Limit N, used M" or "Limit: M / N" show a limit that is
/// used up. `None` without both numbers. A requested amount counts as used.
pub(crate) fn is_used_up(lower: &str) -> Option<bool> {
    let (mut limit, mut used, mut requested) = (None, None, 0);
    for number in numbers(lower.get(..crate::text::floor_char_boundary(lower, 256))?) {
        let before = lower.get(..number.start)?.trim_end_matches([' ', ':', '=', '~', '"']);
        let after = lower.get(number.end..)?.trim_start();
        if after.starts_with('/') {
            used = used.or(Some(number.value));
        } else if before.ends_with("limit") || before.ends_with(" of") || before.ends_with('/') {
            limit = limit.or(Some(number.value));
        } else if before.ends_with("used")
            || before.ends_with("current")
            || after.starts_with("of ")
        {
            used = used.or(Some(number.value));
        } else if before.ends_with("remaining") {
            return Some(number.value == 0);
        } else if before.ends_with("requested") {
            requested = number.value;
        }
    }
    Some(used?.saturating_add(requested) >= limit?)
}

/// Returns whether the text has "limit: 0". The plan does not include such a quota.
pub(crate) fn limit_of_zero(text: &str) -> bool {
    let after = |(at, word): (usize, &str)| text.get(at + word.len()..).unwrap_or_default();
    let ends = |rest: &str| {
        !rest.starts_with(|c: char| c.is_ascii_digit())
            && !rest
                .strip_prefix('.')
                .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    text.match_indices("limit: 0").map(after).any(ends)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_token_counts() {
        for (text, prompt, limit) in [
            ("prompt is too long: 205371 tokens > 200000 maximum", Some(205_371), Some(200_000)),
            (
                "input length and `max_tokens` exceed context limit: 190000 + 21333 > 200000, decrease",
                Some(211_333),
                Some(200_000),
            ),
            (
                "request (2009 tokens) exceeds the available context size (512 tokens), try increasing it",
                Some(2_009),
                Some(512),
            ),
            (
                "This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens.",
                Some(130_000),
                Some(128_000),
            ),
            (
                "The input token count (1,196,265) exceeds the maximum number of tokens allowed (1,048,575).",
                Some(1_196_265),
                Some(1_048_575),
            ),
            ("Your input exceeds the context window of gpt-4-32k-0613.", None, None),
            (
                "`inputs` tokens + `max_new_tokens` must be <= 4097. Given: 4000 `inputs` tokens and 512 `max_new_tokens`",
                None,
                Some(4_097),
            ),
        ] {
            assert_eq!(tokens(text), Tokens { prompt, limit }, "{text}");
        }
    }

    #[test]
    fn messages_name_the_limit_and_the_request() {
        assert_eq!(
            requested("(tpm): limit 6000, used 0, requested 8123. please"),
            Some((6_000, 8_123))
        );
        assert_eq!(requested("limit: 6,000 / min. requested: 10"), Some((6_000, 10)));
        assert_eq!(
            requested("you requested up to 65536 tokens, but can only afford 20; limit 5"),
            None
        );
        assert_eq!(requested("rate limit reached"), None);
    }

    #[test]
    fn numbers_show_whether_a_limit_is_used_up() {
        for (text, want) in [
            (": limit 200, used 200", Some(true)),
            (": limit 200, used 20, requested 1", Some(false)),
            (": limit 200, used 190, requested 20", Some(true)),
            (": 3 of 60 requests", Some(false)),
            ("limit: 2105 / 10 tokens", Some(true)),
            ("limit: 5 / 2000000 tokens", Some(false)),
            (": remaining 0", Some(true)),
            (": limit 200", None),
            ("", None),
        ] {
            assert_eq!(is_used_up(text), want, "{text}");
        }
    }
}
