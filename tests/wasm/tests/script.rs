//! The laws and the features on the clock of JavaScript, in a window, a worker and Node.
#![cfg(all(target_family = "wasm", target_os = "unknown", feature = "browser"))]

#[path = "../../runtimes/laws.rs"]
mod laws;

use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::task::{Context, Waker};
use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{HeaderMap, HeaderValue, StatusCode};
use js_sys::{Date, Function, Reflect};
use resile::http::StatusError;
use resile::time::{BrowserSleep, BrowserTimer, DefaultTimer, Timer};
use resile::{Attempt, Backoff, Breaker, Budget, Jitter, Never, RetryPolicy, Run, Upstream, retry};
use wasm_bindgen::JsCast;
use wasm_bindgen_test::wasm_bindgen_test;

const MS: Duration = Duration::from_millis(1);

#[wasm_bindgen_test]
async fn the_laws_of_a_timer() {
    laws::all(BrowserTimer::new()).await;
}

/// The main program of the README.
#[wasm_bindgen_test]
async fn the_quickstart() {
    static GREETER: Upstream =
        Upstream::new("greeter").with_budget(Budget::new()).with_breaker(Breaker::new());
    static POLICY: RetryPolicy = RetryPolicy::new()
        .with_attempts(5)
        .with_attempt_timeout(Duration::from_secs(5))
        .with_total_timeout(Duration::from_secs(60));

    fn is_transient(error: &io::Error) -> bool {
        matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::TimedOut)
    }

    async fn fetch(attempt: Attempt) -> io::Result<&'static str> {
        match attempt.number() {
            1 => Err(ErrorKind::ConnectionReset.into()),
            2 => Err(ErrorKind::TimedOut.into()),
            _ => Ok("hello"),
        }
    }

    let policy = POLICY.with_classifier(is_transient);
    let greeting = retry(fetch, policy, Never).on(&GREETER).await;
    assert_eq!(greeting.unwrap(), "hello");
    let greeting = retry(fetch, policy, Never).await;
    assert_eq!(greeting.unwrap(), "hello", "without an upstream");
}

#[wasm_bindgen_test]
fn the_clock_of_javascript_is_the_default() {
    let _: BrowserTimer = DefaultTimer::new();
    fn leaves_its_thread<T: Send + Sync>() {}
    leaves_its_thread::<(BrowserTimer, BrowserSleep, Upstream)>();
}

fn poll(future: Pin<&mut impl Future>) -> bool {
    future.poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

/// Node lists its timeouts. A window and a worker do not.
#[wasm_bindgen_test]
fn a_dropped_sleep_clears_its_timeout() {
    let Some(timeouts) = node_timeouts() else { return };
    let sleeps: Vec<_> = (0..10)
        .map(|_| {
            let mut sleep = Box::pin(BrowserTimer::new().sleep(MS * 60_000));
            assert!(!poll(sleep.as_mut()) && !poll(sleep.as_mut()));
            sleep
        })
        .collect();
    assert_eq!(node_timeouts(), Some(timeouts + 10), "one timeout for each sleep");
    drop(sleeps);
    assert_eq!(node_timeouts(), Some(timeouts));
}

/// Returns the number of Node's timeouts, or `None` elsewhere.
fn node_timeouts() -> Option<usize> {
    let process = Reflect::get(&js_sys::global(), &"process".into()).ok()?;
    let list = Reflect::get(&process, &"getActiveResourcesInfo".into()).ok()?;
    let list: Function = list.dyn_into().ok()?;
    let list: js_sys::Array = list.call0(&process).ok()?.dyn_into().ok()?;
    Some(list.iter().filter(|kind| kind.as_string().is_some_and(|kind| kind == "Timeout")).count())
}

/// Date headers are read by JavaScript's clock. The standard library's would end the program.
#[wasm_bindgen_test]
fn a_date_is_compared_with_the_clock() {
    let in_a_minute = Date::new(&(Date::now() + 60_000.0).into()).to_utc_string();
    let mut headers = HeaderMap::new();
    let date = HeaderValue::from_str(&String::from(in_a_minute)).unwrap();
    headers.insert(RETRY_AFTER, date);
    let error = StatusError::check(StatusCode::SERVICE_UNAVAILABLE, &headers).unwrap_err();
    let wait = error.retry_after().unwrap();
    assert!(wait > MS * 55_000 && wait <= MS * 60_000, "{wait:?}");
}

/// A blocking run only keeps its thread busy: nothing can block a page.
#[wasm_bindgen_test]
fn a_blocking_run_ends() {
    let upstream = Upstream::new("station").with_timer(BrowserTimer::new());
    let began = BrowserTimer::new().now();
    let backoff = Backoff::fixed(MS * 5).with_jitter(Jitter::None);
    let policy = RetryPolicy::new().with_backoff(backoff);
    let mut run = Run::new(policy, Never).on(&upstream);
    while run.blocking_next().unwrap().number() < 3 {
        run.failed(io::Error::from(ErrorKind::TimedOut)).unwrap();
    }
    let _: () = run.succeeded(());
    assert!(BrowserTimer::new().now() >= began + MS * 10);
}

/// The timeout of a sleep that is never polled again is harmless.
#[wasm_bindgen_test]
async fn a_timeout_fires_without_its_future() {
    let mut sleep = Box::pin(BrowserTimer::new().sleep(MS));
    assert!(!poll(sleep.as_mut()));
    BrowserTimer::new().sleep(MS * 10).await;
    assert!(poll(sleep.as_mut()));
    drop(sleep);
}
