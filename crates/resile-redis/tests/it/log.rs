//! The lines that operators see.

use std::fmt::{Debug, Write as _};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use resile::fleet::{State, Status};
use resile::{Breaker, Budget, Cooldown, Upstream};
use resile_redis::Fleet;
use tokio::time::sleep;
use tracing::field::{Field, Visit};
use tracing::{Dispatch, Event, Level, Metadata, Subscriber, span};

use crate::crew::{Mate, all_share, limited, until};
use crate::proxy::{Proxy, Way};
use crate::scene::run;
use crate::server::Server;

/// Keeps the lines of this thread at a level and above.
#[derive(Clone)]
pub(crate) struct Lines(Arc<Mutex<Vec<String>>>, Level);

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {field}={value:?}").unwrap();
    }
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "resile" && *metadata.level() <= self.1
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(event.metadata().level().to_string());
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

impl Lines {
    pub(crate) fn with(&self, text: &str) -> Vec<String> {
        let lines = self.0.lock().unwrap();
        lines.iter().filter(|line| line.contains(text)).cloned().collect()
    }
}

fn capture() -> (Lines, tracing::subscriber::DefaultGuard) {
    capture_at(Level::INFO)
}

/// Each line is of the thread of its test.
pub(crate) fn capture_at(level: Level) -> (Lines, tracing::subscriber::DefaultGuard) {
    // With one subscriber only, `tracing` asks the thread that reaches a call site first, which may be
    // that of another test.
    static SECOND: OnceLock<Dispatch> = OnceLock::new();
    SECOND.get_or_init(|| Dispatch::new(Lines(Arc::default(), level)));
    let lines = Lines(Arc::default(), level);
    let guard = tracing::subscriber::set_default(lines.clone());
    (lines, guard)
}

#[tokio::test]
async fn many_upstreams_that_join_at_once_warn_of_nothing() {
    let Some(server) = Server::start(&[]) else { return };
    let (lines, _guard) = capture();
    let fleet = Fleet::new(&server.url()).unwrap();
    let name = |number: u32| -> &'static str { format!("joins{number}").leak() };
    let join = |number| Upstream::new(name(number)).with_cooldown(Cooldown::new());
    let crew: Vec<_> = (0..200).map(|number| Mate::join(&fleet, join(number))).collect();
    for mate in &crew {
        all_share(std::slice::from_ref(mate)).await;
    }
    sleep(Duration::from_secs(1)).await;
    assert_eq!(lines.with("WARN"), [""; 0]);
}

/// Each answer of the server is lost for a moment, again and again.
#[tokio::test]
async fn a_server_at_the_edge_fills_no_log() {
    let Some(server) = Server::start(&[]) else { return };
    let (lines, _guard) = capture();
    let proxy = Proxy::start(server.port()).await;
    let mate = Mate::join(&Fleet::new(&proxy.url()).unwrap(), limited(100, 10));
    all_share(std::slice::from_ref(&mate)).await;
    let before = lines.with("fleet").len();
    for _ in 0..10 {
        proxy.set(Way::Silent);
        sleep(Duration::from_millis(120)).await;
        proxy.set(Way::Pass);
        sleep(Duration::from_millis(300)).await;
    }
    let told = lines.with("fleet").len() - before;
    assert!(told <= 2, "{:?}", lines.with("fleet"));
    // An outage is told once, with its reason, and so is its end.
    proxy.set(Way::Silent);
    mate.becomes(State::Safe).await;
    sleep(Duration::from_secs(1)).await;
    let outage = lines.with("WARN");
    assert_eq!(outage.len(), 1, "{outage:?}");
    assert!(outage[0].contains("fleet: safe mode: no answer of the store for "), "{outage:?}");
    assert!(
        outage[0].contains(
            "1 process known last, so this process uses the whole limit of 100 requests per 1s: no answer within "
        ),
        "{outage:?}"
    );
    assert!(outage[0].contains("members=1 elapsed_ms="), "{outage:?}");
    proxy.set(Way::Pass);
    let is_over = || !lines.with("without an answer").is_empty();
    until("the end", is_over, || format!("{:?}", lines.with("fleet"))).await;
    sleep(Duration::from_secs(1)).await;
    let told = lines.with("without an answer of the store");
    let is_one = told.len() == 1 && told[0].starts_with("INFO ");
    assert!(is_one && told[0].contains("fleet: shared by 1 process after "), "{told:?}");
    assert_eq!(lines.with("WARN"), outage);
}

