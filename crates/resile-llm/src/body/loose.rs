//! Reads objects that are almost JSON: printed by Python, JavaScript or Rust, with line breaks or
//! quotes inside strings, or without their end.

use serde_json::{Map, Value};

/// The largest number of objects and lists inside each other.
const DEEPEST: usize = 24;

/// The number of bytes of a look ahead. It is short to keep the time linear.
const LOOK: usize = 64;

/// Reads the object at the start of `text`. Returns `None` if the text has no field. The time is
/// linear in the length of the text.
pub(super) fn object(text: &str) -> Option<Map<String, Value>> {
    let start = text.strip_prefix('{')?.trim_start();
    let mut reader = Reader { text, at: 1, escaped: start.starts_with("\\\"") };
    let object = reader.object(0);
    (!object.is_empty()).then_some(object)
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
    /// The quotes have a backslash before them: this is the inside of a JSON string.
    escaped: bool,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn skip(&mut self, skipped: impl Fn(u8) -> bool) {
        while self.peek().is_some_and(&skipped) {
            self.at += 1;
        }
    }

    /// Reads the fields up to the closing brace or the end of the text.
    fn object(&mut self, depth: usize) -> Map<String, Value> {
        let mut fields = Map::new();
        loop {
            match self.peek() {
                None => return fields,
                Some(b'}' | b']' | b')') => {
                    self.at += 1;
                    return fields;
                }
                Some(_) => {}
            }
            let before = self.at;
            let name = self.name();
            self.skip(|byte| byte.is_ascii_whitespace());
            if matches!(self.peek(), Some(b':' | b'=')) {
                self.skip(|byte| matches!(byte, b':' | b'=' | b'>'));
                let value = self.value(depth + 1);
                fields.entry(name).or_insert(value);
            } else if self.at == before {
                // This is a comma, or a character that begins no name.
                self.step();
            }
        }
    }

    /// Passes one character.
    fn step(&mut self) {
        self.at += self.rest().chars().next().map_or(1, char::len_utf8);
    }

    fn name(&mut self) -> String {
        if let Some(quote) = self.quote() {
            return self.string(quote, |after| matches!(after, b':' | b'='));
        }
        let word = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.$@".contains(&byte);
        let start = self.at;
        self.skip(word);
        self.text.get(start..self.at).unwrap_or_default().to_owned()
    }

    fn value(&mut self, depth: usize) -> Value {
        self.skip(|byte| byte.is_ascii_whitespace());
        if let Some(quote) = self.quote() {
            if !self.escaped && is_object(self.rest()) && depth < DEEPEST {
                // JSON inside JSON, and its quotes are not escaped.
                self.at += 1;
                let inner = self.object(depth);
                self.skip(|byte| byte == b'"');
                return Value::Object(inner);
            }
            return Value::String(
                self.string(quote, |after| matches!(after, b',' | b';' | b'}' | b']' | b')')),
            );
        }
        match self.peek() {
            Some(b'[' | b'(') if depth < DEEPEST => {
                self.at += 1;
                self.list(depth)
            }
            Some(_) => self.word(depth),
            None => Value::Null,
        }
    }

    fn list(&mut self, depth: usize) -> Value {
        let mut items = Vec::new();
        loop {
            self.skip(|byte| byte.is_ascii_whitespace() || byte == b',');
            match self.peek() {
                None => return Value::Array(items),
                Some(b']' | b')' | b'}') => {
                    self.at += 1;
                    return Value::Array(items);
                }
                Some(_) => {}
            }
            let before = self.at;
            let item = self.value(depth + 1);
            items.push(item);
            if self.at == before {
                self.step();
            }
        }
    }

    /// Reads a value without quotes: a number, `None`, `True`, `Some(…)`, `S {…}`, `{…}`,
    /// `<Reason.A: 'A'>`.
    fn word(&mut self, depth: usize) -> Value {
        let start = self.at;
        if self.peek() == Some(b'<') {
            self.skip(|byte| byte != b'>' && byte != b'\n');
        }
        self.skip_words();
        let word = self.text.get(start..self.at).unwrap_or_default().trim();
        let is_bracket = matches!(self.peek(), Some(b'(' | b'{'));
        if is_bracket && !word.contains(' ') && depth < DEEPEST {
            let is_list = self.peek() == Some(b'(');
            self.at += 1;
            if !is_list {
                return Value::Object(self.object(depth));
            }
            return match self.list(depth) {
                Value::Array(mut items) if items.len() == 1 => items.remove(0),
                items => items,
            };
        }
        while matches!(self.peek(), Some(b'(' | b'{')) {
            self.at += self.bracketed();
            self.skip_words();
        }
        match self.text.get(start..self.at).unwrap_or_default().trim() {
            "" | "None" | "null" | "undefined" | "nil" | "NULL" => Value::Null,
            "True" | "true" => Value::Bool(true),
            "False" | "false" => Value::Bool(false),
            word => word
                .parse::<serde_json::Number>()
                .map_or_else(|_| Value::String(word.to_owned()), Value::Number),
        }
    }

    /// Passes a part of a text without quotes, up to a bracket, a comma or a line break.
    fn skip_words(&mut self) {
        self.skip(|byte| !matches!(byte, b',' | b'}' | b']' | b')' | b'(' | b'{' | b'\n'));
    }

    /// Returns the length of a bracket inside a text: of `(yet)` in `not known (yet)`. A bracket
    /// that nothing closes is one character.
    fn bracketed(&self) -> usize {
        let rest = self.rest().as_bytes();
        let (open, close) = if rest.first() == Some(&b'(') { (b'(', b')') } else { (b'{', b'}') };
        let mut depth = 0_usize;
        for (at, byte) in rest.iter().take(LOOK).enumerate() {
            if *byte == open {
                depth += 1;
            } else if *byte == close {
                depth -= 1;
            }
            if depth == 0 {
                return at + 1;
            }
        }
        1
    }

    /// Passes what may stand before a quote. Returns the quote if one follows, and stays before it.
    fn quote(&mut self) -> Option<u8> {
        let rest = self.rest().as_bytes();
        let skipped = match rest {
            [b'\\', b'"', ..] if self.escaped => 1,
            [b'b' | b'u' | b'r', b'\'' | b'"', ..] => 1,
            _ => 0,
        };
        let quote = rest.get(skipped).copied().filter(|byte| b"\"'`".contains(byte))?;
        self.at += skipped;
        Some(quote)
    }

    /// Reads a string from its opening quote on. A quote ends the string only if `ends` accepts the
    /// next byte behind it: printed strings may have bare quotes inside. A line break with its
    /// indentation becomes one blank.
    fn string(&mut self, quote: u8, ends: impl Fn(u8) -> bool) -> String {
        self.at += 1;
        let mut value = String::new();
        while let Some(c) = self.rest().chars().next() {
            self.at += c.len_utf8();
            match c {
                '\\' => {
                    let next = self.rest().chars().next();
                    if self.escaped && next.is_some_and(|next| next == char::from(quote)) {
                        continue;
                    }
                    self.at += next.map_or(0, char::len_utf8);
                    match next {
                        Some('n' | 'r' | 't') => value.push(' '),
                        Some('u') => {
                            let code = self.rest().get(..4).unwrap_or_default();
                            let code = u32::from_str_radix(code, 16).ok().and_then(char::from_u32);
                            self.at += if code.is_some() { 4 } else { 0 };
                            value.push(code.unwrap_or(' '));
                        }
                        Some(next) => value.push(next),
                        None => {}
                    }
                }
                '\n' | '\r' => {
                    self.skip(|byte| byte.is_ascii_whitespace());
                    value.truncate(value.trim_end().len());
                    value.push(' ');
                }
                _ if c == char::from(quote) && self.closes(&ends) => return value,
                _ => value.push(c),
            }
        }
        value
    }

    /// Returns whether the next byte that is no blank ends a string.
    fn closes(&self, ends: impl Fn(u8) -> bool) -> bool {
        let rest = self.rest().as_bytes();
        let next = rest.iter().take(LOOK).find(|byte| !byte.is_ascii_whitespace());
        next.is_none_or(|next| ends(*next) || *next == b'\\' && self.escaped)
    }
}

