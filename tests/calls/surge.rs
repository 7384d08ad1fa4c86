//! Many failures at once: a few lines at WARN, one a minute, and one at the end.

use std::borrow::Cow;
use std::future::{pending, ready};
use std::time::Duration;

use ::tracing::Level;
use futures_util::future::join_all;
use resile::classify::Cut;
use resile::fallback::Alternative;
use resile::{
    Attempt, Backoff, Breaker, Budget, Classify, FallbackPolicy, GaveUp, Health, Jitter, Never,
    RetryPolicy, Upstream, Verdict, fallback, retry,
};
use tokio::time::{Instant, sleep};

use super::script::Down;
use super::strains::SECOND;
use super::tracing::{capture, messages};

const POLICY: RetryPolicy = RetryPolicy::new()
    .with_attempts(u32::MAX)
    .with_backoff(Backoff::fixed(SECOND).with_jitter(Jitter::None));

/// Twenty tasks ask for half a minute. The upstream is down for its first `outage` and answers then.
async fn asks(feed: &Upstream, outage: Duration) {
    let start = Instant::now();
    let ask = |number: u32| async move {
        sleep(Duration::from_millis(37) * number).await;
        while start.elapsed() < outage + SECOND * 30 {
            let op = async |_| {
                sleep(SECOND / 10).await;
                if start.elapsed() < outage { Err(Down(7)) } else { Ok(()) }
            };
            retry(op, POLICY, Never).on(feed).await.unwrap();
            sleep(SECOND).await;
        }
    };
    join_all((0..20).map(ask)).await;
}

fn loud() -> Vec<String> {
    let loud = messages().into_iter().filter(|(level, _)| *level <= Level::INFO);
    loud.map(|(level, message)| format!("{level} {message}")).collect()
}

#[tokio::test(start_paused = true)]
async fn an_outage_without_parts_has_ten_lines_and_one_at_its_end() {
    capture();
    let feed = Upstream::new("feed");
    asks(&feed, SECOND * 10).await;
    let lines = loud();
    let retries = lines.iter().filter(|line| line.contains("retrying in")).count();
    assert_eq!((retries, lines.len()), (9, 11), "{lines:#?}");
    let surge = "WARN feed: surge of failures: 10 attempts announced a retry within 333.0ms, \
                 the lines of further ones are at DEBUG: down, 7";
    let over = "INFO feed: surge of failures over: 180 attempts announced a retry within 9.5s, \
                until 10.3s ago";
    assert_eq!(lines[9..], [surge, over]);

    // The next outage has lines again.
    asks(&feed, SECOND * 2).await;
    assert_eq!(loud().len(), 11);
}

#[tokio::test(start_paused = true)]
async fn a_long_outage_has_one_more_line_a_minute() {
    capture();
    let feed = Upstream::new("feed");
    asks(&feed, SECOND * 150).await;
    let lines = loud();
    assert_eq!(lines.len(), 9 + 1 + 2 + 1, "{lines:#?}");
    assert!(lines[10].starts_with("WARN feed: surge of failures goes on: "), "{lines:#?}");
    assert!(lines[10].ends_with(": down, 7"), "{lines:#?}");
}

/// Each collision is at DEBUG, so a busy row does not flood the log. Many of them have a line, and one a minute.
#[tokio::test(start_paused = true)]
async fn collisions_have_a_line_at_their_start_and_one_a_minute() {
    capture();
    let feed = Upstream::new("feed");
    let busy = POLICY
        .with_attempts(131)
        .with_classifier(|_: &Down| Verdict::transient().with_health(Health::Healthy));
    let collide = async |_| Err::<(), _>(Down(1));
    retry(collide, busy, Never).on(&feed).await.unwrap_err();
    let (surge, announced) =
        ("surge of retries on a healthy upstream", "attempts announced a retry within");
    let begins =
        format!("INFO feed: {surge}: 10 {announced} 9.0s, their lines are at DEBUG: down, 1");
    let first = [
        begins.clone(),
        format!("INFO feed: {surge} goes on: 70 {announced} 69.0s: down, 1"),
        format!("INFO feed: {surge} goes on: 130 {announced} 129.0s: down, 1"),
        "WARN feed: gave up after 131 of 131 attempts: down, 1".to_owned(),
    ];
    assert_eq!(loud(), first);

    // A failure does not belong to them, so its retry is still at WARN. It does not end them either.
    retry(async |_| Err::<(), _>(Down(2)), POLICY.with_attempts(2), Never)
        .on(&feed)
        .await
        .unwrap_err();
    assert_eq!(loud().len(), 2);
    retry(collide, busy.with_attempts(20), Never).on(&feed).await.unwrap_err();
    assert_eq!(loud().len(), 1);

    // After ten quiet seconds they are over and begin anew. Fewer have no line.
    sleep(SECOND * 10).await;
    retry(collide, busy.with_attempts(10), Never).on(&feed).await.unwrap_err();
    let over = format!("INFO feed: {surge} over: 149 {announced} 149.0s, until 11.0s ago");
    let told = loud();
    assert_eq!((&told[0], told.len()), (&over, 2));
    sleep(SECOND * 10).await;
    retry(collide, busy.with_attempts(11), Never).on(&feed).await.unwrap_err();
    assert_eq!(loud()[0], begins);
}

