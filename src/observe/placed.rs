use std::fmt;

use super::one_line::OneLine;

/// Prints an error in one line, after the place of its request. An error that names it is printed alone.
pub(crate) fn write_placed(
    f: &mut fmt::Formatter<'_>,
    place: Option<&str>,
    error: impl fmt::Display,
) -> fmt::Result {
    let Some(place) = place else { return write!(f, "{}", OneLine(error)) };
    let words = OneLine(error).to_string();
    if !words.contains(path(place)) {
        write!(f, "{}: ", OneLine(place))?;
    }
    f.write_str(&words)
}

/// Returns the part of a place that an error has if it names the place: the URL in its words has the path
/// of `POST /orders`, but not the method.
fn path(place: &str) -> &str {
    match place.rsplit_once(' ') {
        Some((_, path)) if path.contains('/') => path,
        _ => place,
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
            (Some("POST /orders"), "https://shop/orders: 503", "https://shop/orders: 503"),
            (
                Some("GET /items/{id}"),
                "https://shop/items/7: 5",
                "GET /items/{id}: https://shop/items/7: 5",
            ),
            (Some("GET http://shop/a"), "at http://shop/a: 503", "at http://shop/a: 503"),
            (Some("the shop"), "shop", "the shop: shop"),
            (Some("a\nb"), "c\nd", "a\\nb: c\\nd"),
        ] {
            assert_eq!(Placed(place, error).to_string(), words);
        }
    }
}
