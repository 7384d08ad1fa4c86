use std::cmp::Reverse;
use std::fmt;

use super::one_line::OneLine;

/// The types of the errors in a surge, each with its number. Those after the first [`MOST`] types are counted
/// together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kinds {
    named: Vec<(Box<str>, u64)>,
    others: u64,
}

const MOST: usize = 4;

impl Kinds {
    pub(crate) const fn new() -> Self {
        Self { named: Vec::new(), others: 0 }
    }

    /// Counts an error of this type. Allocates for a new one.
    pub(crate) fn note(&mut self, kind: Option<&str>) {
        let known = self.named.iter().position(|(name, _)| Some(&**name) == kind);
        let count = match (known, kind) {
            (Some(at), _) => &mut self.named[at].1,
            (None, Some(kind)) if self.named.len() < MOST => {
                return self.named.push((kind.into(), 1));
            }
            (None, _) => &mut self.others,
        };
        *count = count.saturating_add(1);
    }

    pub(crate) fn clear(&mut self) {
        self.named.clear();
        self.others = 0;
    }
}

/// Prints the types and their numbers, the largest first: " (6 × 40P01, 4 × timeout)". Prints nothing if all errors
/// have one type.
impl fmt::Display for Kinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { named, others } = self;
        if named.len() + usize::from(*others > 0) < 2 {
            return Ok(());
        }
        let mut sorted: Vec<_> = named.iter().collect();
        sorted.sort_by_key(|(_, count)| Reverse(*count));
        for (at, (kind, count)) in sorted.into_iter().enumerate() {
            let before = if at == 0 { " (" } else { ", " };
            write!(f, "{before}{count} × {}", OneLine(kind))?;
        }
        if *others > 0 {
            let plural = if *others == 1 { "" } else { "s" };
            write!(f, "{}{others} other{plural}", if named.is_empty() { " (" } else { ", " })?;
        }
        f.write_str(")")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_kind_comes_first_and_the_rest_is_counted_together() {
        let words = |kinds: &str| {
            let mut counted = Kinds::new();
            kinds.split_whitespace().for_each(|kind| counted.note(Some(kind)));
            counted.to_string()
        };
        assert_eq!(words(""), "");
        assert_eq!(words("503 503 503"), "");
        assert_eq!(words("a b b a b"), " (3 × b, 2 × a)");
        assert_eq!(words("a b c d e"), " (1 × a, 1 × b, 1 × c, 1 × d, 1 other)");
        assert_eq!(words("a b c d e f e d"), " (2 × d, 1 × a, 1 × b, 1 × c, 3 others)");
        let mut kinds = Kinds::new();
        kinds.note(None);
        assert_eq!(kinds.to_string(), "");
        kinds.note(Some("a\nb"));
        assert_eq!(kinds.to_string(), " (1 × a\\nb, 1 other)");
        kinds.clear();
        assert_eq!(kinds, Kinds::new());
    }
}
