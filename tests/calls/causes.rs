//! The words of an error in events: its own and those of its sources, for each type of error.

use std::borrow::Cow;
use std::cell::RefCell;
use std::error::Error;
use std::fmt;
use std::io;
use std::sync::Arc;

use resile::classify::Always;
use resile::observe::{Event, EventKind};
use resile::time::ManualTimer;
use resile::upstream::{Displayed, Observed};
use resile::{
    Backoff, Classify, FallbackPolicy, Never, RetryPolicy, Run, Upstream, fallback, http, retry,
};

use super::script::drive;

const ONCE: RetryPolicy = RetryPolicy::none();

#[derive(Debug)]
struct Layer(&'static str, io::Error);

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl Error for Layer {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.1)
    }
}

fn layer() -> Layer {
    Layer("request failed", io::ErrorKind::ConnectionRefused.into())
}

/// Runs a call that fails with `$error` on a target made from an upstream. Returns the words of
/// the last event, and whether it has the error as a value.
macro_rules! words {
    ($error:expr) => {
        words!($error, |upstream| upstream)
    };
    ($error:expr, |$upstream:ident| $target:expr) => {{
        let (timer, seen) = (ManualTimer::new(), RefCell::new((String::new(), false)));
        let observer = |event: &Event<'_>| {
            if let EventKind::GaveUp { failure, .. } = event.kind {
                let words = failure.error.map(ToString::to_string).unwrap_or_default();
                *seen.borrow_mut() = (words, failure.source.is_some());
            }
        };
        let upstream = Upstream::new("feed").with_timer(&timer);
        let $upstream = &upstream;
        let target = Observed::new($target, &observer);
        let outcome =
            drive(retry(|_| async { Err::<(), _>($error) }, ONCE, Never).on(target), &timer);
        assert!(outcome.is_err());
        seen.into_inner()
    }};
}

fn known(words: &str) -> (String, bool) {
    (words.to_owned(), true)
}

fn unknown(words: &str) -> (String, bool) {
    (words.to_owned(), false)
}

const CHAIN: &str = "request failed: connection refused";

#[test]
fn the_words_of_an_error_have_its_sources() {
    assert_eq!(words!(layer()), known(CHAIN));
    assert_eq!(words!(Box::new(layer())), known(CHAIN));
    assert_eq!(words!(Box::<dyn Error + Send + Sync>::from(layer())), known(CHAIN));
    assert_eq!(words!(Box::<dyn Error>::from(layer())), known(CHAIN));
    let shared: Arc<dyn Error + Send + Sync> = Arc::new(layer());
    assert_eq!(words!(Arc::clone(&shared)), known(CHAIN));
    assert_eq!(words!(anyhow::Error::new(layer())), known(CHAIN));
    let context = || anyhow::Error::new(layer()).context("no weather");
    assert_eq!(words!(context()), known(&format!("no weather: {CHAIN}")));
    assert_eq!(words!(resile::timeout::Error::Operation(layer())), known(CHAIN));
    assert_eq!(
        words!(resile::timeout::Error::Operation(context())).0,
        format!("no weather: {CHAIN}")
    );
}

#[test]
fn a_text_or_a_number_is_its_own_words() {
    assert_eq!(words!("down"), unknown("down"));
    assert_eq!(words!("down".to_owned()), unknown("down"));
    assert_eq!(words!(Cow::Borrowed("down")), unknown("down"));
    assert_eq!(words!(7_u32), unknown("7"));
}

/// An error with `Display` alone.
#[derive(Debug)]
struct Plain;

impl fmt::Display for Plain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("plain")
    }
}

#[test]
fn the_words_of_another_error_are_chosen() {
    assert_eq!(words!(Plain, |upstream| upstream.display()), unknown("plain"));
    assert_eq!(words!(Plain, |upstream| Displayed::new(Arc::new(upstream))), unknown("plain"));
    // The choice holds for an `Error` too: no source is printed.
    assert_eq!(words!(layer(), |upstream| upstream.display()), unknown("request failed"));
}

