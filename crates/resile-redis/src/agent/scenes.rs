//! Fleets whose provider refuses, and whose server is away meanwhile.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use redis::{ErrorKind, ServerErrorKind, make_extension_error};
use tracing::Dispatch;
use tracing_subscriber::fmt::MakeWriter;

use super::job::Job;
use super::round::Failure;
use super::world::{Scene, Second};
use crate::scripts::ScriptError;

/// The text of a log.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Write for Written {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(text)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Written {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

const fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Three processes that want more than the limit. The server comes after six seconds.
fn late(least_members: u32) -> Scene {
    Scene {
        calls: vec![60.0, 40.0, 30.0],
        least_members,
        server: vec![at(6)],
        seed: 0,
        lag: Duration::ZERO,
        lagging: usize::MAX,
        provider: vec![(at(0), 100.0)],
        burst: 25.0,
        windows: None,
        failure: |_, _| None,
    }
}

fn refused(seconds: &[Second]) -> u32 {
    seconds.iter().map(|second| second.refused).sum()
}

fn accepted(seconds: &[Second]) -> f64 {
    let all: u32 = seconds.iter().map(|second| second.accepted).sum();
    f64::from(all) / f64::from(u32::try_from(seconds.len()).unwrap())
}

/// Each uses the whole limit, so the provider refuses. That is no lesson on the limit.
#[test]
fn processes_that_start_without_a_server_do_not_lower_the_limit_of_the_fleet() {
    let played = late(1).play(40);
    assert!(refused(&played[..6]) > 3, "{played:?}");
    assert!(played[..6].iter().any(|second| second.used < 90), "each has learned: {played:?}");
    assert!(played[12..].iter().all(|second| second.used >= 97), "{played:?}");
    assert!(accepted(&played[12..]) > 95.0, "{played:?}");
}

/// The server answers the leases earlier than the renewals. So a process shares before it knows the others.
#[test]
fn the_lesson_of_a_process_that_does_not_know_the_others_yet_waits() {
    for seed in 0..40 {
        let mut scene = late(1);
        (scene.seed, scene.lag) = (seed, Duration::from_millis(600 + 10 * seed));
        let played = scene.play(16);
        assert!(played[12..].iter().all(|second| second.used >= 97), "seed {seed}: {played:?}");
    }
}

/// The processes divide the limit from the start on, so the provider refuses nothing.
#[test]
fn the_least_number_of_members_spares_the_refusals_of_a_start_without_a_server() {
    let played = late(3).play(40);
    assert_eq!(refused(&played[..6]), 0, "{played:?}");
    assert!(played.iter().all(|second| second.used == 100), "{played:?}");
}

/// The limit of the provider is a third of the one in the code.
#[test]
fn what_all_have_learned_without_a_server_is_not_forgotten() {
    let mut scene = late(3);
    (scene.server, scene.provider) = (vec![at(60)], vec![(at(0), 33.0)]);
    scene.calls = vec![60.0; 3];
    let played = scene.play(90);
    assert!(refused(&played[..60]) > 10, "{played:?}");
    assert!(refused(&played[40..60]) <= 10, "the processes go on above the limit: {played:?}");
    assert!(played[66..].iter().all(|second| (15..=60).contains(&second.used)), "{played:?}");
}

/// The members know each other, and each learns all of the lesson. The sum would be a hundredth of the limit.
#[test]
fn what_members_learn_in_an_outage_counts_once() {
    let scene = Scene {
        calls: vec![60.0; 4],
        least_members: 1,
        server: vec![at(0), at(10), at(70)],
        seed: 0,
        lag: Duration::ZERO,
        lagging: usize::MAX,
        provider: vec![(at(0), 100.0), (at(10), 50.0)],
        burst: 25.0,
        windows: None,
        failure: |_, _| None,
    };
    let played = scene.play(80);
    assert!(played[..9].iter().all(|second| second.used == 100), "{played:?}");
    assert!(refused(&played[10..70]) > 10, "{played:?}");
    assert!(played[76..].iter().all(|second| (25..=80).contains(&second.used)), "{played:?}");
}