#[tokio::test]
async fn a_start_without_a_server_tells_the_number_that_divides_the_limit() {
    let Some(mut server) = Server::start(&[]) else { return };
    server.kill();
    let (lines, _guard) = capture_at(Level::DEBUG);
    let fleet = Fleet::new(&server.url()).unwrap().with_least_members(8);
    let mate = Mate::join(&fleet, limited(100, 10));
    mate.becomes(State::Safe).await;
    let told = || !lines.with("uses 1/8 of the limit").is_empty();
    until("the warning", told, || format!("{:?}", lines.with(""))).await;
    assert!(lines.with("uses 1/8")[0].contains("members=8"), "{:?}", lines.with("uses 1/8"));
    sleep(Duration::from_secs(2)).await;
    let failed = lines.with("fleet: an exchange failed (");
    for exchange in ["requests", "members", "messages"] {
        let with = |line: &&String| line.contains(exchange) && line.contains(": no connection");
        assert_eq!(failed.iter().filter(with).count(), 1, "{exchange}: {failed:#?}");
    }
    assert!(failed.iter().all(|line| line.contains("exchange=\"")), "{failed:#?}");
}

/// The number that is known is not the one that is assumed.
#[tokio::test]
async fn an_outage_tells_the_members_that_are_known_and_those_that_are_assumed() {
    use resile_redis::FailMode;
    let Some(mut server) = Server::start(&[]) else { return };
    let (lines, _guard) = capture();
    let fleet = Fleet::new(&server.url()).unwrap();
    let join = |prefix: &str, fleet: &Fleet| {
        let fleet = fleet.clone().with_prefix(prefix);
        [(); 3].map(|()| Mate::join(&fleet, limited(100, 10)))
    };
    let more = join("more", &fleet.clone().with_least_members(4));
    let fewer = join("fewer", &fleet.clone().with_least_members(2));
    let open = join("open", &fleet.with_least_members(4).with_fail_mode(FailMode::Open));
    for crew in [&more, &fewer, &open] {
        all_share(crew).await;
    }
    let is_known = || {
        let crews = [&more, &fewer, &open].into_iter().flatten();
        crews.into_iter().all(|mate| mate.upstream.fleet().unwrap().members == 3)
    };
    until("the members", is_known, || format!("{:?}", lines.with("fleet"))).await;
    server.kill();
    let told = || lines.with("fleet: safe mode: no answer of the store for ");
    until("the warnings", || told().len() == 9, || format!("{:#?}", told())).await;
    assert!(told().iter().all(|line| line.contains(" members=3 ")), "{:#?}", told());
    let with = |words: &str| told().iter().filter(|line| line.contains(words)).count();
    let words = ", 3 processes known last, at least 4 assumed (`with_least_members`), so this \
                 process uses 1/4 of the limit, which is 25 of 100 requests per 1s: ";
    assert_eq!(with(words), 3, "{:#?}", told());
    let words = ", 3 processes known last, so this process uses 1/3 of the limit, which is \
                 33.3 of 100 requests per 1s: ";
    assert_eq!(with(words), 3, "{:#?}", told());
    let words = ", 3 processes known last, so this process uses the whole limit of 100 \
                 requests per 1s: ";
    assert_eq!(with(words), 3, "{:#?}", told());
}

/// Its first line says already that it shares nothing.
#[tokio::test]
async fn an_upstream_without_a_part_to_share_has_no_line_of_an_outage() {
    let (lines, _guard) = capture();
    let fleet = Fleet::new("redis://127.0.0.1:1").unwrap();
    let _bare = Mate::join(&fleet, Upstream::new("bare"));
    let _other = Mate::join(&fleet, Upstream::new("holds").with_cooldown(Cooldown::new()));
    let told = || {
        lines.with(
            "holds: fleet: no exchange with the store has succeeded yet, so nothing is shared: ",
        )
    };
    until("the line of the other", || told().len() == 1, || format!("{:?}", lines.with(""))).await;
    sleep(Duration::from_millis(500)).await;
    assert_eq!(lines.with("bare: fleet:").len(), 1, "{:?}", lines.with(""));
}

