//! The laws, by their subject.

mod bucket;
mod budget;
mod draw;
mod gate;
mod rate;
mod window;
mod words;

use crate::law::Law;

/// All laws.
pub fn all() -> Vec<Law> {
    let mut all = Vec::new();
    all.extend(rate::laws());
    all.extend(bucket::laws());
    all.extend(budget::laws());
    all.extend(gate::laws());
    all.extend(window::laws());
    all.extend(words::laws());
    all.extend(draw::laws());
    all
}

/// Changes of the sources that change no behaviour that a law could see, and why.
pub const SAME: &[(&str, &str)] = &[
    ("Rate::time_of: `time > LONGEST` as `time >= LONGEST`", "the longest time is cut to itself"),
    ("Packed::new: `at > LAST_DELAY`", "the last delay is cut to itself"),
    ("Packed::new: `limit > LONGEST`", "the longest timeout is cut to itself"),
    ("Bucket::word_at: `units >= 0`", "no units are no time, on either side"),
    ("Bucket::word_at: `0` as `1`", "no units are no time, on either side"),
    ("Bucket::leased_word: `units >= 0`", "no units are no time, on either side"),
    ("Bucket::leased_word: `0` as `1`", "no units are no time, on either side"),
    ("Bucket::change: `add > 0` as `add >= 0`", "the time is 0 unless units are added"),
    ("Bucket::change: `0` as `1`", "the time is read only if units are added"),
    ("Bucket::give_back: `0` as `1`", "the time is read only if units are added"),
    ("put: `left < most`", "a full budget is written with the same number"),
    ("Budget::bring: `usable < most`", "a budget filled to its most has no room for what waits"),
    ("Slot::of: `2` as `3`", "a length of 2 is set to itself"),
    ("Slot::of: `length < 2`", "a length of 2 is set to itself"),
    ("within: `fraction <= size", "the next product is below the size, so there is no carry"),
    ("Jitter::spread: `share > 0.0`", "a share of 0 is 0"),
];
