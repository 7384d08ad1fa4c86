//! Laws of a fleet of members that keep the rules, over a network that loses and repeats messages.

use std::time::Duration;

use proptest::prelude::*;

use super::model::{Account, Model};
use super::{LeaseReply, LeaseRequest};

const IDS: [&str; 4] = ["a", "b", "c", "d"];
const CAPACITY: i64 = 90;
const SCALE: i64 = 3;
const RATE: i64 = 1;
const TTL: i128 = 60;

/// The effect of the network on an exchange.
#[derive(Debug, Clone, Copy)]
enum Fate {
    Fine,
    RequestLost,
    ReplyLost,
    Repeated,
}

/// A member with the rules that each member must keep:
/// * It spends only until the ttl after the beginning of its last exchange with a reply.
/// * It gives up what it does not want before it asks.
/// * Its base is the lowest sum that it sent since its last reply, or that this reply answered.
/// * Its memory is the level of its last reply.
#[derive(Debug, Clone)]
struct Member {
    id: &'static str,
    granted: i64,
    spent: i64,
    base: i64,
    memory: Option<i64>,
    valid_until: i128,
}

impl Member {
    fn new(id: &'static str) -> Self {
        Self { id, granted: 0, spent: 0, base: 0, memory: None, valid_until: i128::MIN }
    }

    /// Spends up to `units`, or gives back units that turned out unused.
    fn spend(&mut self, now: i128, units: i64) {
        if units < 0 {
            self.spent = (self.spent + units).max(0);
        } else if now < self.valid_until {
            self.spent += units.min(self.granted - self.spent).max(0);
        }
    }

