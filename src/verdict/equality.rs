//! The equality of verdicts, and their `Debug`.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::time::Duration;

use super::answers::Flag;
use super::verdict::NO_WAIT;
use super::{Health, Verdict};

impl Verdict {
    /// Returns the parts that count for equality.
    const fn answers(self) -> (u64, [bool; 2], [bool; 4], Health) {
        let kind = [self.answers.is(Flag::OwnWait), self.answers.is(Flag::Base)];
        let (is_again, is_own_limit) = (self.is_again(), self.is_own_limit());
        let facts = [is_again, self.is_idempotent(), self.is_not_sent(), is_own_limit];
        (self.wait, kind, facts, self.health())
    }
}

impl PartialEq for Verdict {
    fn eq(&self, other: &Self) -> bool {
        self.answers() == other.answers()
    }
}

impl Eq for Verdict {}

impl Hash for Verdict {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.answers().hash(state);
    }
}

/// Prints whether the request may be sent again and the health, and of the rest what is set.
impl fmt::Debug for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = f.debug_struct("Verdict");
        fields.field("again", &self.is_again()).field("health", &self.health());
        for (name, flag) in [
            ("idempotent", Flag::Idempotent),
            ("keyed", Flag::Keyed),
            ("not_sent", Flag::NotSent),
            ("without_effect", Flag::NoEffect),
            ("not_wanted", Flag::NotWanted),
            ("not_repeatable", Flag::NotRepeatable),
            ("not_told", Flag::NotTold),
            ("own_limit", Flag::OwnLimit),
            ("own_wait", Flag::OwnWait),
        ] {
            if self.answers.is(flag) {
                fields.field(name, &true);
            }
        }
        if self.wait != NO_WAIT {
            let name = if self.answers.is(Flag::Base) { "base" } else { "wait" };
            fields.field(name, &Duration::from_nanos(self.wait));
        }
        fields.finish()
    }
}