/// The line of the breaker tells of the outage. The failures of the attempts that were in flight then announce
/// retries that are hardly ever sent.
#[tokio::test(start_paused = true)]
async fn failures_beside_an_open_breaker_are_no_surge() {
    capture();
    let open = Backoff::fixed(SECOND).with_jitter(Jitter::None);
    let feed =
        Upstream::new("feed").with_breaker(Breaker::new().with_consecutive(5).with_open_time(open));
    let ask = || {
        let op = async |_| {
            sleep(SECOND).await;
            Err::<(), _>(Down(7))
        };
        let late = Backoff::fixed(SECOND * 2).with_jitter(Jitter::None);
        retry(op, POLICY.with_attempts(2).with_backoff(late), Never).on(&feed)
    };
    join_all((0..100).map(|_| ask())).await;
    let (announced, rest): (Vec<_>, Vec<_>) =
        messages().into_iter().partition(|(_, line)| line.contains("retrying in"));
    let beside = "feed: attempt 1 of 2 failed, retrying in 2.0s if the circuit breaker admits it: \
                  down, 7";
    let is_beside = |(level, line): &&(Level, String)| *level == Level::DEBUG && line == beside;
    let loud = announced.iter().filter(|(level, _)| *level == Level::WARN).count();
    assert_eq!((announced.len(), loud), (100, 4), "{announced:#?}");
    assert_eq!(announced.iter().filter(is_beside).count(), 96, "{announced:#?}");
    assert!(rest.iter().all(|(_, line)| !line.contains("surge")), "{rest:#?}");
    let opened = rest.iter().filter(|(level, line)| {
        *level == Level::WARN && line.starts_with("feed: breaker opened for 1.0s")
    });
    assert!(opened.count() > 0, "{rest:#?}");
}

/// In an outage the breaker refuses all calls, so no attempt fails for a while. That is not its end.
#[tokio::test(start_paused = true)]
async fn a_surge_is_not_over_before_the_breaker_is_closed() {
    capture();
    let open = Backoff::fixed(SECOND * 12).with_jitter(Jitter::None);
    let breaker = Breaker::new().with_consecutive(20).with_open_time(open);
    let feed = Upstream::new("feed").with_breaker(breaker);
    let start = Instant::now();
    let outage = SECOND * 40;
    while start.elapsed() < outage + SECOND * 20 {
        let op = async |_| if start.elapsed() < outage { Err(Down(7)) } else { Ok(()) };
        let once = POLICY.with_attempts(2).with_backoff(Backoff::none());
        let _ = retry(op, once, Never).on(&feed).await;
        sleep(SECOND / 4).await;
    }
    let is_told = |line: &String| line.contains("surge") || line.contains("breaker");
    let lines: Vec<_> = loud().into_iter().filter(is_told).collect();
    let starts = [
        "WARN feed: surge of failures: 10 attempts announced a retry within ",
        "WARN feed: breaker opened for 12.0s, all attempts are refused: too many failures in a row",
        "WARN feed: breaker opened for 12.0s, all attempts are refused: too many probes failed",
        "WARN feed: breaker opened for 12.0s, all attempts are refused: too many probes failed",
        "WARN feed: breaker opened for 12.0s, all attempts are refused: too many probes failed",
        "INFO feed: breaker closed",
        "INFO feed: surge of failures over: ",
    ];
    let is_so = |(line, start): (&String, &str)| line.starts_with(start);
    assert!(lines.len() == 7 && lines.iter().zip(starts).all(is_so), "{lines:#?}");
    assert!(lines[6].contains(" over: 13 attempts announced a retry within "), "{lines:#?}");
}