/// Requests that are late on their way arrive together, so a provider with the same burst sees more of it than the
/// fleet does. After the refusal the account begins empty, so the fleet never uses so much at once again.
#[test]
fn a_fleet_that_was_refused_does_not_use_the_burst_at_once_again() {
    for seed in 0..8 {
        let mut scene = late(1);
        (scene.seed, scene.burst, scene.server) = (seed, 12.0, vec![at(0)]);
        // The provider has no units at 10 s, and all of its burst after the hold.
        scene.provider = vec![(at(0), 100.0), (at(10), 0.0), (at(11), 100.0)];
        scene.calls = vec![60.0; 4];
        let played = scene.play(30);
        assert!(refused(&played[10..11]) > 0, "seed {seed}: {played:?}");
        assert_eq!(refused(&played[11..]), 0, "seed {seed}: {played:?}");
        assert!(accepted(&played[13..]) > 60.0, "seed {seed}: {played:?}");
    }
}

/// A provider counts the requests of each second of its clock. Those that are late on their way count in the next second,
/// so a limit of 5 % less bears times on the way that differ by 50 ms. Calls come all the time, so the burst is not used.
#[test]
fn five_percent_less_than_the_limit_of_a_second_bears_late_requests() {
    let play = |provider, seed| {
        let mut scene = late(3);
        (scene.server, scene.seed, scene.calls) = (vec![at(0)], seed, vec![60.0; 4]);
        (scene.provider, scene.windows) =
            (vec![(at(0), provider)], Some(Duration::from_millis(50)));
        let played = scene.play(32);
        let (refused, accepted) = (refused(&played[2..]), accepted(&played[2..]));
        println!("100 of {provider} a second: {refused} refused, {accepted:.1} a second accepted");
        (refused, accepted)
    };
    for seed in 0..3 {
        let (refused, accepted) = play(105.0, seed);
        assert!(refused == 0 && accepted > 98.0, "5 % less: {refused} refused, {accepted}");
        let (refused, accepted) = play(100.0, seed);
        assert!(refused > 0 && accepted < 95.0, "as much: {refused} refused, {accepted}");
    }
}

/// Returns the lines at INFO and above of all processes in a scene.
fn lines(scene: &Scene, seconds: usize) -> Vec<String> {
    // With one subscriber only, `tracing` asks the thread that reaches a call site first, which may be that of
    // another test.
    static SECOND: OnceLock<Dispatch> = OnceLock::new();
    let log = |written: &Written| {
        let log = tracing_subscriber::fmt().with_ansi(false).without_time();
        Dispatch::new(log.with_writer(written.clone()).finish())
    };
    SECOND.get_or_init(|| log(&Written::default()));
    let written = Written::default();
    tracing::dispatcher::with_default(&log(&written), || scene.play(seconds));
    let written = written.0.lock().unwrap();
    String::from_utf8_lossy(&written).lines().map(ToOwned::to_owned).collect()
}

/// Three processes have 100 a second with a burst of 25 in their code, and the provider allows 60 in each second of its
/// clock. A refusal leaves most of such a burst, and yet the fleet learns. One line names both limits.
#[test]
fn a_limit_that_is_too_high_in_all_processes_is_learned_and_told() {
    for seed in 0..3 {
        let mut scene = late(3);
        (scene.server, scene.seed, scene.calls) = (vec![at(0)], seed, vec![60.0; 3]);
        (scene.provider, scene.windows) = (vec![(at(0), 60.0)], Some(Duration::from_millis(15)));
        let played = scene.play(120);
        let (refused, accepted) = (refused(&played[30..]), accepted(&played[30..]));
        println!("100 of 60 a second: {refused} refused in 90 s, {accepted:.1} a second accepted");
        assert!(played[30..].iter().all(|second| second.used < 68), "seed {seed}: {played:?}");
        assert!(refused <= 27 && accepted > 40.0, "seed {seed}: {refused} {accepted}: {played:?}");
        let lines = lines(&scene, 60);
        let words = "fleet: the members have learned that the limit of requests is lower, and use ";
        let told: Vec<_> = lines.iter().filter(|line| line.contains(words)).collect();
        assert!((1..=2).contains(&told.len()), "seed {seed}: {lines:#?}");
        assert!(
            told[0].contains("WARN") && told[0].contains(" of 100 a second: correct"),
            "{told:?}"
        );
    }
}

