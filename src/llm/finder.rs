use std::ops::Range;

/// Finds all places of a set of phrases in a text. Places may overlap.
///
/// At every byte of the text the next bytes select a bucket of phrases. Most buckets are empty and
/// one comparison shows this. For real messages this is less work than an automaton over hundreds
/// of phrases and needs a hundredth of its memory.
pub(super) struct Finder {
    /// The phrases in the order of their buckets.
    phrases: Vec<Phrase>,
    /// The index of each bucket's first phrase. A bucket ends at the start of the next bucket.
    starts: [u16; BUCKETS + 1],
}

struct Phrase {
    number: usize,
    words: &'static str,
    /// The first eight bytes and a mask of the existing ones. Most phrases of a bucket differ here.
    head: u64,
    mask: u64,
}

/// The number of first bytes that select a bucket. No phrase is shorter.
pub(super) const FIRST: usize = 3;

const BUCKET_BITS: u32 = 11;
const BUCKETS: usize = 1 << BUCKET_BITS;

/// A place of a phrase in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) phrase: usize,
    pub(super) start: usize,
    pub(super) end: usize,
}

impl Finder {
    /// Creates a finder. Phrases shorter than [`FIRST`] bytes are never found.
    pub(super) fn new(phrases: &[&'static str]) -> Self {
        let long = |(_, words): &(usize, &str)| words.len() >= FIRST;
        let mut phrases: Vec<_> =
            phrases.iter().copied().enumerate().filter(long).map(Phrase::new).collect();
        phrases.sort_by_key(|phrase| bucket(phrase.head));
        let mut starts = [0; BUCKETS + 1];
        for (at, start) in starts.iter_mut().enumerate() {
            *start = u16::try_from(phrases.partition_point(|phrase| bucket(phrase.head) < at))
                .unwrap_or(u16::MAX);
        }
        Self { phrases, starts }
    }

    /// Returns the places in `text` in the order of their ends. `counts` must accept a place's
    /// start.
    pub(super) fn find(&self, text: &str, counts: impl Fn(usize) -> bool) -> Vec<Place> {
        let bytes = text.as_bytes();
        let mut places = Vec::new();
        let mut look = |start: usize, head: u64| {
            let bucket = bucket(head);
            let [from, to] = [self.starts[bucket], self.starts[bucket + 1]].map(usize::from);
            if from != to && counts(start) {
                self.add(from..to, bytes, start, head, &mut places);
            }
        };
        let whole = bytes.windows(8).filter_map(|window| window.first_chunk());
        whole.enumerate().for_each(|(start, window)| look(start, u64::from_le_bytes(*window)));
        for start in bytes.len().saturating_sub(7)..bytes.len() {
            look(start, bytes.get(start..).map_or(0, head));
        }
        places.sort_by_key(|place| place.end);
        places
    }

    /// Returns the places in `text` at the starts of words, in the order of their starts. `text` is
    /// in lower case. A word in another script may begin at every character. No place begins where
    /// `skips` says so.
    pub(super) fn find_words(&self, text: &str, skips: impl Fn(usize) -> bool) -> Vec<Place> {
        let bytes = text.as_bytes();
        let mut places = Vec::new();
        let mut before = b' ';
        for (start, byte) in bytes.iter().enumerate() {
            let inside = before.is_ascii_lowercase() && byte.is_ascii_lowercase();
            before = *byte;
            if inside || byte & 0xc0 == 0x80 {
                continue;
            }
            let rest = bytes.get(start..).unwrap_or_default();
            let head = rest.first_chunk().map_or_else(|| head(rest), |h| u64::from_le_bytes(*h));
            let bucket = bucket(head);
            let [from, to] = [self.starts[bucket], self.starts[bucket + 1]].map(usize::from);
            if from != to && !skips(start) {
                self.add(from..to, bytes, start, head, &mut places);
            }
        }
        places
    }

    /// Adds the places at `start` of the phrases in `range`. `head` is the head of the text at
    /// `start`.
    fn add(
        &self,
        range: Range<usize>,
        bytes: &[u8],
        start: usize,
        head: u64,
        places: &mut Vec<Place>,
    ) {
        for phrase in self.phrases.get(range).unwrap_or_default() {
            let end = start + phrase.words.len();
            // The head holds the whole of a short phrase.
            if head & phrase.mask == phrase.head
                && (phrase.words.len() <= 8
                    || bytes.get(start + 8..end) == phrase.words.as_bytes().get(8..))
            {
                places.push(Place { phrase: phrase.number, start, end });
            }
        }
    }
}

impl Phrase {
    fn new((number, words): (usize, &'static str)) -> Self {
        Self { number, words, head: head(words.as_bytes()), mask: head(&vec![0xff; words.len()]) }
    }
}

/// Returns the first eight bytes with zeros for missing bytes.
fn head(bytes: &[u8]) -> u64 {
    bytes.iter().take(8).rev().fold(0, |head, byte| head << 8 | u64::from(*byte))
}

/// Returns the bucket of a head's first bytes: the upper bits of their product with the golden
/// ratio (Knuth, The Art of Computer Programming, vol. 3, 6.4).
#[inline]
const fn bucket(head: u64) -> usize {
    let first = (head & 0xff_ffff) as u32;
    (first.wrapping_mul(0x9E37_79B1) >> (32 - BUCKET_BITS)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_finder_finds_what_a_plain_search_finds(text in "[abé ]{0,40}") {
            let phrases = ["aba", "ab a", "bab", "b b", "aaaa", "aba", "a b ab", "abab bab", "ab ab ab a", "bé", "aéa éb"];
            let mut plain: Vec<_> = phrases
                .iter()
                .enumerate()
                .flat_map(|(phrase, words)| {
                    let starts = text.char_indices().map(|(at, _)| at).filter(|at| text[*at..].starts_with(words));
                    let starts = starts.collect::<Vec<_>>();
                    starts.into_iter().map(move |start| Place { phrase, start, end: start + words.len() })
                })
                .collect();
            let mut found = Finder::new(&phrases).find(&text, |_| true);
            prop_assert!(found.is_sorted_by_key(|place| place.end));
            for places in [&mut plain, &mut found] {
                places.sort_by_key(|place| (place.start, place.phrase));
            }
            prop_assert_eq!(found, plain);
        }
    }
}