/// Without a breaker the first attempt after a pause may fail too.
#[tokio::test(start_paused = true)]
async fn a_surge_is_not_ended_by_an_attempt_that_fails() {
    capture();
    let feed = Upstream::new("feed");
    let policy = POLICY.with_attempts(11).with_backoff(Backoff::none());
    let fails = async |_| Err::<(), _>(Down(7));
    retry(fails, policy, Never).on(&feed).await.unwrap_err();
    sleep(SECOND * 11).await;
    assert!(loud().iter().any(|line| line.contains("surge of failures: 10 ")));
    retry(fails, policy.with_attempts(2), Never).on(&feed).await.unwrap_err();
    assert!(loud().iter().all(|line| !line.contains("surge")));
    sleep(SECOND * 11).await;
    retry(async |_| Ok::<_, Down>(()), policy, Never).on(&feed).await.unwrap();
    let over = "INFO feed: surge of failures over: 11 attempts announced a retry within 11.0s, \
                until 11.0s ago";
    assert_eq!(loud(), [over]);
}

/// The word of an error is its number.
#[derive(Clone, Copy)]
struct Numbered(Health);

impl Classify<Down> for Numbered {
    fn classify(&self, _: &Down) -> Option<Verdict> {
        Some(Verdict::transient().with_health(self.0))
    }
    fn classify_cut(&self, _: Cut) -> Option<Verdict> {
        Some(Verdict::transient().with_health(self.0))
    }
    fn error_type<'e>(&self, error: &'e Down) -> Option<Cow<'e, str>> {
        Some(format!("E{}", error.0).into())
    }
}

/// The last error may be a rare one. So the line has the number of each kind, in the surge and at its end.
#[tokio::test(start_paused = true)]
async fn a_surge_of_several_kinds_names_them() {
    for health in [Health::Failing, Health::Healthy] {
        capture();
        let feed = Upstream::new("feed");
        let soon = Backoff::fixed(SECOND / 10).with_jitter(Jitter::None);
        let policy = POLICY.with_backoff(soon).with_attempt_timeout(SECOND);
        let policy = policy.with_classifier(Numbered(health));
        let feed = &feed;
        let ask = async move |kinds: &[u32]| {
            let op = async |attempt: Attempt| match kinds[attempt.number() as usize - 1] {
                0 => pending().await,
                kind => Err::<(), _>(Down(kind)),
            };
            let attempts = kinds.len().try_into().unwrap();
            retry(op, policy.with_attempts(attempts), Never).on(feed).await.unwrap_err();
        };
        ask(&[1, 2, 2, 1, 0, 1, 3]).await;
        ask(&[3, 2, 4, 5, 5, 6, 5]).await;
        sleep(SECOND * 11).await;
        retry(async |_| Ok::<_, Down>(()), policy, Never).on(feed).await.unwrap();
        let lines: Vec<_> = loud().into_iter().filter(|line| line.contains("surge of")).collect();
        let [begins, over] = &lines[..] else { panic!("{lines:#?}") };
        let kinds = "(3 × E1, 3 × E2, 1 × timeout, 1 × E3, 2 others), ";
        assert!(begins.contains(kinds) && begins.ends_with(": down, 5"), "{begins}");
        let kinds = "(3 × E1, 3 × E2, 1 × timeout, 1 × E3, 4 others), until ";
        assert!(over.contains(kinds), "{over}");
    }
}

/// Asks these models in turn. Only `small` has an answer.
async fn question(models: &[Upstream]) -> Result<(), GaveUp<GaveUp<Down>>> {
    let policy = RetryPolicy::new().with_classifier(|_: &Down| Verdict::fatal());
    let one = async |it: Alternative<'_, Upstream>| {
        let model = it.value();
        let answer = if model.name() == "small" { Ok(()) } else { Err(Down(402)) };
        retry(|_| ready(answer), &policy, Never).on(model).await
    };
    let next = FallbackPolicy::new().with_classifier(|_: &GaveUp<Down>| true);
    fallback(models, one, next, Never).on("question").await
}