/// A process that shares again is refused for the units that it has used before. It hears at once that the limit of
/// the fleet is another one. Operators see the new state half a second later, so one refusal more may be told. The last
/// word is that of the fleet.
#[test]
fn what_a_process_learns_alone_is_told_and_so_is_its_end() {
    let mut lessons = BTreeMap::new();
    for seed in 0..24 {
        let mut scene = late(1);
        (scene.seed, scene.lag) = (seed, Duration::from_millis(80 * seed));
        scene.burst = if seed % 2 == 0 { 12.0 } else { 24.0 };
        let lines = lines(&scene, 16);
        for name in ["one", "two", "three"] {
            let own = format!(" {name}: quota too high: the upstream refuses calls below");
            let end = format!(
                " {name}: fleet: the limit of requests is that of all processes again, 100 a second, \
                 and no longer the "
            );
            let kind = |line: &String| {
                let is_end = line.contains(&end);
                if is_end {
                    let alone = line.split_once(&end).unwrap().1.split_once(' ').unwrap().0;
                    *lessons.entry(alone.to_owned()).or_insert(0) += 1;
                }
                (line.contains(&own) || is_end).then_some(if is_end { "end" } else { "own" })
            };
            let told: Vec<_> = lines.iter().filter_map(kind).collect();
            let count = |kind| told.iter().filter(|it| **it == kind).count();
            let is_ended = told.last().is_none_or(|it| *it == "end");
            let is_answer = told.first().is_none_or(|it| *it == "own")
                && told.windows(2).all(|pair| pair != ["end", "end"]);
            let is_bounded = count("own") <= 3 && count("end") <= 2;
            assert!(
                is_ended && is_answer && is_bounded,
                "seed {seed}: {name} {told:?}: {lines:#?}"
            );
        }
    }
    println!("no longer …: {lessons:?}");
    assert!(lessons.contains_key("90"), "a lesson of one refusal: {lessons:?}");
}

/// Returns the seconds behind a word of a line: `after 3.1s`.
fn seconds_after(line: &str, word: &str) -> f64 {
    let number = line.split_once(word).unwrap_or_else(|| panic!("no `{word}`: {line}")).1;
    number.split_once('s').unwrap().0.parse().unwrap_or_else(|_| panic!("no time: {line}"))
}

/// The server comes back twice for a time in which the processes do not share again. One begin and one end tell all.
#[test]
fn the_end_of_an_outage_tells_the_time_without_an_answer_and_the_silences() {
    for seed in 0..3 {
        let mut scene = late(3);
        (scene.seed, scene.calls) = (seed, vec![20.0; 3]);
        scene.server = [0, 10, 13, 14, 17, 18, 20].map(at).to_vec();
        let lines = lines(&scene, 26);
        for name in ["one", "two", "three"] {
            let with = |text: &str| {
                let is_its = |line: &&String| line.contains(&format!(" {name}: fleet: {text}"));
                lines.iter().filter(is_its).cloned().collect::<Vec<_>>()
            };
            assert_eq!(with("safe mode: no answer of the store for ").len(), 1, "{lines:#?}");
            let ends = with("shared by 3 processes after ");
            assert_eq!(ends.len(), 1, "{lines:#?}");
            let end = &ends[0];
            assert!(
                end.contains("s without an answer of the store, in 3 silences within "),
                "{end}"
            );
            // Each silence begins up to a second early and ends up to a second late.
            let silent = seconds_after(end, " after ");
            assert!((8.0..14.0).contains(&silent), "{end}");
            let all = seconds_after(end, " within ");
            assert!((10.0..12.1).contains(&all) && silent < all, "{end}");
        }
    }
}

