/// Finds the places of a set of phrases at the starts of words. Places may overlap.
///
/// At every start of a word the next bytes select a bucket of phrases. Most buckets are empty and
/// one comparison shows this. For real messages this is less work than an automaton over hundreds
/// of phrases and needs a hundredth of its memory.
pub(crate) struct Finder {
    /// The phrases in the order of their buckets.
    phrases: Vec<Phrase>,
    /// The index of each bucket's first phrase. A bucket ends at the start of the next bucket.
    starts: [u16; BUCKETS + 1],
    /// The kinds of each byte. The bits above [`ABOVE`] are the kinds of the bytes after which no phrase
    /// begins with it.
    marks: [u8; 256],
}

/// The kind of a small letter.
const SMALL: u8 = 1;

/// The kind of a capital letter.
const CAPITAL: u8 = 2;

/// The kind of each byte and of the start of the text.
const ANY: u8 = 4;

/// The number of bits of a mark for the byte's own kinds.
const ABOVE: u32 = 4;

struct Phrase {
    number: usize,
    words: &'static str,
    /// A word ends behind the phrase.
    is_whole: bool,
    /// The first eight bytes and a mask of the existing ones. Most phrases of a bucket differ here.
    head: u64,
    mask: u64,
}

/// The number of first bytes that select a bucket. No phrase is shorter.
pub(crate) const FIRST: usize = 3;

/// The number of bytes whose words are collected at once. Their places fit in a byte.
const CHUNK: usize = 128;

const BUCKET_BITS: u32 = 12;
const BUCKETS: usize = 1 << BUCKET_BITS;

/// A place of a phrase in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) phrase: usize,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl Finder {
    /// Creates a finder. Phrases shorter than [`FIRST`] bytes are never found. A blank at the end of a
    /// phrase stands for the end of a word, whatever follows it.
    pub(crate) fn new(phrases: &[&'static str]) -> Self {
        let long = |(_, words): &(usize, &str)| words.len() >= FIRST;
        let mut phrases: Vec<_> =
            phrases.iter().copied().enumerate().filter(long).flat_map(Phrase::all).collect();
        phrases.sort_by_key(|phrase| bucket(phrase.head));
        let mut starts = [0; BUCKETS + 1];
        for (at, start) in starts.iter_mut().enumerate() {
            *start = u16::try_from(phrases.partition_point(|phrase| bucket(phrase.head) < at))
                .unwrap_or(u16::MAX);
        }
        let begins =
            |byte| phrases.iter().any(|phrase| phrase.words.as_bytes().first() == Some(&byte));
        let mut marks = [0; 256];
        for byte in 0..=u8::MAX {
            let (kind, after) = match byte {
                b'a'..=b'z' => (SMALL, SMALL | CAPITAL),
                b'A'..=b'Z' => (CAPITAL, CAPITAL),
                _ => (0, 0),
            };
            let after = if begins(byte.to_ascii_lowercase()) { after } else { ANY };
            marks[usize::from(byte)] = kind | ANY | after << ABOVE;
        }
        Self { phrases, starts, marks }
    }

    /// Calls `found` with each place in `lower` at the start of a word, in the order of their starts.
    ///
    /// `lower` is `text` in lower case. A word begins after a character that is no letter, and with
    /// a capital letter: `ConnectTimeout` has two words. A word in another script may begin at every
    /// character.
    pub(crate) fn find(&self, text: &str, lower: &str, mut found: impl FnMut(Place)) {
        let bytes = lower.as_bytes();
        let mut before = ANY;
        for (n, chunk) in text.as_bytes().chunks(CHUNK).enumerate() {
            // The starts are collected without a branch: processors mispredict a branch at each
            // word.
            let mut starts = [0; 256];
            let mut count = 0_u8;
            for (at, byte) in (0_u8..).zip(chunk) {
                let marks = self.marks[usize::from(*byte)];
                starts[usize::from(count)] = at;
                count += u8::from(before & marks >> ABOVE == 0);
                before = marks;
            }
            for start in starts.iter().take(usize::from(count)) {
                self.find_at(bytes, n * CHUNK + usize::from(*start), &mut found);
            }
        }
    }

    /// Calls `found` with each place that begins at `start`.
    #[inline]
    fn find_at(&self, bytes: &[u8], start: usize, found: &mut impl FnMut(Place)) {
        let rest = bytes.get(start..).unwrap_or_default();
        let head = rest.first_chunk().map_or_else(|| head(rest), |h| u64::from_le_bytes(*h));
        let bucket = bucket(head);
        let [from, to] = [self.starts[bucket], self.starts[bucket + 1]].map(usize::from);
        for phrase in self.phrases.get(from..to).unwrap_or_default() {
            let end = start + phrase.words.len();
            // The head holds the whole of a short phrase.
            if head & phrase.mask == phrase.head
                && (phrase.words.len() <= 8
                    || bytes.get(start + 8..end) == phrase.words.as_bytes().get(8..))
                && (!phrase.is_whole || !bytes.get(end).is_some_and(u8::is_ascii_alphanumeric))
            {
                found(Place { phrase: phrase.number, start, end });
            }
        }
    }
}

impl Phrase {
    /// Returns a phrase once for each of the heads by which it is found.
    fn all((number, words): (usize, &'static str)) -> Vec<Self> {
        let whole = words.strip_suffix(' ');
        let words = whole.unwrap_or(words);
        let phrase = |first: &[u8]| Self {
            number,
            words,
            is_whole: whole.is_some(),
            head: head(first),
            mask: head(&vec![0xff; first.len()]),
        };
        if words.len() >= FIRST {
            return vec![phrase(words.as_bytes())];
        }
        // Behind a word of two letters, each byte that ends it selects another bucket. A zero is the
        // end of the text.
        let ends = (0..=u8::MAX).filter(|byte| !byte.is_ascii_alphanumeric());
        ends.map(|end| phrase(&[words.as_bytes(), &[end]].concat())).collect()
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
        fn the_finder_finds_what_a_plain_search_finds(text in "[abABé1 .]{0,400}") {
            let phrases = ["aba", "ab a", "bab", "b b", "aaaa", "aba", "a b ab", "abab bab", "ab ab ab a", "bé", "aéa éb", "1ab", " ab", "ab ", "abab bab "];
            let is_start = |at: &usize| {
                let [before, first] = [text[..*at].chars().next_back(), text[*at..].chars().next()];
                let is = |c: Option<char>, of: fn(&char) -> bool| c.is_some_and(|c| of(&c));
                let is_inside = is(before, char::is_ascii_alphabetic)
                    && is(first, char::is_ascii_alphabetic);
                let is_hump = is(before, char::is_ascii_lowercase)
                    && is(first, char::is_ascii_uppercase);
                is_hump || !is_inside
            };
            let lower = text.to_ascii_lowercase();
            let mut plain = Vec::new();
            for start in text.char_indices().map(|(at, _)| at).filter(is_start) {
                for (phrase, words) in phrases.iter().enumerate() {
                    let whole = words.trim_end();
                    let rest = lower[start..].strip_prefix(whole);
                    let is_end = |rest: &str| !rest.starts_with(|c: char| c.is_ascii_alphanumeric());
                    if rest.is_some_and(|rest| whole == *words || is_end(rest)) {
                        plain.push(Place { phrase, start, end: start + whole.len() });
                    }
                }
            }
            let mut found = Vec::new();
            Finder::new(&phrases).find(&text, &lower, |place| found.push(place));
            prop_assert!(found.is_sorted_by_key(|place| place.start));
            found.sort_by_key(|place| (place.start, place.phrase));
            prop_assert_eq!(found, plain);
        }
    }
}
