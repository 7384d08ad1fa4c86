//! Laws of the models. They hold for the scripts too, which agree with the models step by step.
//!
//! `PROPTEST_CASES=20000 cargo test -p resile-redis laws` runs more cases than the usual 256.

use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::select;

use super::model::{Account, Hold, Model, Record};
use super::{HoldRequest, LeaseReply, LeaseRequest};

const IDS: [&str; 3] = ["a", "b", "c"];
const SCALE: i64 = 3;
const TTL: i128 = 50;

fn ttl() -> Duration {
    Duration::from_micros(TTL.try_into().unwrap())
}

/// Returns a request that asks for nothing, on an account of `capacity` parts.
fn quiet(id: &str, capacity: i64, rate: i64) -> LeaseRequest<'_> {
    LeaseRequest {
        id,
        capacity,
        rate,
        scale: SCALE,
        ttl: ttl(),
        base: 0,
        spent: 0,
        least: 0,
        want: 0,
        memory: None,
        told: None,
        pause: Duration::ZERO,
        own: 0,
        calm: capacity,
        weight: 1,
        away: 0,
        floor: 0,
    }
}

/// Returns the parts of the account: its level, and all that its members hold.
fn total(account: &Account) -> i128 {
    account.level + account.held() * i128::from(SCALE)
}

prop_compose! {
    /// A request of a member that keeps no rules.
    fn request(capacity: i64, rate: i64)(
        id in select(&IDS[..]),
        leaves in prop::bool::weighted(0.1),
        base in -5_i64..10,
        spent in -5_i64..20,
        least in prop_oneof![Just(0), 0_i64..15],
        want in 0_i64..15,
        own in prop_oneof![Just(0), 0_i64..15],
    ) -> LeaseRequest<'static> {
        let ttl = if leaves { Duration::ZERO } else { ttl() };
        LeaseRequest { ttl, base, spent, least, want, own, ..quiet(id, capacity, rate) }
    }
}

/// Requests with the time since the one before, sometimes negative.
fn requests(capacity: i64, rate: i64) -> impl Strategy<Value = Vec<(i128, LeaseRequest<'static>)>> {
    let pause = prop_oneof![5 => 0_i128..20, 1 => -30_i128..0, 1 => 50_i128..200];
    prop::collection::vec((pause, request(capacity, rate)), 1..60)
}