/// The task writes these lines before `join` returns.
#[tokio::test]
async fn an_upstream_without_a_part_to_share_is_told_once() {
    let fleet = Fleet::new("redis://127.0.0.1:1").unwrap();
    let warned = |fleet: &Fleet, upstream: Upstream| {
        let (lines, _guard) = capture();
        Mate::join(fleet, upstream);
        lines.with("WARN")
    };
    let voting = fleet.clone().with_votes(true);
    let breaker = || Upstream::new("votes").with_breaker(Breaker::new());
    let budget = || Upstream::new("votes").with_budget(Budget::new());
    let alone = fleet.clone().with_shared_budget(false);
    let bare = || Upstream::new("bare");
    let is_idle = |fleet: &Fleet, upstream: Upstream| {
        let told = warned(fleet, upstream);
        assert!(told.len() == 1 && told[0].contains("fleet: nothing to share: "), "{told:?}");
        told[0].contains("no breaker that votes: `with_votes(true)` shares its breaker")
    };
    assert!(!is_idle(&fleet, bare()));
    assert!(is_idle(&fleet, breaker()), "it has a breaker");
    assert!(!is_idle(&alone, budget()));
    assert!(!is_idle(&voting, bare()));
    let told = warned(&voting, budget());
    assert!(told.len() == 1 && told[0].contains("fleet: votes need a breaker, "), "{told:?}");
    let cooldown = Upstream::new("holds").with_cooldown(Cooldown::new());
    assert_eq!(warned(&voting, breaker()), [""; 0]);
    assert_eq!(warned(&fleet, budget()), [""; 0]);
    assert_eq!(warned(&fleet, cooldown), [""; 0]);
}

#[tokio::test]
async fn a_member_with_nothing_to_share_does_not_say_that_it_shares() {
    let Some(server) = Server::start(&[]) else { return };
    let (lines, _guard) = capture();
    let fleet = Fleet::new(&server.url()).unwrap();
    let bare = Mate::join(&fleet, Upstream::new("bare"));
    let _cool = Mate::join(&fleet, Upstream::new("cool").with_cooldown(Cooldown::new()));
    let shares = || !lines.with("cool: fleet: shared by 1 process").is_empty();
    until("the line of the other", shares, || format!("{:?}", lines.with(""))).await;
    sleep(Duration::from_secs(1)).await;
    assert_eq!(bare.state(), State::Shared);
    assert_eq!(lines.with("bare: fleet: shared by"), [""; 0]);
}

/// Without a limit there is no part of it, and one process uses all of it.
#[tokio::test]
async fn a_start_without_a_server_tells_no_part_that_is_none() {
    let (lines, _guard) = capture();
    let fleet = Fleet::new("redis://127.0.0.1:1").unwrap();
    let _one = Mate::join(&fleet, limited(100, 10));
    let _other = Mate::join(&fleet, Upstream::new("holds").with_cooldown(Cooldown::new()));
    let told = || lines.with("no exchange with the store has succeeded yet");
    until("the warnings", || told().len() >= 2, || format!("{:?}", lines.with(""))).await;
    assert_eq!(
        lines.with("uses the whole limit of 100 requests per 1s. Is the").len(),
        1,
        "{:?}",
        told()
    );
    assert_eq!(lines.with("so nothing is shared: ").len(), 1, "{:?}", told());
}