#[tokio::test(start_paused = true)]
async fn a_first_alternative_that_fails_for_all_calls_has_ten_lines_and_one_at_its_end() {
    capture();
    let models = [Upstream::new("large"), Upstream::new("small")];
    let ask = async |times| {
        for _ in 0..times {
            question(&models).await.unwrap();
            sleep(SECOND / 10).await;
        }
    };
    ask(30).await;
    let lines = loud();
    let failed = "WARN question: alternative 1 of 2 failed, trying the next: large: ";
    assert!(lines[..9].iter().all(|line| line.starts_with(failed)), "{lines:#?}");
    let surge = "WARN large: surge of failures in a fallback: 10 calls gave up within 900.0ms, \
                 the lines of further ones are at DEBUG: down, 402";
    assert_eq!(lines[9..], [surge]);

    ask(900).await;
    let lines = loud();
    let told = "WARN large: surge of failures in a fallback goes on: ";
    assert!(lines.len() == 1 && lines[0].starts_with(told), "{lines:#?}");

    sleep(SECOND * 11).await;
    let answered = models[0].call(ready(Ok::<_, Down>(())), |_: &Down| Verdict::fatal());
    answered.await.unwrap();
    let over = "INFO large: surge of failures in a fallback over: 930 calls gave up within 92.9s, \
                until 11.1s ago";
    assert_eq!(loud(), [over]);
}

/// Each caller has no answer, so the end of the fallback keeps its line. A refusal by a part does not count,
/// because the part has lines of its own.
#[tokio::test(start_paused = true)]
async fn a_fallback_without_an_answer_keeps_its_line_in_a_surge() {
    capture();
    let models = [Upstream::new("large")];
    for _ in 0..30 {
        question(&models).await.unwrap_err();
    }
    let lines = loud();
    let ends = lines.iter().filter(|line| line.starts_with("WARN question: gave up")).count();
    assert_eq!((ends, lines.len()), (30, 31), "{lines:#?}");

    let models = [Upstream::new("large").with_breaker(Breaker::new()), Upstream::new("small")];
    let _isolated = models[0].isolate();
    loud();
    for _ in 0..30 {
        question(&models).await.unwrap();
    }
    assert_eq!(loud(), [] as [String; 0]);
}

/// Each call ends at its first attempt, so its line is at DEBUG. An outage by a wrong password has a line nevertheless.
#[tokio::test(start_paused = true)]
async fn an_outage_by_final_errors_has_a_line_and_one_a_minute() {
    let policies = [
        (POLICY.with_attempts(4), Some(Verdict::fatal())),
        (POLICY.with_attempts(4), Some(Verdict::transient().not_again().idempotent())),
        (POLICY.with_attempts(4), None),
        (POLICY.with_attempts(1), Some(Verdict::transient())),
        (POLICY.with_attempts(1), Some(Verdict::throttled())),
    ];
    for (policy, verdict) in policies {
        capture();
        let feed = Upstream::new("feed");
        let policy = policy.with_classifier(move |_: &Down| verdict);
        let ask = async |times| {
            for _ in 0..times {
                let refuse = async |_| Err::<(), _>(Down(28));
                retry(refuse, policy, Never).on(&feed).await.unwrap_err();
                sleep(SECOND / 10).await;
            }
        };
        ask(30).await;
        let surge = "WARN feed: surge of failures without a retry: 10 calls ended at their first \
                     attempt within 900.0ms, the lines of further ones are at DEBUG: down, 28";
        assert_eq!(loud(), [surge], "{verdict:?}");
        ask(900).await;
        let lines = loud();
        let told = "WARN feed: surge of failures without a retry goes on: 610 calls ended at \
                    their first attempt within 60.9s: down, 28";
        assert_eq!(lines, [told], "{verdict:?}");

        // An attempt that fails after a pause does not end it.
        sleep(SECOND * 11).await;
        ask(1).await;
        assert_eq!(loud(), [] as [String; 0]);
        sleep(SECOND * 11).await;
        retry(async |_| Ok::<_, Down>(()), policy, Never).on(&feed).await.unwrap();
        let over = "INFO feed: surge of failures without a retry over: 931 calls ended at their \
                    first attempt within 104.0s, until 11.1s ago";
        assert_eq!(loud(), [over], "{verdict:?}");
    }
}

