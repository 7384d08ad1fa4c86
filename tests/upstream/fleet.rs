//! The status of an upstream that many processes share: who sees it, and in which words.

use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use resile::fleet::State;
use resile::observe::{Event, EventKind};
use resile::quota::{Dimension, Evidence, Rate};
use resile::time::ManualTimer;
use resile::upstream::Resource;
use resile::{Cooldown, Never, Quota, Upstream, Verdict};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn one_owner_at_a_time() {
    let host = Upstream::new("model").with_timer(ManualTimer::new());
    assert!(host.fleet().is_none());
    for _ in 0..3 {
        let shared = host.share().expect("nothing else shares it");
        assert!(host.share().is_none());
        assert!(host.share().is_none(), "a refusal ends nothing");
        assert!(std::ptr::eq(shared.upstream(), &raw const host));
        shared.answered();
        let status = host.fleet().unwrap();
        assert_eq!((status.state, status.members), (State::Joining, 1));
        assert_eq!(status.age, Some(Duration::ZERO));
        drop(shared);
        let status = host.fleet().unwrap();
        assert_eq!((status.state, status.members, status.age), (State::Left, 1, None));
        assert_eq!(status.to_string(), "left: the process shares nothing");
    }
    let _shared = host.share().unwrap();
    assert_eq!(host.fleet().unwrap().age, None, "an earlier answer does not count");
}

#[test]
fn the_age_is_the_time_since_the_last_answer() {
    let timer = ManualTimer::new();
    let host = Upstream::new("model").with_timer(timer.clone());
    let shared = host.share().unwrap();
    timer.advance(SECOND);
    assert_eq!(host.fleet().unwrap().age, None);
    for by in [3 * SECOND, Duration::MAX] {
        shared.answered();
        assert_eq!(host.fleet().unwrap().age, Some(Duration::ZERO));
        timer.advance(by);
        let most = Duration::from_nanos(u64::MAX).saturating_sub(4 * SECOND);
        assert_eq!(host.fleet().unwrap().age, Some(by.min(most)));
    }
    shared.answered();
    assert_eq!(host.fleet().unwrap().age.map(|age| age.as_secs()), Some(0), "the latest reading");
}

#[test]
fn each_change_of_the_state_is_one_event() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let events = Arc::clone(&seen);
    let timer = ManualTimer::new();
    let host = Upstream::new("model").with_timer(timer.clone()).with_shared_observer(
        move |event: &Event<'_>| {
            let EventKind::Fleet(status) = event.kind else { panic!("{event}") };
            assert_eq!((event.upstream, event.kind.as_str()), (Some("model"), "fleet"));
            assert!(event.call.is_none());
            let is_member = status.state != State::Left;
            assert_eq!(event.gauges.fleet, Some(status).filter(|_| is_member));
            events.lock().unwrap().push(event.to_string());
        },
    );
    let shared = host.share().unwrap();
    shared.report(State::Joining, 1);
    shared.answered();
    for (state, members) in [
        (State::Shared, 1),
        (State::Shared, 3),
        (State::Coasting, 3),
        (State::Coasting, 3),
        (State::Safe, 3),
        (State::Learning, 1),
        (State::Shared, 2),
    ] {
        timer.advance(Duration::from_millis(1_500));
        shared.report(state, members);
        let status = host.fleet().unwrap();
        assert_eq!((status.state, status.members), (state, members), "seen at once");
    }
    drop(shared);
    host.share().unwrap().report(State::Joining, 1);
    assert_eq!(
        *seen.lock().unwrap(),
        [
            "model: fleet state: shared by 1 process",
            "model: fleet state: coasting: exchanges with the store fail (4.5s since the last one that succeeded)",
            "model: fleet state: safe mode: exchanges with the store fail, 3 processes known last (7.5s since \
             the last one that succeeded)",
            "model: fleet state: learning: the store answers, 1 process known last",
            "model: fleet state: shared by 2 processes",
            "model: fleet state: left: the process shares nothing",
            "model: fleet state: left: the process shares nothing", // it was not told that it joined
        ]
    );
}