/// The store does not answer the first renewals of one process, and all the rest of its exchanges.
#[test]
fn the_number_of_members_is_told_after_a_renewal_only() {
    for (seed, server) in [(0, vec![at(6)]), (1, vec![at(6)]), (2, vec![at(0), at(10), at(16)])] {
        let mut scene = late(1);
        (scene.seed, scene.calls, scene.server) = (seed, vec![20.0; 3], server);
        (scene.lag, scene.lagging) = (at(3), 1);
        let lines = lines(&scene, 26);
        let with = |text: &str| {
            let text = format!(" one: fleet: shared by {text}");
            lines.iter().filter(|line| line.contains(&text)).count()
        };
        let told = (with("1 process"), with("3 processes after "));
        assert_eq!(told, (0, 1), "seed {seed}: {lines:#?}");
    }
}

#[test]
fn an_outage_with_one_silence_tells_its_length_only() {
    let mut scene = late(3);
    (scene.calls, scene.server) = (vec![20.0; 3], [0, 10, 13].map(at).to_vec());
    let lines = lines(&scene, 20);
    let end = lines.iter().find(|line| line.contains(" one: fleet: shared by 3 processes after "));
    let end = end.unwrap_or_else(|| panic!("{lines:#?}"));
    assert!((3.0..5.1).contains(&seconds_after(end, " after ")), "{end}");
    assert!(end.contains("s without an answer of the store upstream="), "{end}");
    assert!(end.contains("silences=1"), "{end}");
}

/// Plays three processes with a server that fails so. Returns the lines of one at INFO and above.
fn failing(failure: fn(&Job, Duration) -> Option<Failure>) -> Vec<String> {
    let mut scene = late(3);
    (scene.calls, scene.server, scene.failure) = (vec![20.0; 3], vec![at(0)], failure);
    let mut lines = lines(&scene, 30);
    lines.retain(|line| line.contains(" one: "));
    lines
}

/// Returns the begin and the end of an outage with a server that fails so from 10 s on.
fn outage(failure: fn(&Job, Duration) -> Option<Failure>) -> (String, String) {
    let lines = failing(failure);
    let with = |text: &str| {
        let text = format!(" one: fleet: {text}");
        let told: Vec<_> = lines.iter().filter(|line| line.contains(&text)).collect();
        assert_eq!(told.len(), 1, "{text}: {lines:#?}");
        told[0].clone()
    };
    (with("safe mode: "), with("shared by 3 processes after "))
}

#[expect(clippy::unnecessary_wraps, reason = "the form of a scene")]
fn error_of(code: &str) -> Option<Failure> {
    let error = make_extension_error(code.to_owned(), Some("refused".to_owned()));
    Some(Failure::Script(ScriptError::Server(error)))
}

#[expect(clippy::unnecessary_wraps, reason = "the form of a scene")]
fn lost() -> Option<Failure> {
    let error = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
    Some(Failure::Script(ScriptError::Server(error.into())))
}

fn lasts(now: Duration, from: u64, to: u64) -> bool {
    at(from) <= now && now < at(to)
}

/// Asserts that the lines tell of exchanges that failed for eight seconds, and of no silence.
fn is_refusal((begin, end): &(String, String), code: &str) {
    let words = "safe mode: exchanges with the store fail, 3 processes known last, so this process uses 1/3 of the \
                 limit, which is 33.3 of 100 requests per 1s; holds stay in this process: ";
    assert!(begin.contains(words) && begin.contains(code), "{begin}");
    assert!(!begin.contains("elapsed_ms"), "{begin}");
    assert!(end.contains("s in which exchanges with the store failed upstream="), "{end}");
    assert!((7.8..9.1).contains(&seconds_after(end, " after ")), "{end}");
    assert!(end.contains("silences=0 silent_ms=0 elapsed_ms="), "{end}");
}