/// Returns whether `text` is a quote with an object in bare quotes behind it.
fn is_object(text: &str) -> bool {
    let Some(inner) = text.strip_prefix("\"{") else { return false };
    // A quote that ends the string has no name behind it.
    let name = inner.trim_start().strip_prefix('"').and_then(|name| name.chars().next());
    name.is_some_and(|first| first.is_alphanumeric() || first == '_')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn printed_objects_are_read() {
        for (text, want) in [
            (
                "{'error': {'message': \"It's no\", 'code': None, 'ok': True}} and more",
                json!({"error": {"message": "It's no", "code": null, "ok": true}}),
            ),
            (
                "{ type: 'requests', code: 'x_y', status: 429, param: undefined }",
                json!({"type": "requests", "code": "x_y", "status": 429, "param": null}),
            ),
            (
                "{ code: Some(\"x\"), kind: Quota, status: 400 }",
                json!({"code": "x", "kind": "Quota", "status": 400}),
            ),
            (r#"{\"error\":{\"code\":\"x\"}}"#, json!({"error": {"code": "x"}})),
            (
                r#"{"message":"{"error":{"code":"x"}}","status":502}"#,
                json!({"message": {"error": {"code": "x"}}, "status": 502}),
            ),
            (r#"{"message":"a "b" c","n":1"#, json!({"message": "a \"b\" c", "n": 1})),
            ("{\"message\":\"one\n   two\"}", json!({"message": "one two"})),
            (r#"{"error":{"message":"cut sh"#, json!({"error": {"message": "cut sh"}})),
        ] {
            assert_eq!(object(text).map(Value::Object), Some(want), "{text}");
        }
        for (text, a) in [
            ("{'a': not known (yet), 'error': 1}", json!("not known (yet)")),
            (
                "{'a': not known (yet, or {later}) at all, 'error': 1}",
                json!("not known (yet, or {later}) at all"),
            ),
            ("{'a': a face :( of words, 'error': 1}", json!("a face :( of words")),
            ("{'a': too deep ((1)), 'error': 1}", json!("too deep ((1))")),
            ("{'a': Some(not known (yet)), 'error': 1}", json!("not known (yet)")),
        ] {
            assert_eq!(
                object(text).map(Value::Object),
                Some(json!({"a": a, "error": 1})),
                "{text}"
            );
        }
        assert_eq!(object("{}"), None);
        assert_eq!(object("{no fields}"), None);
    }

    proptest! {
        #[test]
        fn json_is_read_like_json(
            fields in proptest::collection::btree_map("[a-z_]{1,9}", "[a-z .:{}=é\"'\\\\]{0,20}", 1..5)
        ) {
            // A bare quote before a comma ends a string in text that is no JSON, so none is here.
            let text = serde_json::to_string(&fields).unwrap();
            let read = object(&text).map(Value::Object);
            prop_assert_eq!(read, Some(json!(fields)));
        }

        #[test]
        fn any_text_is_read_to_its_end(text in "[{}()\\[\\]\"'`\\\\a:=,<>é \n]{0,200}") {
            let _ = object(&format!("{{{text}"));
        }
    }
}
