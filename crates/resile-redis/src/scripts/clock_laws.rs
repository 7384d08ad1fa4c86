//! Laws of the scripts on a clock that steps back and forward.

use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::select;

use super::model::{Account, Fleet, Hold, Model, Probe, Votes};
use super::{
    HoldRequest, LeaseRequest, MemberRequest, ProbeRequest, ProbeStep, Request, VoteRequest,
};

const START: i128 = 1_704_067_200_000_000;
const HOUR: i128 = 3_600_000_000;

/// Requests with the time since the one before. A negative time is a step back.
fn timed<R: std::fmt::Debug>(
    request: impl Strategy<Value = R>,
) -> impl Strategy<Value = Vec<(i128, R)>> {
    let pause = prop_oneof![
        6 => 0_i128..3_000_000,
        1 => -3_000_000_i128..0,
        1 => -HOUR..0,
        1 => 0..HOUR,
    ];
    prop::collection::vec((pause, request), 1..40)
}

fn id() -> impl Strategy<Value = &'static str> {
    select(&["a", "b", "c"][..])
}

/// Runs the requests on the clock, and on a clock that stands still at each step back. Calls
/// `check` with both replies.
fn both<M: Model<R>, R: Request>(
    requests: &[(i128, R)],
    mut check: impl FnMut(R::Reply, R::Reply, i128) -> Result<(), TestCaseError>,
) -> Result<(), TestCaseError> {
    let (mut model, mut steady) = (M::default(), M::default());
    let (mut clock, mut time) = (START, START);
    for (index, (pause, request)) in requests.iter().enumerate() {
        let pause = if index == 0 { 0 } else { *pause };
        clock += pause;
        time += pause.max(0);
        check(model.step(clock, request), steady.step(time, request), (-pause).max(0))?;
        // Only the distance from the clock is another one.
        let [mut stored, mut expected] = [model.stored(), steady.stored()];
        for stored in [&mut stored, &mut expected] {
            stored.remove("d");
            if let Some(text) = stored.get_mut("") {
                let mut words: Vec<_> = text.split(' ').collect();
                words.remove(4);
                *text = words.join(" ");
            }
        }
        prop_assert_eq!(stored, expected);
    }
    Ok(())
}

fn seconds(range: std::ops::Range<u64>) -> impl Strategy<Value = Duration> {
    range.prop_map(Duration::from_secs)
}

prop_compose! {
    fn lease()(
        id in id(),
        spent in 0_i64..50,
        least in 0_i64..10,
        want in 0_i64..50,
        memory in prop::option::of(0_i64..100),
        is_away in any::<bool>(),
    ) -> LeaseRequest<'static> {
        LeaseRequest {
            id,
            capacity: 100_000_000,
            rate: 10,
            scale: 1_000_000,
            ttl: Duration::from_secs(2),
            base: 0,
            spent,
            least,
            want,
            memory,
            told: None,
            pause: Duration::ZERO,
            own: if is_away { spent } else { 0 },
            calm: 100_000_000,
            weight: 1,
            away: if is_away { 3 } else { 0 },
            floor: 0,
        }
    }
}

proptest! {
    /// Levels, debts, leases and records are those of a clock without the step. Nothing refills
    /// during the step, and the refill goes on at once.
    #[test]
    fn a_step_back_of_an_account_is_a_moment(requests in timed(lease())) {
        both::<Account, _>(&requests, |reply, expected, step| {
            prop_assert_eq!(i128::try_from(reply.stepped.as_micros()).unwrap(), step);
            let stepped = expected.stepped;
            prop_assert_eq!(super::LeaseReply { stepped, ..reply }, expected);
            Ok(())
        })?;
    }

    #[test]
    fn a_step_back_keeps_all_members(
        requests in timed((id(), seconds(1..4)).prop_map(|(id, ttl)| MemberRequest { id, ttl, channel: "channel" })),
    ) {
        both::<Fleet, _>(&requests, |reply, expected, step| {
            prop_assert_eq!(i128::try_from(reply.stepped.as_micros()).unwrap(), step);
            prop_assert_eq!(reply.members, expected.members);
            Ok(())
        })?;
    }

    #[test]
    fn a_step_back_keeps_all_votes(
        requests in timed((id(), any::<bool>(), seconds(1..4)).prop_map(|(id, open, ttl)| {
            VoteRequest { id, calls: 1, failures: 0, open, ttl }
        })),
    ) {
        both::<Votes, _>(&requests, |reply, expected, _| {
            prop_assert_eq!(reply, expected);
            Ok(())
        })?;
    }

    #[test]
    fn a_step_back_of_a_hold_is_a_moment(
        requests in timed((id(), seconds(1..9), seconds(0..9)).prop_map(|(id, remaining, elapsed)| {
            HoldRequest { id, channel: "holds", remaining, elapsed, hint: remaining }
        })),
    ) {
        both::<Hold, _>(&requests, |reply, expected, _| {
            prop_assert_eq!(reply, expected);
            Ok(())
        })?;
    }

    /// A read writes no time. So after a step a hold may last as long as at its last write, and
    /// then it ends.
    #[test]
    fn a_hold_ends_in_its_time_after_any_step(
        length in 1_000_000_i128..60_000_000,
        steps in prop::collection::vec(-HOUR..0, 1..5),
    ) {
        let read = HoldRequest {
            id: "a",
            channel: "holds",
            remaining: Duration::ZERO,
            elapsed: Duration::ZERO,
            hint: Duration::ZERO,
        };
        let remaining = Duration::from_micros(length.try_into().unwrap());
        let (mut hold, mut clock) = (Hold::default(), START);
        hold.step(clock, &HoldRequest { remaining, ..read.clone() });
        for step in steps {
            clock += step;
            prop_assert_eq!(hold.step(clock, &read).remaining, remaining);
        }
        let before = hold.step(clock + length - 1, &read).remaining;
        prop_assert_eq!(before, Duration::from_micros(1));
        prop_assert_eq!(hold.step(clock + length, &read).remaining, Duration::ZERO);
    }

    #[test]
    fn a_permission_to_probe_ends_in_its_time_after_any_step(
        steps in prop::collection::vec(-HOUR..0, 1..5),
    ) {
        let ttl = Duration::from_secs(2);
        let acquire = |id| ProbeRequest { id, ttl, step: ProbeStep::Acquire };
        let (mut probe, mut clock) = (Probe::default(), START);
        prop_assert!(probe.step(clock, &acquire("a")).held);
        for step in steps {
            clock += step;
            let reply = probe.step(clock, &acquire("b"));
            prop_assert!(!reply.held && reply.remaining == ttl);
        }
        prop_assert!(!probe.step(clock + 1_999_999, &acquire("b")).held);
        prop_assert!(probe.step(clock + 2_000_000, &acquire("b")).held);
    }

    #[test]
    fn a_step_back_of_a_probe_is_a_moment(
        requests in timed((id(), seconds(1..4), 0_usize..4).prop_map(|(id, ttl, step)| {
            use ProbeStep::{Acquire, Failed, Look, Passed};
            ProbeRequest { id, ttl, step: [Acquire, Look, Failed, Passed][step] }
        })),
    ) {
        let known = ProbeRequest { id: "a", ttl: Duration::from_secs(1), step: ProbeStep::Failed };
        let requests: Vec<_> = std::iter::once((0, known)).chain(requests).collect();
        both::<Probe, _>(&requests, |reply, expected, _| {
            prop_assert_eq!(reply, expected);
            Ok(())
        })?;
    }
}