/// Lets the members give themselves nothing.
fn without_own(requests: Vec<(i128, LeaseRequest<'static>)>) -> Vec<(i128, LeaseRequest<'static>)> {
    let requests = requests.into_iter();
    requests.map(|(pause, request)| (pause, LeaseRequest { own: 0, ..request })).collect()
}

/// Runs the requests. Calls `check` with the account before and after each one, the parts that may
/// have arrived, and the parts that the request consumed, or that members hold that are forgotten.
fn each_step(
    account: &mut Account,
    requests: Vec<(i128, LeaseRequest<'static>)>,
    mut check: impl FnMut(&Account, &Account, i128, i128),
) {
    let mut now = account.time.now - account.time.offset;
    for (pause, request) in requests {
        now += pause;
        let before = account.clone();
        let known = before.records.get(request.id).map(|record| record.spent);
        let LeaseReply { is_new, .. } = account.step(now, &request);
        let start = known.filter(|_| !is_new).unwrap_or(request.base.into());
        let has_swept = account.swept == account.time.now;
        let forgotten = |record: &&Record| has_swept && record.expiry + 30 * TTL <= account.swept;
        let lost = TTL * i128::from(request.rate) / i128::from(SCALE);
        let gone = before.records.values().filter(forgotten);
        let lost: i128 = gone.map(|record| record.held().min(lost)).sum();
        let consumed = (i128::from(request.spent) - start + lost) * i128::from(SCALE);
        check(
            &before,
            account,
            (account.time.now - before.time.now) * i128::from(request.rate),
            consumed,
        );
    }
}

proptest! {
    #[test]
    fn units_are_conserved_between_the_bounds(
        (rate, requests) in (0_i64..5).prop_flat_map(|rate| (Just(rate), requests(1 << 50, rate))),
    ) {
        let mut account = Account::default();
        let half = LeaseRequest { memory: Some((1 << 49) / SCALE), ..quiet("a", 1 << 50, rate) };
        account.step(1_000, &half);
        each_step(&mut account, requests, |before, after, arrived, consumed| {
            assert_eq!(total(after), total(before) + arrived - consumed, "{before:?} {after:?}");
        });
    }

    #[test]
    fn a_level_stays_in_its_bounds_and_units_never_appear(
        (capacity, requests) in (0_i64..100).prop_flat_map(|capacity| {
            (Just(capacity), requests(capacity, 2))
        }),
    ) {
        let mut account = Account::default();
        account.step(1_000, &quiet("a", capacity, 2));
        let capacity = i128::from(capacity);
        let requests = without_own(requests);
        each_step(&mut account, requests, |before, after, arrived, consumed| {
            assert!((-capacity..=capacity).contains(&after.level), "{after:?}");
            // The lower bound forgives a debt.
            if after.level > -capacity {
                assert!(total(after) <= total(before) + arrived - consumed, "{before:?} {after:?}");
            }
            assert!(after.records.values().all(|record| record.held() >= 0), "{after:?}");
        });
    }

    /// The members gave themselves units while the server was away. The same units as use beyond a
    /// lease would leave the same level or a lower one.
    #[test]
    fn own_units_empty_an_account_and_make_no_debt(
        requests in requests(60, 2),
        level in -20_i64..20,
        spent in 0_i64..40,
        own in 0_i64..40,
    ) {
        let mut account = Account::default();
        account.step(1_000, &LeaseRequest { memory: Some(level), ..quiet("a", 60, 2) });
        each_step(&mut account, without_own(requests), |_, _, _, _| {});
        let now = account.time.now - account.time.offset + 40 * TTL; // nobody is remembered
        let mut plain = account.clone();
        let before = account.clone().step(now, &quiet("b", 60, 2)).level;
        let level = account.step(now, &LeaseRequest { spent, own, ..quiet("c", 60, 2) }).level;
        let least = plain.step(now, &LeaseRequest { spent, ..quiet("c", 60, 2) }).level;
        prop_assert!(level >= least && level <= before);
        prop_assert!(own < spent || level >= before.min(0), "{} {}", before, level);
        prop_assert!(own < spent || level == (before - spent).max(before.min(0)));
    }

    #[test]
    fn a_repeated_exchange_changes_nothing(requests in requests(60, 2), last in request(60, 2)) {
        let mut account = Account::default();
        account.step(1_000, &quiet("a", 60, 2));
        each_step(&mut account, requests, |_, _, _, _| {});
        let last = LeaseRequest { ttl: ttl(), ..last };
        let now = account.time.now - account.time.offset + 7;
        let first = account.step(now, &last);
        let once = account.clone();
        let again = account.step(now, &last);
        let same = LeaseReply { is_new: false, stepped: Duration::ZERO, ..first };
        prop_assert_eq!(again, same);
        prop_assert_eq!(&account, &once);
        // A step of the clock changes nothing either, and is told.
        let stepped = Duration::from_micros(20);
        prop_assert_eq!(account.step(now - 20, &last), LeaseReply { stepped, ..again });
        account.time.offset -= 20;
        prop_assert_eq!(&account, &once);
    }

    #[test]
    fn units_of_an_expired_member_come_back(held in 1_i64..20, spent in 0_i64..20, late in 0_i128..9) {
        let mut account = Account::default();
        let spent = spent.min(held);
        account.step(1_000, &LeaseRequest { want: held, ..quiet("a", 60, 0) });
        account.step(1_001, &LeaseRequest { spent, want: held - spent, ..quiet("a", 60, 0) });
        let all = LeaseRequest { want: 20, ..quiet("b", 60, 0) };
        let early = account.step(1_000 + TTL, &all);
        prop_assert_eq!(early.granted, 20 - held);
        let reply = account.step(1_001 + TTL + TTL / 2 + late, &all);
        prop_assert_eq!(reply.granted, 20 - spent);
    }

    /// A member may have spent its lease since its last report. What arrives within a ttl does not come
    /// back, unless the member returns and has not spent it.
    #[test]
    fn units_that_an_expired_member_may_have_spent_stay_away(
        held in 1_i64..100,
        spent in 0_i64..100,
        rate in 1_i64..4,
    ) {
        let spent = spent.min(held);
        let capacity = 1 << 20;
        let mut account = Account::default();
        let memory = Some(100);
        account.step(1_000, &LeaseRequest { want: held, memory, ..quiet("a", capacity, rate) });
        let now = 1_000 + 2 * TTL;
        let arrived = 2 * TTL * i128::from(rate);
        let lost = i128::from(held).min(TTL * i128::from(rate) / 3);
        account.step(now, &quiet("b", capacity, rate));
        prop_assert_eq!(account.level, (100 - lost) * 3 + arrived);
        prop_assert_eq!(account.step(now, &LeaseRequest { spent, ..quiet("a", capacity, rate) }).granted, spent);
        prop_assert_eq!(account.level, i128::from(100 - spent) * 3 + arrived);
    }

    #[test]
    fn a_hold_gets_shorter_only_by_time(
        steps in prop::collection::vec(
            (-500_i128..2_000, prop_oneof![Just(0), 0_u64..3_000], 0_u64..3_000, 0_u64..3_000),
            1..60,
        ),
    ) {
        let mut hold = Hold::default();
        let (mut now, mut latest, mut end) = (1_000_000_000_i128, 0, 0);
        for (pause, remaining, elapsed, hint) in steps {
            now += pause * 1_000;
            let [remaining, elapsed, hint] = [remaining, elapsed, hint].map(Duration::from_millis);
            let request = HoldRequest { id: "a", channel: "holds", remaining, elapsed, hint };
            let before = hold.clone();
            let reply = hold.step(now, &request);
            if remaining.is_zero() {
                let mut same = before;
                same.time.offset = hold.time.offset;
                prop_assert_eq!(&hold, &same);
            } else {
                latest = hold.time.now;
            }
            let at = latest.max(now + hold.time.offset);
            let new_end = at + i128::try_from(reply.remaining.as_micros()).unwrap();
            prop_assert!(new_end >= end, "{} {}", new_end, end);
            prop_assert!(reply.remaining >= remaining);
            prop_assert!(!reply.grew || new_end > end);
            if !reply.remaining.is_zero() {
                end = new_end;
            }
        }
    }
}
