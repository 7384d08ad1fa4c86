use std::time::Duration;

use crate::name;

/// The members that have come and gone since operators were last told the number of members. Pure: time is an
/// argument.
#[derive(Clone, Debug, Default)]
pub(super) struct Churn {
    /// The last eight that have joined, each with the time of the message.
    joined: Vec<(Duration, String)>,
    /// The names of the first eight that have said that they leave.
    left: Vec<String>,
    /// The number of those that have said so.
    count: u32,
    /// The last eight that the server counts no more because they are silent, each with the time of the
    /// message.
    silent: Vec<(Duration, String)>,
}

/// The most names in a line.
const NAMED: usize = 8;
/// The time for which one that joined or is silent is known before the other number counts: that until the
/// next renewal, and that of the doubt in it.
const KEPT: Duration = Duration::from_secs(5);

impl Churn {
    /// Notes that the member with this id has joined.
    pub(super) fn joined(&mut self, id: &str, now: Duration) {
        note(&mut self.joined, id, now);
    }

    /// Notes that the member with this id has left.
    pub(super) fn left(&mut self, id: &str) {
        self.count = self.count.saturating_add(1);
        if self.left.len() < NAMED {
            self.left.push(name::of_id(id).to_owned());
        }
    }

    /// Notes that the member with this id is silent.
    pub(super) fn fell_silent(&mut self, id: &str, now: Duration) {
        note(&mut self.silent, id, now);
    }

    /// Notes that the number of members is the one that was told: as many have joined as have left, or
    /// those that joined or are silent do not count as such yet.
    pub(super) fn settle(&mut self, now: Duration) {
        (self.left, self.count) = (Vec::new(), 0);
        self.joined.retain(|(at, _)| now < *at + KEPT);
        self.silent.retain(|(at, _)| now < *at + KEPT);
    }

    /// Words a new number of members, and forgets who has come and gone: "3 processes, 4 before: web-4 left".
    /// Those that have gone without a word have stopped reporting. `before` is 0 if it is not known.
    pub(super) fn tell(&mut self, members: u32, before: u32) -> String {
        let Self { joined, left, count, silent } = std::mem::take(self);
        let now = processes(members);
        if before == 0 {
            return now;
        }
        let new = members.saturating_add(count).saturating_sub(before);
        let missing = before.saturating_sub(members).saturating_sub(count);
        let left = (count > 0).then(|| format!("{} left", list(&left, u64::from(count))));
        let joined = last(&joined, new).map(|who| format!("{who} joined"));
        // One that was silent before may be back.
        let silent = last(&silent, missing).map(|who| format!("{who} stopped reporting"));
        let why: Vec<_> = [joined, left, silent].into_iter().flatten().collect();
        let colon = if why.is_empty() { "" } else { ": " };
        format!("{now}, {before} before{colon}{}", why.join(", "))
    }
}

/// Adds the name of a member to those of the last eight.
fn note(names: &mut Vec<(Duration, String)>, id: &str, now: Duration) {
    if names.len() >= NAMED {
        names.remove(0);
    }
    names.push((now, name::of_id(id).to_owned()));
}

/// Lists the last ones of so many members, of which some names are known: "a and 2 more", or "3" without names.
/// Returns `None` for no member.
fn last(names: &[(Duration, String)], all: u32) -> Option<String> {
    let most = usize::try_from(all).unwrap_or(usize::MAX);
    let known = &names[names.len().saturating_sub(most)..];
    let known: Vec<_> = known.iter().map(|(_, name)| name).collect();
    match &*known {
        _ if all == 0 => None,
        [] => Some(all.to_string()),
        names => Some(list(names, u64::from(all))),
    }
}

/// Names a number of members: "1 process", "3 processes".
pub(super) fn processes(members: u32) -> String {
    format!("{members} process{}", if members == 1 { "" } else { "es" })
}