#[test]
fn a_status_is_worded() {
    let host = Upstream::new("model").with_timer(ManualTimer::new());
    let shared = host.share().unwrap();
    let worded = |state| {
        shared.report(state, 2);
        host.fleet().unwrap().to_string()
    };
    let all = [
        (State::Joining, "joining", "joining: the store has not answered yet"),
        (State::Shared, "shared", "shared by 2 processes"),
        (State::Coasting, "coasting", "coasting: exchanges with the store fail"),
        (State::Safe, "safe", "safe mode: no exchange with the store has succeeded yet"),
        (State::Learning, "learning", "learning: the store answers, 2 processes known last"),
        (State::Left, "left", "left: the process shares nothing"),
    ];
    for (state, word, text) in all {
        assert_eq!((state.as_str(), worded(state).as_str()), (word, text));
        assert_eq!(format!("{state:>9}"), format!("{word:>9}"));
    }
    assert_eq!(format!("{host:?}").matches("fleet: Some(Left)").count(), 1);
    assert!(format!("{shared:?}").contains("Left"));
}

/// The process may end afterwards, without a call whose report would tell it.
#[test]
fn a_member_that_leaves_tells_the_numbers_of_its_strains() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let events = Arc::clone(&seen);
    let timer = ManualTimer::new();
    let host = Upstream::new("model")
        .with_quota(Quota::new().with_requests(Rate::per_second(10)))
        .with_timer(timer.clone())
        .with_shared_observer(move |event: &Event<'_>| {
            if let EventKind::Limiting { .. } | EventKind::Relieved { .. } = event.kind {
                events.lock().unwrap().push(event.to_string());
            }
        });
    let told = || std::mem::take(&mut *seen.lock().unwrap());
    let requests = Resource::Quota(Dimension::Requests);
    let shared = host.share().unwrap();
    shared.end_strains();
    shared.report(State::Shared, 2);
    shared.extend(requests, 9 * SECOND);
    timer.advance(3 * SECOND);
    shared.adjust(requests, 0); // the store has no more
    host.try_admit().unwrap_err();
    timer.advance(SECOND);
    host.try_admit().unwrap_err();
    assert_eq!(told().len(), 1);
    shared.end_strains();
    assert_eq!(told(), ["model: quota was used up: 2 refused within 1.0s, and the process leaves"]);
    shared.end_strains();
    drop(shared);
    timer.advance(60 * SECOND);
    host.try_admit().unwrap().succeeded();
    assert!(told().is_empty(), "no strain is told twice");
}

/// A process whose breaker is open reports no attempt for as long as that, so the task of the store looks.
#[test]
fn the_end_of_a_strain_is_told_without_a_later_attempt() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let events = Arc::clone(&seen);
    let timer = ManualTimer::new();
    let host = Upstream::new("model")
        .with_cooldown(Cooldown::new())
        .with_timer(timer.clone())
        .with_shared_observer(move |event: &Event<'_>| {
            if let EventKind::Limiting { .. } | EventKind::Relieved { .. } = event.kind {
                events.lock().unwrap().push(event.to_string());
            }
        });
    let told = || std::mem::take(&mut *seen.lock().unwrap());
    let shared = host.share().unwrap();
    assert!(!shared.end_quiet_strains());
    host.try_admit().unwrap().settle(&Verdict::throttled().after(2 * SECOND));
    assert_eq!(told().len(), 1);
    timer.advance(Duration::from_millis(11_999));
    assert!(shared.end_quiet_strains(), "it goes on");
    assert!(told().is_empty());
    timer.advance(Duration::from_millis(1));
    assert!(!shared.end_quiet_strains());
    let over = "model: cooldown over: 0 waits within 2.0s, until 10.0s ago";
    assert_eq!(told(), [over]);
    assert!(!shared.end_quiet_strains());
    assert!(told().is_empty(), "no end is told twice");
}

