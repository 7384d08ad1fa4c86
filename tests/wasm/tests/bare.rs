//! A target without a clock and without entropy, since no feature adds those of JavaScript. Nothing
//! may end the program.
#![cfg(all(target_family = "wasm", target_os = "unknown", not(feature = "browser")))]

#[expect(dead_code, reason = "the other laws need a clock")]
#[path = "../../runtimes/laws.rs"]
mod laws;

use std::io::{self, ErrorKind};
use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{HeaderMap, HeaderValue, StatusCode};
use resile::http::StatusError;
use resile::time::{DefaultTimer, ManualTimer, NoTimer};
use resile::{Never, RetryPolicy, Run, Upstream};
use wasm_bindgen_test::wasm_bindgen_test;

#[wasm_bindgen_test]
async fn the_laws_without_a_timer() {
    laws::without_a_timer().await;
}

#[wasm_bindgen_test]
fn there_is_no_default_timer() {
    let _: DefaultTimer = NoTimer::default();
}

/// Without a clock a date is in the past. So it asks for no wait.
#[wasm_bindgen_test]
fn a_date_asks_for_no_wait() {
    let mut headers = HeaderMap::new();
    headers.insert(RETRY_AFTER, HeaderValue::from_static("Wed, 21 Oct 2099 07:28:00 GMT"));
    let error = StatusError::check(StatusCode::SERVICE_UNAVAILABLE, &headers).unwrap_err();
    assert_eq!(error.retry_after(), None);
    headers.insert("date", HeaderValue::from_static("Wed, 21 Oct 2099 07:27:00 GMT"));
    let error = StatusError::check(StatusCode::SERVICE_UNAVAILABLE, &headers).unwrap_err();
    assert_eq!(error.retry_after(), Some(Duration::from_secs(60)));
}

#[wasm_bindgen_test]
fn a_blocking_run_ends() {
    let upstream = Upstream::new("station").with_timer(ManualTimer::new());
    let mut run = Run::new(RetryPolicy::new(), Never).on(&upstream);
    while run.blocking_next().unwrap().number() < 3 {
        run.failed(io::Error::from(ErrorKind::TimedOut)).unwrap();
    }
    let _: () = run.succeeded(());
}