/// Lists names of which the first ones are known: "a, b and 2 more".
pub(super) fn list(names: &[impl AsRef<str>], all: u64) -> String {
    let known: Vec<_> = names.iter().map(AsRef::as_ref).collect();
    let more = all.saturating_sub(u64::try_from(names.len()).unwrap_or(u64::MAX));
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", known.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_of_members_is_told_with_who_left_and_who_fell_silent() {
        let mut churn = Churn::default();
        assert_eq!(churn.tell(4, 0), "4 processes");
        assert_eq!(churn.tell(5, 4), "5 processes, 4 before: 1 joined");
        churn.left("web-4-0123456789abcdef");
        assert_eq!(churn.tell(4, 5), "4 processes, 5 before: web-4 left");
        assert_eq!(churn.tell(3, 4), "3 processes, 4 before: 1 stopped reporting");
        churn.left("web-1");
        let both = "1 process, 3 before: web-1 left, 1 stopped reporting";
        assert_eq!(churn.tell(1, 3), both);
        (0..10).for_each(|number| churn.left(&number.to_string()));
        let many = "2 processes, 12 before: 0, 1, 2, 3, 4, 5, 6, 7 and 2 more left";
        assert_eq!(churn.tell(2, 12), many);
        churn.left("web-9");
        assert_eq!(
            churn.tell(4, 3),
            "4 processes, 3 before: 2 joined, web-9 left",
            "nobody has heard of them"
        );
        let at = Duration::from_secs;
        churn.fell_silent("web-7-0123456789abcdef", at(1));
        churn.settle(at(5));
        assert_eq!(churn.tell(3, 4), "3 processes, 4 before: web-7 stopped reporting");
        churn.left("web-5");
        churn.fell_silent("web-6", at(1));
        assert_eq!(
            churn.tell(1, 4),
            "1 process, 4 before: web-5 left, web-6 and 1 more stopped reporting"
        );
        churn.fell_silent("web-8", at(1));
        churn.left("web-9");
        assert_eq!(churn.tell(3, 4), "3 processes, 4 before: web-9 left", "web-8 is back");
        (0..9).for_each(|number| churn.fell_silent(&number.to_string(), at(number)));
        churn.settle(at(8));
        assert_eq!(churn.tell(3, 5), "3 processes, 5 before: 7, 8 stopped reporting");
        churn.fell_silent("web-8", at(1));
        churn.left("web-9");
        churn.settle(at(6));
        assert_eq!(churn.tell(3, 4), "3 processes, 4 before: 1 stopped reporting");
    }

    #[test]
    fn a_number_of_members_is_told_with_who_joined() {
        let at = Duration::from_secs;
        let mut churn = Churn::default();
        churn.joined("web-1-0123456789abcdef", at(1));
        assert_eq!(churn.tell(1, 0), "1 process", "it is the first number");
        churn.joined("web-4-0123456789abcdef", at(2));
        assert_eq!(churn.tell(4, 3), "4 processes, 3 before: web-4 joined");
        assert_eq!(churn.tell(5, 4), "5 processes, 4 before: 1 joined");
        churn.joined("web-5", at(3));
        churn.joined("web-6", at(3));
        churn.left("web-1");
        assert_eq!(churn.tell(7, 6), "7 processes, 6 before: web-5, web-6 joined, web-1 left");
        churn.joined("web-7", at(4));
        assert_eq!(churn.tell(9, 7), "9 processes, 7 before: web-7 and 1 more joined");
        churn.joined("web-8", at(5));
        churn.settle(at(9));
        churn.joined("web-9", at(9));
        churn.settle(at(11));
        assert_eq!(churn.tell(11, 9), "11 processes, 9 before: web-9 and 1 more joined");
        (0..10).for_each(|number| churn.joined(&number.to_string(), at(number)));
        let many = "22 processes, 11 before: 2, 3, 4, 5, 6, 7, 8, 9 and 3 more joined";
        assert_eq!(churn.tell(22, 11), many);
    }
}