/// A process alone is refused and learns a lower limit. The fleet's limit that it takes then is no news of the
/// provider, which has accepted nothing.
#[test]
fn a_limit_that_the_fleet_brings_is_not_one_that_the_provider_accepts() {
    let findings = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&findings);
    let timer = ManualTimer::new();
    let quota = Quota::new().with_requests(Rate::per_second(10).with_burst(5));
    let host = Upstream::new("model").with_quota(quota).with_cooldown(Cooldown::new());
    let host = host.with_timer(timer.clone()).with_shared_observer(move |event: &Event<'_>| {
        if let EventKind::Learned(finding) = event.kind {
            seen.lock().unwrap().push((finding.by, finding.found.count()));
        }
    });
    let (shared, requests) = (host.share().unwrap(), Resource::Quota(Dimension::Requests));
    shared.report(State::Safe, 1);
    shared.extend(requests, 60 * SECOND);
    let refused = |hold| {
        shared.adjust(requests, 1);
        host.try_admit().unwrap().settle(&Verdict::throttled().after(hold));
        timer.advance(hold + 2 * SECOND);
    };
    refused(SECOND); // that of a burst
    refused(5 * SECOND);
    assert_eq!(*findings.lock().unwrap(), [(Evidence::Refused, 5)]);
    assert!(shared.use_share(Dimension::Requests, 1.0, 1.0), "it has warned");
    assert!(!shared.use_share(Dimension::Requests, 1.0, 1.0), "once");
    assert_eq!(host.quota_rate(Dimension::Requests).unwrap().count(), 10);
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..3 {
        timer.advance(SECOND);
        let mut call = Box::pin(host.admit(Never));
        assert!(call.as_mut().poll(&mut context).is_pending());
        shared.adjust(requests, 1);
        let Poll::Ready(Ok(admission)) = call.as_mut().poll(&mut context) else { panic!() };
        admission.succeeded();
    }
    assert_eq!(*findings.lock().unwrap(), [(Evidence::Refused, 5)]);
    // It is refused again: that is news again.
    refused(5 * SECOND);
    assert_eq!(findings.lock().unwrap().len(), 2, "{findings:?}");
    assert!(shared.use_share(Dimension::Requests, 1.0, 1.0), "it has warned again");
    // While the store answers it has the line.
    shared.report(State::Shared, 1);
    refused(5 * SECOND);
    assert_eq!(findings.lock().unwrap().len(), 3, "{findings:?}");
    assert!(!shared.use_share(Dimension::Requests, 1.0, 1.0));
}

#[test]
fn a_limit_that_was_set_for_all_is_in_use_and_in_the_words_until_the_process_leaves() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&told);
    let timer = ManualTimer::new();
    let code = Rate::per_second(10).with_burst(5);
    let quota = Quota::new().with_requests(code);
    let host = Upstream::new("model").with_quota(quota).with_timer(timer.clone());
    let host = host.with_shared_observer(move |event: &Event<'_>| {
        if let EventKind::Limiting { .. } | EventKind::Learned(_) = event.kind {
            seen.lock().unwrap().push(event.to_string());
        }
    });
    let (shared, requests) = (host.share().unwrap(), Resource::Quota(Dimension::Requests));
    let set = Rate::per_second(30).with_burst(10);
    shared.use_limit(Dimension::Requests, Some(set));
    shared.use_limit(Dimension::Tokens, Some(set)); // a limit that the code does not have
    assert_eq!(host.quota_rate(Dimension::Requests), Some(set));
    assert_eq!(host.quota_rate(Dimension::Tokens), None);
    let _ = shared.use_share(Dimension::Requests, 0.5, 1.0);
    let half = Rate::per_second(15).with_burst(5);
    assert_eq!(host.quota_rate(Dimension::Requests), Some(half));
    shared.report(State::Shared, 4);
    timer.advance(3 * SECOND); // from then on the share of the process is that of a member
    shared.extend(requests, 60 * SECOND);
    shared.adjust(requests, 0);
    let mut call = Box::pin(host.admit(Never));
    assert!(call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    let words = "4 processes share the limit of requests (30 per 1s, now 15)";
    assert!(told.lock().unwrap().iter().any(|line| line.contains(words)), "{told:?}");
    drop(call);
    shared.use_limit(Dimension::Requests, None);
    let _ = shared.use_share(Dimension::Requests, 1.0, 1.0);
    assert_eq!(host.quota_rate(Dimension::Requests), Some(code));
    shared.use_limit(Dimension::Requests, Some(set));
    drop(shared);
    assert_eq!(host.quota_rate(Dimension::Requests), Some(code), "it has left");
}
