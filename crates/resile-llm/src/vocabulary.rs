//! The phrases and the words of the grammar together. A message is searched only once for both.

use std::ops::Range;
use std::sync::LazyLock;

use crate::finder::{Finder, Place};
use crate::{grammar, phrases};

/// The places of all known phrases and words in a message, in the order of their starts.
pub(crate) struct Places {
    pub(crate) phrases: Vec<Place>,
    pub(crate) words: Vec<Place>,
}

static FINDER: LazyLock<Finder> =
    LazyLock::new(|| Finder::new([phrases::known(), grammar::known()].concat().as_slice()));

/// Finds the phrases and the words in a message. `lower` is the message in lower case. Phrases count
/// only outside of `quoted`, and words only outside of `unread`.
pub(crate) fn find(
    message: &str,
    lower: &str,
    quoted: &[Range<usize>],
    unread: &[Range<usize>],
) -> Places {
    // Most messages have fewer places.
    let mut places = Places { phrases: Vec::with_capacity(8), words: Vec::with_capacity(16) };
    let is_in = |ranges: &[Range<usize>], at: usize| ranges.iter().any(|range| range.contains(&at));
    let first_word = phrases::known().len();
    FINDER.find(message, lower, |place| match place.phrase.checked_sub(first_word) {
        None if !is_in(quoted, place.start) => places.phrases.push(place),
        Some(phrase) if !is_in(unread, place.start) => {
            places.words.push(Place { phrase, ..place });
        }
        _ => {}
    });
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotations_hide_phrases_and_words_apart() {
        let message = "it says 'prompt is too long'";
        let quoted = crate::text::quoted(message);
        let count = |places: Places| (places.phrases.len(), places.words.len());
        let (phrases, words) = count(find(message, message, &[], &[]));
        assert!(phrases > 0 && words > 0);
        assert_eq!(count(find(message, message, &quoted, &[])), (0, words));
        assert_eq!(count(find(message, message, &[], &quoted)), (phrases, 0));
    }

    #[test]
    fn each_place_holds_its_phrase_or_word() {
        let message = "insufficient credits: the daily limit is exceeded, prompt is too long";
        let Places { phrases: found, words } = find(message, message, &[], &[]);
        for (places, known) in [(found, phrases::known()), (words, grammar::known())] {
            assert!(places.len() > 1 && places.is_sorted_by_key(|place| place.start));
            for place in places {
                assert_eq!(&message[place.start..place.end], known[place.phrase]);
            }
        }
    }
}
