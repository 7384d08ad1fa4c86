use ::http::HeaderMap;

/// A service limit of the fields `RateLimit` and `RateLimit-Policy`.
///
/// Source: draft-ietf-httpapi-ratelimit-headers-11. The dictionary of the drafts 06 and 07
/// (`limit=10, remaining=9, reset=60`) is a service limit without a name.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ServiceLimit<'h> {
    pub(super) name: &'h str,
    /// The unit of the quota. The default unit is requests.
    pub(super) unit: Option<&'h str>,
    pub(super) quota: Option<u64>,
    /// The length of the window in seconds.
    pub(super) window: Option<u64>,
    pub(super) remaining: Option<u64>,
    /// The time until the reset in seconds.
    pub(super) reset: Option<u64>,
}

/// The largest number of items to read of each field.
const ITEMS: usize = 16;

impl<'h> ServiceLimit<'h> {
    /// Returns the service limits of an answer. A policy and its limit have the same name.
    pub(super) fn all(headers: &'h HeaderMap) -> Vec<Self> {
        let mut all: Vec<Self> = items(headers, "ratelimit-policy").map(Self::read).collect();
        for item in items(headers, "ratelimit") {
            let read = Self::read(item);
            match all.iter_mut().find(|limit| limit.name == read.name) {
                Some(limit) => limit.add(read),
                None => all.push(read),
            }
        }
        all
    }

    /// Parses one item. Unreadable parts are absent.
    fn read(item: &'h str) -> Self {
        let mut limit = Self::default();
        for (place, part) in split(item, ';').enumerate() {
            let part = part.trim();
            match part.split_once('=') {
                Some((name, value)) => limit.set(name.trim(), unquoted(value)),
                None if place == 0 => limit.name = unquoted(part),
                None => {}
            }
        }
        limit
    }

    fn set(&mut self, name: &str, value: &'h str) {
        match name {
            "q" | "limit" => self.quota = count(value),
            "r" | "remaining" => self.remaining = count(value),
            "t" | "reset" => self.reset = count(value),
            "w" => self.window = count(value),
            "qu" => self.unit = Some(value),
            _ => {}
        }
    }

    /// Adds another item of the same name. Of two remaining numbers the smaller one counts.
    fn add(&mut self, other: Self) {
        let is_smaller = match (other.remaining, self.remaining) {
            (Some(other), Some(own)) => other < own,
            (other, own) => own.is_none() && other.is_some(),
        };
        if is_smaller {
            self.remaining = other.remaining;
            self.reset = other.reset.or(self.reset);
        }
        self.reset = self.reset.or(other.reset);
        self.quota = self.quota.or(other.quota);
    }
}

/// Returns the items of all fields with this name.
fn items<'h>(headers: &'h HeaderMap, name: &str) -> impl Iterator<Item = &'h str> {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| split(value, ',')).take(ITEMS)
}

/// Splits a text at a separator outside of quotes.
fn split(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let (mut quoted, mut escaped) = (false, false);
    text.split(move |c| {
        let is_plain = !escaped;
        escaped = quoted && is_plain && c == '\\';
        quoted ^= is_plain && c == '"';
        c == separator && !quoted
    })
}

fn unquoted(value: &str) -> &str {
    value.trim().trim_matches('"')
}

/// Parses a number of units. A fraction is cut off. Older drafts add a list of policies to the
/// number: `100, 100;w=60`. A number too large to hold is the largest one.
pub(super) fn count(text: &str) -> Option<u64> {
    let number = text.split([',', ';']).next().unwrap_or_default().trim();
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let is_number = !whole.is_empty() && are_digits(whole) && are_digits(fraction);
    is_number.then(|| whole.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(item: &str) -> (&str, Option<&str>, [Option<u64>; 4]) {
        let ServiceLimit { name, unit, quota, window, remaining, reset } = ServiceLimit::read(item);
        (name, unit, [quota, window, remaining, reset])
    }

    #[test]
    fn a_count_is_a_plain_number() {
        for (text, want) in [
            ("40", Some(40)),
            (" 59.9 ", Some(59)),
            ("100, 100;w=60", Some(100)),
            ("0", Some(0)),
            ("99999999999999999999999", Some(u64::MAX)),
            ("-1", None),
            ("+1", None),
            ("1e3", None),
            (".5", None),
            ("1.2.3", None),
            ("NaN", None),
            ("", None),
            (",1", None),
        ] {
            assert_eq!(count(text), want, "{text}");
        }
    }

    #[test]
    fn an_item_has_a_name_and_parameters() {
        assert_eq!(
            read("\"burst\"; q=100 ;w=60;qu=\"requests\";pk=:cGs=:"),
            ("burst", Some("requests"), [Some(100), Some(60), None, None])
        );
        assert_eq!(read("default;r=40;t=12"), ("default", None, [None, None, Some(40), Some(12)]));
        assert_eq!(read("x;r=-1;t=soon"), ("x", None, [None; 4]));
        for nothing in ["", ";", ";;=", "\"", "\"\\", "=;=\"", "r"] {
            assert_eq!(read(nothing).2, [None; 4], "{nothing}");
        }
    }

    #[test]
    fn separators_in_quotes_do_not_count() {
        let parts: Vec<_> = split("\"a,\\\"b\",c,\"d", ',').collect();
        assert_eq!(parts, ["\"a,\\\"b\"", "c", "\"d"]);
        assert_eq!(read("\"a;r=1\";r=2").2[2], Some(2));
    }
}