#[test]
fn an_event_has_the_error_of_the_call_within_a_call() {
    macro_rules! nested {
        ($error:expr) => {{
            let inner = async || retry(|_| async { Err::<(), _>($error) }, ONCE, Never).await;
            let seen = RefCell::new(Vec::new());
            let observer = |event: &Event<'_>| seen.borrow_mut().push(event.to_string());
            let upstream = Upstream::new("models").with_timer(ManualTimer::new());
            let call = fallback(&[1, 2], |_| inner(), FallbackPolicy::new(), Never);
            drive(call.on(upstream.observed_by(&observer)), &ManualTimer::new()).unwrap_err();
            seen.into_inner()
        }};
    }
    let used_up = "gave up after 1 attempt: credit used up";
    let next = format!("models: alternative 1 of 2 failed, trying the next: {used_up}");
    let gave_up = format!("models: gave up after 2 of 2 alternatives: {used_up}");
    for lines in [
        nested!(io::Error::other("credit used up")),
        nested!(anyhow::anyhow!("credit used up")),
        nested!("credit used up"),
        nested!(Box::<dyn Error + Send + Sync>::from("credit used up")),
    ] {
        assert!(lines.contains(&next), "{lines:?}");
        assert_eq!(lines.last(), Some(&gave_up));
    }
}

/// The error type of a run is known only after `on`.
#[test]
fn the_words_are_inferred_after_the_target() {
    let (timer, upstream) = (ManualTimer::new(), Upstream::new("feed"));
    let upstream = upstream.with_timer(&timer);
    let run = async {
        let mut run = Run::new(ONCE.with_backoff(Backoff::none()), Never).on(&upstream);
        run.attempt(async { Err::<(), _>(layer()) }).await.unwrap_err();
        let mut run = Run::new(ONCE, Never).on(&upstream);
        run.attempt(async { Err::<(), _>(anyhow::anyhow!("down")) }).await.unwrap_err();
        upstream.call(async { Err::<(), _>(anyhow::anyhow!("down")) }, Always).await.unwrap_err();
        upstream.call(async { Err::<(), _>(layer()) }, Always).await.unwrap_err();
    };
    drive(run, &timer);
}

/// An observer counts the kinds of errors by a downcast.
#[test]
fn an_observer_sees_the_error_itself() {
    let (timer, kinds) = (ManualTimer::new(), RefCell::new(Vec::new()));
    let observer = |event: &Event<'_>| {
        if let EventKind::Failed { failure, .. } = event.kind {
            let error = failure.source.and_then(|error| error.downcast_ref::<Layer>());
            kinds.borrow_mut().push(error.map(|layer| layer.1.kind()));
        }
    };
    let upstream = Upstream::new("feed").with_timer(&timer);
    let call = retry(|_| async { Err::<(), _>(layer()) }, ONCE, Never);
    drive(call.on(upstream.observed_by(&observer)), &timer).unwrap_err();
    let call = retry(|_| async { Err::<(), _>(anyhow::Error::new(layer())) }, ONCE, Never);
    drive(call.on(upstream.observed_by(&observer)), &timer).unwrap_err();
    assert_eq!(kinds.into_inner(), [Some(io::ErrorKind::ConnectionRefused); 2]);
}

#[test]
fn the_secrets_of_a_url_are_cut() {
    let url = "error sending request for url (https://me:s3cret@host/weather?api_key=s3cret)";
    let cut = "error sending request for url (https://…@host/weather?…)";
    assert_eq!(words!(io::Error::other(url)).0, cut);
    assert_eq!(words!(url).0, cut);
    assert_eq!(words!(anyhow::anyhow!(url)).0, cut);
    assert_eq!(words!(url, |upstream| upstream.display()).0, cut);
    assert_eq!(words!(format!("{url:?}")).0, format!("\"{cut}\""));
}

/// The ready classifiers name the types of errors in few words.
#[test]
fn the_classifiers_name_the_types_of_errors() {
    let refused = |status: u16| {
        let status = ::http::StatusCode::from_u16(status).unwrap();
        http::StatusError::check(status, &::http::HeaderMap::new()).unwrap_err()
    };
    let by_status = http::Classifier::idempotent();
    assert_eq!(by_status.error_type(&refused(503)).as_deref(), Some("503"));
    let response = ::http::Response::builder().status(404).body(()).unwrap();
    assert_eq!(by_status.error_type(&response).as_deref(), Some("404"));
}

#[test]
fn the_alternate_form_of_a_gave_up_has_the_last_error_and_its_sources() {
    let timer = ManualTimer::new();
    let weather = Upstream::new("weather").with_timer(timer.clone());
    let op = |_| std::future::ready(Err::<(), _>(layer()));
    let gave_up = drive(retry(op, RetryPolicy::none(), Never).on(&weather), &timer).unwrap_err();
    let short = "weather: gave up after 1 attempt";
    assert_eq!(gave_up.to_string(), short);
    assert_eq!(
        format!("{gave_up:#}"),
        format!("{short}: {}", "request failed: connection refused")
    );
}