    fn request(&self, least: i64, want: i64) -> LeaseRequest<'static> {
        LeaseRequest {
            id: self.id,
            capacity: CAPACITY,
            rate: RATE,
            scale: SCALE,
            ttl: Duration::from_micros(TTL.try_into().unwrap()),
            base: self.base,
            spent: self.spent,
            least,
            want,
            memory: self.memory,
            told: None,
            pause: Duration::ZERO,
            own: 0,
            calm: CAPACITY,
            weight: 1,
            away: 0,
            floor: 0,
        }
    }

    fn exchange(&mut self, account: &mut Account, now: i128, least: i64, want: i64, fate: Fate) {
        self.granted = self.granted.min(self.spent + want);
        let request = self.request(least, want);
        self.base = self.base.min(self.spent);
        if matches!(fate, Fate::RequestLost) {
            return;
        }
        let LeaseReply { granted, level, .. } = account.step(now, &request);
        if matches!(fate, Fate::Repeated) {
            account.step(now + 1, &request);
        }
        if !matches!(fate, Fate::ReplyLost) {
            self.granted = granted;
            self.base = self.spent;
            self.memory = Some(level);
            self.valid_until = now + TTL;
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Step {
    pause: i128,
    member: usize,
    spend: i64,
    least: i64,
    want: i64,
    fate: Fate,
}

prop_compose! {
    fn step()(
        pause in prop_oneof![8 => 0_i128..15, 1 => 30_i128..200],
        member in 0..IDS.len(),
        spend in prop_oneof![4 => 0_i64..20, 1 => -6_i64..0],
        least in prop_oneof![2 => Just(0), 1 => 0_i64..20],
        want in 0_i64..20,
        fate in prop_oneof![
            5 => Just(Fate::Fine),
            1 => Just(Fate::RequestLost),
            1 => Just(Fate::ReplyLost),
            1 => Just(Fate::Repeated),
        ],
    ) -> Step {
        Step { pause, member, spend, least, want, fate }
    }
}

/// A fleet on one account.
struct Fleet {
    account: Account,
    members: [Member; 4],
    now: i128,
}

impl Fleet {
    fn new() -> Self {
        Self { account: Account::default(), members: IDS.map(Member::new), now: 1_000 }
    }

    fn run(&mut self, step: Step) {
        let Step { pause, member, spend, least, want, fate } = step;
        self.now += pause;
        let member = &mut self.members[member];
        member.spend(self.now, spend);
        member.exchange(&mut self.account, self.now, least, want, fate);
    }

    fn spent(&self) -> i128 {
        self.members.iter().map(|member| i128::from(member.spent)).sum()
    }

    /// A member tells a refusal, after which nothing arrives for `pause`. Its lease is spent then. Returns the
    /// parts that it has spent.
    fn refuse(&mut self, member: usize, pause: i128) -> i128 {
        let member = &mut self.members[member];
        let before = member.spent;
        member.spent = member.granted.max(before);
        let pause = Duration::from_micros(pause.try_into().unwrap());
        let request = LeaseRequest { told: Some(0), pause, ..member.request(0, 0) };
        let LeaseReply { granted, level, .. } = self.account.step(self.now, &request);
        (member.granted, member.base, member.memory) = (granted, member.spent, Some(level));
        member.valid_until = self.now + TTL;
        i128::from(member.spent - before) * i128::from(SCALE)
    }

    /// Returns the parts that all members hold.
    fn held(&self) -> i128 {
        self.account.held() * i128::from(SCALE)
    }

    /// Returns the parts of the account: its level, and all that its members hold.
    fn total(&self) -> i128 {
        self.account.level + self.held()
    }

    /// Returns the parts that the members hold above the largest debt of the account, which is its capacity. They
    /// may be some of those that arrived while the members already held the rest.
    fn above_debt(&self) -> i128 {
        (self.held() - i128::from(CAPACITY)).max(0)
    }
}

proptest! {
    /// A member may have spent its lease before it falls silent, also if its last reports were lost. No
    /// lease has more than what arrives within a ttl.
    #[test]
    fn a_fleet_spends_no_more_than_the_account_had(steps in prop::collection::vec(step(), 1..80)) {
        let mut fleet = Fleet::new();
        let start = fleet.now + steps[0].pause;
        for step in steps {
            fleet.run(step);
            let arrived = (fleet.account.time.now.max(start) - start) * i128::from(RATE);
            let had = i128::from(CAPACITY) + arrived;
            let spent = fleet.spent() * i128::from(SCALE);
            prop_assert!(spent <= had, "{} of {} at {}", spent, had, fleet.now);
        }
    }

    /// The provider counts nothing during a hold that could be used after it. So after a refusal all members
    /// together have what arrives from the end of the hold on, whatever the account and the others had, and what
    /// they hold above its largest debt. A further report of the same refusals takes nothing more. No lease ends
    /// meanwhile.
    #[test]
    fn after_a_refusal_a_fleet_has_the_refill_from_the_end_of_the_hold_on(
        before in prop::collection::vec(step(), 1..8),
        first in 0..IDS.len(),
        pause in 1_i128..40,
        after in prop::collection::vec((step(), any::<bool>()), 1..8),
    ) {
        let mut fleet = Fleet::new();
        let soon = |step: Step| Step { pause: step.pause % 4, fate: Fate::Fine, ..step };
        for step in before {
            fleet.run(soon(step));
        }
        fleet.refuse(first, pause);
        let resumes = fleet.now + pause;
        let above = fleet.above_debt();
        prop_assert!(fleet.total() <= above, "{} at once, {}", fleet.total(), above);
        for (step, is_refused) in after {
            let step = soon(step);
            let had = fleet.total();
            if is_refused && fleet.now < resumes {
                let spent = fleet.refuse(step.member, resumes - fleet.now);
                prop_assert_eq!(fleet.total(), had - spent, "the second report takes nothing more");
                continue;
            }
            fleet.run(Step { spend: step.spend.max(0), ..step });
            let most = (fleet.now - resumes).max(0) * i128::from(RATE) + above;
            prop_assert!(fleet.total() <= most, "{} of {}", fleet.total(), most);
        }
    }

    /// The members return in any order and take units at once. Members that only know an old level
    /// may come first.
    #[test]
    fn a_lost_account_never_comes_back_larger(
        steps in prop::collection::vec(step(), 20..80),
        returns in Just([0, 1, 2, 3]).prop_shuffle(),
        returning in prop::collection::vec(step(), 4),
    ) {
        let mut fleet = Fleet::new();
        for step in steps {
            // A message that arrives without a reply leaves no memory.
            let fate = if matches!(step.fate, Fate::RequestLost) { step.fate } else { Fate::Fine };
            fleet.run(Step { fate, ..step });
        }
        let (had, lost) = (fleet.total(), fleet.now);
        fleet.account = Account::default();
        for (member, step) in returns.into_iter().zip(returning) {
            let pause = step.pause % 15;
            fleet.run(Step { member, pause, spend: 0, fate: Fate::Fine, ..step });
        }
        if fleet.members.iter().any(|member| member.memory.is_some())
            && fleet.account.level > -i128::from(CAPACITY)
        {
            let most = had + (fleet.now - lost) * i128::from(RATE);
            prop_assert!(fleet.total() <= most, "{} of {}", fleet.total(), most);
        }
    }
}

/// The account has 30 units. Nothing refills it while the time stands still.
#[test]
fn use_that_only_a_later_member_knows_is_subtracted_once() {
    let mut fleet = Fleet::new();
    let step =
        |member, spend, want| Step { pause: 0, member, spend, least: 0, want, fate: Fate::Fine };
    fleet.run(step(0, 0, 0)); // knows 30
    fleet.run(step(1, 0, 20));
    fleet.run(step(1, 20, 0)); // knows 10
    fleet.account = Account::default();
    fleet.run(step(0, 0, 20));
    assert_eq!((fleet.account.level, fleet.total()), (30, 90), "20 of 30 units are held");
    fleet.run(step(1, 0, 5));
    assert_eq!((fleet.account.level, fleet.total()), (-30, 30), "10 units were left in truth");
    fleet.run(step(2, 0, 5));
    assert_eq!((fleet.account.level, fleet.total()), (-30, 30));
}

#[test]
fn a_claim_saves_units_for_a_large_cost() {
    let mut fleet = Fleet::new();
    let step = |pause, member, least, want| Step {
        pause,
        member,
        spend: 20,
        least,
        want,
        fate: Fate::Fine,
    };
    fleet.run(step(0, 0, 0, 20));
    fleet.run(step(0, 1, 20, 20)); // 10 of 20 units are there
    fleet.run(step(3, 2, 0, 1));
    assert_eq!(fleet.members[2].granted, 0, "a small cost takes nothing of the claim");
    fleet.run(step(27, 1, 20, 20));
    assert_eq!(fleet.members[1].granted, 20);
    fleet.run(step(3, 2, 0, 1));
    assert_eq!(fleet.members[2].granted, 1, "the claim is over");
}

/// Two members hold the whole account and one unit that has arrived since. The debt after a refusal is the account, so
/// that unit stays.
#[test]
fn what_is_held_above_the_largest_debt_stays_after_a_refusal() {
    let mut fleet = Fleet::new();
    let idle = Step { pause: 0, member: 0, spend: 0, least: 0, want: 0, fate: Fate::Fine };
    // The first member lacks a unit for a while, so the account keeps what arrives.
    for (pause, member, least, want) in
        [(0, 2, 0, 12), (0, 0, 0, 19), (0, 0, 18, 0), (2, 2, 1, 19), (1, 1, 0, 17)]
    {
        fleet.run(Step { pause, member, least, want, ..idle });
    }
    assert_eq!((fleet.held(), fleet.account.level), (93, 0));
    fleet.refuse(3, 34);
    assert_eq!((fleet.total(), fleet.above_debt()), (3, 3));
}