#[tokio::test]
async fn a_part_that_fails_is_told_while_the_limits_are_shared() {
    let Some(server) = Server::start(&[]) else { return };
    let (lines, _guard) = capture();
    let upstream = limited(100, 10).with_cooldown(Cooldown::new());
    let mate = Mate::join(&Fleet::new(&server.url()).unwrap(), upstream);
    all_share(std::slice::from_ref(&mate)).await;
    assert!(!mate.member.snapshot().is_partial);
    run(&server, &["SET", "resile:1:{shared}:cooldown", "mine"]).await;
    let is_told = || !lines.with("the hold or the votes fail").is_empty();
    until("the warning", is_told, || format!("{:?}", mate.member.snapshot())).await;
    let snapshot = mate.member.snapshot();
    assert!(snapshot.is_partial && snapshot.state == State::Shared, "{snapshot:?}");
    assert!(lines.with("WRONGTYPE").len() == 1, "{:?}", lines.with("fleet"));
    run(&server, &["DEL", "resile:1:{shared}:cooldown"]).await;
    let is_over = || !lines.with("all parts are shared again").is_empty();
    until("the end", is_over, || format!("{:?}", mate.member.snapshot())).await;
    assert!(!mate.member.snapshot().is_partial);
}

/// Each member counts one more with each one that joins.
#[tokio::test]
async fn members_that_join_one_after_another_are_told_once() {
    let Some(server) = Server::start(&[]) else { return };
    let (lines, _guard) = capture();
    let mut crew: Vec<Mate> = Vec::new();
    for _ in 0..4 {
        crew.push(Mate::join(&Fleet::new(&server.url()).unwrap(), limited(100, 10)));
        all_share(std::slice::from_ref(&crew[crew.len() - 1])).await;
        let before = crew.last().unwrap().upstream.fleet().unwrap();
        assert_eq!((before.state, before.members as usize), (State::Shared, crew.len()));
        sleep(Duration::from_millis(300)).await;
    }
    let told = || lines.with("shared by");
    until("the number", || told().len() >= 4, || format!("{:?}", told())).await;
    sleep(Duration::from_secs(2)).await;
    let of_four = "INFO message=shared: fleet: shared by 4 processes upstream=\"shared\" members=4";
    assert_eq!(told(), [of_four; 4]);
    crew[0].member.leave().await;
    until("the end of one", || told().len() >= 7, || format!("{:?}", told())).await;
    assert_eq!(lines.with("fleet: shared by 3 processes").len(), 3, "{:?}", told());
}

/// One that starts without the server knows no number before.
#[tokio::test]
async fn the_end_of_an_outage_tells_the_number_before() {
    let Some(server) = Server::start(&[]) else { return };
    let (lines, _guard) = capture();
    let proxy = Proxy::start(server.port()).await;
    let fleet = Fleet::new(&proxy.url()).unwrap();
    let _first = Mate::join(&fleet, limited(100, 10));
    let has_joined = || !lines.with("fleet: shared by 1 process").is_empty();
    until("the first number", has_joined, || format!("{:?}", lines.with("fleet"))).await;
    proxy.set(Way::Silent);
    let _late = Mate::join(&fleet.clone().with_prefix("late"), limited(100, 10));
    let warned = || lines.with("WARN").len() == 2;
    until("the warnings", warned, || format!("{:?}", lines.with("fleet"))).await;
    let second = [Mate::join(&Fleet::new(&server.url()).unwrap(), limited(100, 10))];
    all_share(&second).await;
    proxy.set(Way::Pass);
    let told = || lines.with("without an answer of the store");
    until("the ends", || told().len() == 2, || format!("{:?}", lines.with("fleet"))).await;
    let before = lines.with("fleet: shared by 2 processes, 1 before, after ");
    assert!(before.len() == 1 && before[0].contains(" members=2 before=1 "), "{:#?}", told());
    let none = lines.with("fleet: shared by 1 process after ");
    assert!(none.len() == 1 && !none[0].contains("before"), "{:#?}", told());
}

