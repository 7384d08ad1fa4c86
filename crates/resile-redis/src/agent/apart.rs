/// The lesson of a process on a limit that it does not share: it has not joined yet, or the store is away or has
/// just come back. Pure.
///
/// Such a process uses a part of the limit, and the other processes may be unknown to it. Then all of them
/// together use more than the limit, each sees refusals, and none of these is a sign of a lower limit. Also
/// if it knows the others, each of them learns all of the lesson. So these lessons do not add up as those of
/// members that share do.
///
/// The member keeps its lesson until it shares and knows the members. Then all of them have used
/// `members · part · share` of the limit, as far as this one can see. If that is less than the fleet uses, it
/// brings its part of the difference. So together the members bring the mean of what they have learned.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Apart {
    /// The share of the limit that the process would use without other ones.
    share: f64,
    /// The sum of all changes.
    change: f64,
    /// The largest part of the limit that the process has used: one half if it knew of two members.
    part: f64,
}

impl Apart {
    /// Begins with the share that all members use, as far as the process knows.
    pub(super) const fn new(share: f64) -> Self {
        Self { share, change: 0.0, part: 0.0 }
    }

    /// Adds a change that the calls have taught, while the process uses this part of the limit.
    pub(super) fn learn(&mut self, change: f64, part: f64) {
        self.change += change;
        self.part = self.part.max(part);
    }

    /// Returns the share of the limit that the process has found so far.
    pub(super) fn found(&self) -> f64 {
        (self.share + self.change).max(0.0)
    }

    /// Returns the change for a fleet of so many members that uses `used` of the limit.
    pub(super) fn lesson(&self, used: f64, members: f64) -> f64 {
        let members = members.max(1.0);
        if self.change >= 0.0 {
            return self.change / members;
        }
        let found = self.found() * (members * self.part).max(1.0);
        (found - used).min(0.0) / members
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn apart(share: f64, change: f64, part: f64) -> Apart {
        let mut apart = Apart::new(share);
        apart.learn(change, part);
        apart
    }

    #[test]
    fn lessons_of_processes_that_did_not_know_each_other_are_none() {
        // Three processes that used the whole limit had at least a third of it each.
        for change in [-0.2, -0.5, -0.66] {
            assert!(apart(1.0, change, 1.0).lesson(1.0, 3.0).abs() < 1e-9, "{change}");
        }
        let found = 1.0 + 3.0 * apart(1.0, -0.8, 1.0).lesson(1.0, 3.0);
        assert!((found - 0.6).abs() < 1e-9, "three times a fifth: {found}");
    }

    #[test]
    fn lessons_of_members_that_knew_each_other_count_once() {
        let found = 1.0 + 4.0 * apart(1.0, -0.5, 0.25).lesson(1.0, 4.0);
        assert!((found - 0.5).abs() < 1e-9, "{found}");
        let grown = 0.5 + 4.0 * apart(0.5, 0.1, 0.25).lesson(0.5, 4.0);
        assert!((grown - 0.6).abs() < 1e-9, "{grown}");
        assert_eq!(apart(1.0, -0.5, 1.0).lesson(1.0, 1.0).to_bits(), (-0.5_f64).to_bits());
    }

    proptest! {
        /// Whatever each has learned, all together use no less than the mean of it, and no more than before.
        #[test]
        fn lessons_never_multiply(
            used in 0.01_f64..=1.0,
            part in prop_oneof![Just(1.0), Just(0.0), 0.05_f64..1.0],
            changes in prop::collection::vec(-2.0_f64..0.0, 1..12),
        ) {
            let members = f64::from(u32::try_from(changes.len()).unwrap());
            let found = |change: &f64| (1.0 + change).max(0.0).min(used);
            let mean = changes.iter().map(found).sum::<f64>() / members;
            let lesson = |change: &f64| apart(1.0, *change, part).lesson(used, members);
            let after = used + changes.iter().map(lesson).sum::<f64>();
            prop_assert!(after >= mean - 1e-9 && after <= used, "{after} of {used}, {mean}");
        }
    }
}
