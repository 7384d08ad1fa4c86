use super::{MOST_PARTS, ceil};

/// The record of a member on an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) granted: i128,
    pub(crate) spent: i128,
    pub(crate) expiry: i128,
    /// The units that the member wants and does not hold.
    pub(crate) lack: i128,
    /// The units of a turn, and the tag and its step of each turn.
    pub(crate) turn: i128,
    pub(crate) tag: i128,
    pub(crate) step: i128,
    /// The time up to which the member is expected to ask again.
    pub(crate) till: i128,
}

impl Record {
    pub(crate) fn held(self) -> i128 {
        self.granted - self.spent
    }

    /// Returns whether the member lacks units and is soon expected.
    pub(super) fn waits(&self, now: i128) -> bool {
        self.lack > 0 && self.till >= now
    }

    /// Returns the units that the member gets in turns before a tag.
    fn before(&self, tag: i128) -> i128 {
        let turns = ceil((tag - self.tag).max(0), self.step);
        self.lack.min(turns * self.turn)
    }
}

/// The other members that lack units and are soon expected.
pub(super) struct Rivals(pub(super) Vec<Record>);

/// The place of the member that asks.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) lack: i128,
    /// The units of its first turn, and of each later one.
    pub(super) first_turn: i128,
    pub(super) turn: i128,
    pub(super) tag: i128,
    pub(super) step: i128,
}

impl Rivals {
    /// Returns the member with the next turn.
    pub(super) fn first(&self) -> Option<&Record> {
        self.0.iter().min_by_key(|rival| (rival.tag, -rival.turn))
    }

    /// Returns the units that all get in turns before a tag.
    pub(super) fn ahead_of(&self, tag: i128) -> i128 {
        let sum: i128 = self.0.iter().map(|rival| rival.before(tag)).sum();
        sum.min(MOST_PARTS)
    }

    /// Returns the units that the member gets of a pool, on an account with so much room.
    pub(super) fn given(&self, place: Place, pool: i128, room: i128) -> i128 {
        let Place { lack, first_turn, turn, tag, step } = place;
        // A turn fits if the turns of all up to it fit.
        let after = |turns: i128| lack.min(first_turn + (turns - 1) * turn);
        let fits = |turns: i128| {
            let start = (tag + (turns - 1) * step).min(1 << 53);
            self.ahead_of(start) + after(turns) <= pool
        };
        let (mut fit, mut too_many) = (0, ceil(lack, turn) + 2);
        while too_many - fit > 1 {
            let middle = (fit + too_many) / 2;
            if fits(middle) { fit = middle } else { too_many = middle }
        }
        let in_turn = if fit > 0 { after(fit) } else { 0 };
        let spare = self.first().map_or(0, |first| pool - first.turn.max(room - room / 4));
        in_turn.max(spare.min(lack))
    }
}