#[test]
fn a_store_that_answers_with_errors_is_not_silent() {
    let with = outage;
    let wrong = with(|_, now| error_of("WRONGTYPE").filter(|_| lasts(now, 10, 18)));
    is_refusal(&wrong, "WRONGTYPE");
    let full = with(|_, now| error_of("OOM").filter(|_| lasts(now, 10, 18)));
    is_refusal(&full, "OOM");
    let forbidden = with(|_, now| error_of("NOPERM").filter(|_| lasts(now, 10, 18)));
    is_refusal(&forbidden, "NOPERM");
    let replica = with(|_, now| {
        let error = (ErrorKind::Server(ServerErrorKind::ReadOnly), "a replica").into();
        Some(Failure::Script(ScriptError::Server(error))).filter(|_| lasts(now, 10, 18))
    });
    is_refusal(&replica, "ReadOnly");
    let odd = with(|_, now| {
        let error = ScriptError::Reply { script: "lease", reply: "nil".to_owned() };
        Some(Failure::Script(error)).filter(|_| lasts(now, 10, 18))
    });
    is_refusal(&odd, "unexpected reply");
}

/// Only the key of the limit has the wrong type.
#[test]
fn a_store_that_refuses_one_exchange_is_not_silent() {
    let wrong = outage(|job, now| {
        let is_failing = matches!(job, Job::Lease { .. }) && lasts(now, 10, 18);
        error_of("WRONGTYPE").filter(|_| is_failing)
    });
    is_refusal(&wrong, "WRONGTYPE");
}

#[test]
fn errors_before_or_after_a_silence_are_no_part_of_it() {
    let (begin, end) = outage(|_, now| match now.as_secs() {
        10..14 => error_of("READONLY"),
        14..18 => lost(),
        _ => None,
    });
    assert!(begin.contains("safe mode: exchanges with the store fail, "), "{begin}");
    assert!(begin.contains("READONLY"), "{begin}");
    is_mixed(&end);
    let (begin, end) = outage(|_, now| match now.as_secs() {
        10..14 => lost(),
        14..18 => error_of("LOADING"),
        _ => None,
    });
    assert!(begin.contains("safe mode: no answer of the store for "), "{begin}");
    assert!(begin.contains("elapsed_ms="), "{begin}");
    is_mixed(&end);
}

/// Asserts that the line tells of eight seconds, of which four had no answer.
fn is_mixed(end: &str) {
    let words = "s in which exchanges with the store failed, ";
    assert!(end.contains(words) && end.contains("s of them without an answer upstream="), "{end}");
    assert!((7.0..9.1).contains(&seconds_after(end, " after ")), "{end}");
    assert!((3.9..6.1).contains(&seconds_after(end, words)), "{end}");
}

/// The first warning has the reason of the silence, so a refusal after it has a warning of its own, once.
#[test]
fn a_refusal_after_a_silence_is_told_once() {
    let still = |failure| {
        let mut lines = failing(failure);
        lines.retain(|line| line.contains(" one: fleet: still in safe mode: "));
        lines
    };
    let told = still(|_, now| match now.as_secs() {
        10..12 => lost(),
        12..22 => error_of("READONLY"),
        _ => None,
    });
    assert_eq!(told.len(), 1, "{told:#?}");
    let words = "the store answers again, but exchanges with it fail: ";
    assert!(told[0].contains(words) && told[0].contains("READONLY"), "{told:#?}");
    assert!(still(|_, now| lost().filter(|_| lasts(now, 10, 18))).is_empty());
    assert!(still(|_, now| error_of("OOM").filter(|_| lasts(now, 10, 18))).is_empty());
}
