use std::borrow::Cow;
use std::fmt;

use super::one_line::OneLine;

/// Knows the place that the requests of a call go to. It is asked only if a line is written, because a
/// classifier may allocate the answer.
pub(crate) trait Placed {
    fn place(&self) -> Option<Cow<'_, str>>;

    /// Returns the words for the request of an attempt that the program dropped with its call.
    fn dropped(&self) -> &'static str {
        ""
    }
}

/// Prints an error in one line, after the place of its request. An error that names the whole place is printed
/// alone.
pub(crate) fn write_placed(
    f: &mut fmt::Formatter<'_>,
    place: Option<&str>,
    error: impl fmt::Display,
) -> fmt::Result {
    let Some(place) = place else { return write!(f, "{}", OneLine(error)) };
    let words = OneLine(error).to_string();
    if !names(&words, place) {
        write!(f, "{}: ", OneLine(place))?;
    }
    f.write_str(&words)
}

/// Returns whether an error names a place. The URL in its words has the path of `POST /orders`, and often not the
/// method, which tells the read of a resource from its change.
fn names(words: &str, place: &str) -> bool {
    let is_word = |text: &str| words.split(|c: char| !c.is_alphanumeric()).any(|word| word == text);
    match place.rsplit_once(' ') {
        Some((method, path)) if path.contains('/') => words.contains(path) && is_word(method),
        _ => words.contains(place),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_printed_once() {
        struct Placed(Option<&'static str>, &'static str);
        impl fmt::Display for Placed {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write_placed(f, self.0, self.1)
            }
        }
        for (place, error, words) in [
            (None, "down", "down"),
            (Some("/shop.Shop/Stock"), "down", "/shop.Shop/Stock: down"),
            (Some("/shop.Shop/Stock"), "/shop.Shop/Stock: down", "/shop.Shop/Stock: down"),
            (
                Some("POST /orders"),
                "503 from https://shop/orders",
                "POST /orders: 503 from https://shop/orders",
            ),
            (Some("POST /orders"), "POSTS to /orders", "POST /orders: POSTS to /orders"),
            (
                Some("POST /orders"),
                "POST https://shop/orders: 503",
                "POST https://shop/orders: 503",
            ),
            (Some("POST /orders"), "503 (POST) at /orders", "503 (POST) at /orders"),
            (
                Some("GET /items/{id}"),
                "https://shop/items/7: 5",
                "GET /items/{id}: https://shop/items/7: 5",
            ),
            (Some("GET http://shop/a"), "GET http://shop/a: 503", "GET http://shop/a: 503"),
            (Some("the shop"), "shop", "the shop: shop"),
            (Some("a\nb"), "c\nd", "a\\nb: c\\nd"),
        ] {
            assert_eq!(Placed(place, error).to_string(), words);
        }
    }
}