/// Each caller has too little time for a retry. The first nine have a line, and the surge has one.
#[tokio::test(start_paused = true)]
async fn an_outage_without_time_for_a_retry_has_ten_lines() {
    let short = |policy: RetryPolicy| policy.with_attempts(4).with_attempt_timeout(SECOND * 2);
    let hangs = async |_| pending::<Result<(), Down>>().await;
    let fails = async |_| Err::<(), _>(Down(7));
    let policies = [
        short(POLICY.shortened_to(SECOND / 10)),
        short(POLICY.with_total_timeout(SECOND / 10)),
        short(POLICY.with_total_timeout(SECOND / 10).with_hint_cap(SECOND / 20)),
    ];
    for (policy, is_cut) in policies.into_iter().flat_map(|it| [(it, true), (it, false)]) {
        capture();
        let feed = Upstream::new("feed").with_budget(Budget::new());
        for _ in 0..50 {
            let later = |_: &Down| Verdict::throttled().after(SECOND);
            let ended = if is_cut {
                retry(hangs, policy, Never).on(&feed).await
            } else {
                retry(fails, policy.with_classifier(later), Never).on(&feed).await
            };
            assert_eq!(ended.unwrap_err().attempts(), 1);
        }
        let lines = loud();
        assert_eq!(lines.len(), 10, "{lines:#?}");
        let first = "WARN feed: gave up after 1 of 4 attempts";
        assert!(lines[..9].iter().all(|line| line.starts_with(first)), "{lines:#?}");
        let surge = "WARN feed: surge of failures without a retry: 10 calls ended at their first \
                     attempt within ";
        assert!(lines[9].starts_with(surge), "{lines:#?}");
        assert!(lines[9].contains(", the lines of further ones are at DEBUG: "), "{lines:#?}");
    }
}

/// Somebody must find out the outcome of each request in doubt.
#[tokio::test(start_paused = true)]
async fn each_call_in_doubt_has_its_line_without_time_for_a_retry() {
    capture();
    let feed = Upstream::new("feed");
    let once = resile::http::Classifier::non_idempotent().over(|_, _: &Down| None);
    let policy = POLICY.with_classifier(once).with_total_timeout(SECOND / 10);
    for _ in 0..50 {
        let hangs = async |_| pending::<Result<(), Down>>().await;
        retry(hangs, policy, Never).on(&feed).await.unwrap_err();
    }
    assert_eq!(loud().len(), 50);
}

/// Errors between answers are those of single callers, and so are those of a healthy upstream.
#[tokio::test(start_paused = true)]
async fn final_errors_of_an_upstream_that_works_are_no_surge() {
    capture();
    let feed = Upstream::new("feed");
    let end = async |verdict: Option<Verdict>, times| {
        let policy = POLICY.with_attempts(4).with_classifier(move |_: &Down| verdict);
        for _ in 0..times {
            let op = async |_| if verdict.is_some() { Err(Down(7)) } else { Ok(()) };
            let _ = retry(op, policy, Never).on(&feed).await;
        }
    };
    let (unknown, healthy) = (Verdict::fatal(), Verdict::fatal().with_health(Health::Healthy));
    end(Some(healthy), 100).await;
    for _ in 0..20 {
        end(Some(unknown), 9).await;
        end(None, 1).await;
        end(Some(unknown), 9).await;
        end(Some(healthy), 1).await;
    }
    assert_eq!(loud(), [] as [String; 0]);

    // An upstream that works again ends the surge, although some of its callers have such an error.
    end(Some(unknown), 10).await;
    assert_eq!(loud().len(), 1);
    for _ in 0..12 {
        end(None, 1).await;
        end(Some(unknown), 9).await;
        sleep(SECOND).await;
    }
    let over = "INFO feed: surge of failures without a retry over: 10 calls ended at their first \
                attempt within 1.0ms, until 10.0s ago";
    assert_eq!(loud(), [over]);
}

/// Each of these ends has a line of its own.
#[tokio::test(start_paused = true)]
async fn ends_with_a_line_at_warn_are_no_surge() {
    let lost = Verdict::transient().not_again();
    for verdict in [lost, Verdict::transient().not_repeatable(), lost.idempotent().not_wanted()] {
        capture();
        let feed = Upstream::new("feed");
        for _ in 0..20 {
            let policy = POLICY.with_attempts(4).with_classifier(move |_: &Down| verdict);
            let op = async |_| Err::<(), _>(Down(7));
            retry(op, policy, Never).on(&feed).await.unwrap_err();
        }
        let lines = loud();
        assert!(lines.len() == 20 && !lines[19].contains("surge"), "{verdict:?} {lines:#?}");
    }
}