#[tokio::test]
async fn a_hold_of_another_process_is_told_once_with_its_length() {
    let Some(server) = Server::start(&[]) else { return };
    let (lines, _guard) = capture();
    let join = |name| {
        let upstream = limited(100, 10).with_cooldown(Cooldown::new());
        Mate::join(&Fleet::new(&server.url()).unwrap().with_member_name(name), upstream)
    };
    let crew = [join("web-1"), join("web-2")];
    all_share(&crew).await;
    crew[0].upstream.hold(Duration::from_secs(3));
    sleep(Duration::from_millis(1_500)).await; // each has read the hold too
    crew[0].upstream.hold(Duration::from_secs(4)); // the same hold, longer
    sleep(Duration::from_millis(500)).await;
    let told = || lines.with("fleet: cooldown");
    assert_eq!(told().len(), 1, "{:?}", told());
    // A call that waits there does not say that this process was asked.
    let call = crew[1].upstream.admit(resile::Never);
    tokio::time::timeout(Duration::from_millis(10), call).await.unwrap_err();
    assert_eq!(lines.with("WARN").len(), 1, "that of the process itself: {:?}", lines.with("WARN"));
    let line = "cooldown: all calls wait 3.0s, those with less time left end at once, \
                member web-1 was asked to wait";
    assert!(told()[0].contains(line) && told()[0].contains("by=\"web-1\""), "{:?}", told());
    assert!(crew[0].member.id().starts_with("web-1-"), "{}", crew[0].member.id());
    for mate in &crew {
        let snapshot = mate.member.snapshot();
        assert_eq!(snapshot.held_by.as_deref(), Some("web-1"), "{snapshot:?}");
    }
    let is_over = || crew.iter().all(|mate| mate.upstream.held().is_none());
    until("the end", is_over, || format!("{:?}", told())).await;
    let is_known = || crew.iter().all(|mate| mate.member.snapshot().held_by.is_none());
    until("the end at all", is_known, || format!("{:?}", crew[1].member.snapshot())).await;
    crew[0].upstream.hold(Duration::from_secs(1)); // the same strain
    until("the next hold", || crew[1].upstream.held().is_some(), || format!("{:?}", told())).await;
    assert_eq!(told().len(), 1, "{:?}", told());
}

/// A member that joins during a hold hears no message, and reads the hold.
#[tokio::test]
async fn a_late_member_knows_who_was_asked() {
    let Some(server) = Server::start(&[]) else { return };
    let (lines, _guard) = capture();
    let join = |name| {
        let upstream = limited(100, 10).with_cooldown(Cooldown::new());
        Mate::join(&Fleet::new(&server.url()).unwrap().with_member_name(name), upstream)
    };
    let first = join("web-1");
    all_share(std::slice::from_ref(&first)).await;
    first.upstream.hold(Duration::from_secs(9));
    sleep(Duration::from_millis(300)).await;
    let late = join("web-2");
    let told = || lines.with("member web-1 was asked to wait");
    until("the hold", || !told().is_empty(), || format!("{:?}", lines.with("fleet"))).await;
    assert_eq!(late.member.snapshot().held_by.as_deref(), Some("web-1"));
}

/// The state that operators see lasts for a while after the return of the server.
#[tokio::test]
async fn the_end_of_an_outage_contradicts_nothing() {
    let Some(mut server) = Server::start(&[]) else { return };
    let (lines, _guard) = capture();
    let upstream = limited(100, 10).with_cooldown(Cooldown::new());
    let mate = Mate::join(&Fleet::new(&server.url()).unwrap(), upstream);
    all_share(std::slice::from_ref(&mate)).await;
    let began = tokio::time::Instant::now();
    let error_age = || mate.member.snapshot().last_error_age;
    assert_eq!(error_age(), None);
    server.kill();
    let status = || mate.upstream.fleet().unwrap();
    until("a lasting outage", || status().state == State::Safe, || status().to_string()).await;
    sleep(Duration::from_secs(2)).await;
    assert!(error_age().unwrap() < Duration::from_millis(1_500), "{:?}", mate.member.snapshot());
    server.restart();
    let is_back = || {
        let Status { state, age, .. } = status();
        let silence = began.elapsed().saturating_sub(Duration::from_millis(1_500));
        assert!(state != State::Safe || age.unwrap() >= silence, "{}", status());
        state == State::Shared
    };
    until("the return", is_back, || status().to_string()).await;
    assert!(status().age.unwrap() < Duration::from_millis(1_500));
    let snapshot = mate.member.snapshot();
    assert!(snapshot.last_error.is_some(), "it stays, with its age: {snapshot:?}");
    assert!(error_age().unwrap() >= Duration::from_secs(2), "{snapshot:?}");
    assert_eq!(lines.with("the hold or the votes fail"), [""; 0]);
}
