//! Trap 11: a retry within a retry.

use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use resile::observe::{Event, EventKind};
use resile::{Backoff, Never, RetryPolicy, Upstream};

use super::Section;
use super::retrier::{RETRIERS, Retrier, op};
use crate::job::{Fault, attempts, count, reset};
use crate::measure::runtime;

pub async fn seen() -> Section {
    let reported = AtomicU32::new(0);
    let upstream = Upstream::new("inner");
    let note = |event: &Event<'_>| {
        if let EventKind::Nested { .. } = event.kind {
            reported.fetch_add(1, Ordering::Relaxed);
        }
    };
    let outer = RetryPolicy::new().with_attempts(4).with_backoff(Backoff::none());
    let inner = RetryPolicy::new().with_attempts(3).with_backoff(Backoff::none());
    reset();
    let fails = |_| async {
        count();
        Err::<u64, _>(Fault::Failed)
    };
    let call = resile::retry(
        |_| async {
            resile::retry(fails, &inner, Never)
                .on(upstream.observed_by(&note))
                .await
                .map_err(|_| Fault::Failed)
        },
        &outer,
        Never,
    );
    let _ = call.await;
    let own = vec![
        attempts().to_string(),
        format!("{} events that name both places", reported.load(Ordering::Relaxed)),
    ];
    let mut rows = vec![("**resile**", own)];
    for who in RETRIERS {
        if who == Retrier::Resile || who.never_waits() {
            continue;
        }
        let made = Arc::new(AtomicU32::new(0));
        let counter = made.clone();
        let fails = op(move || {
            counter.fetch_add(1, Ordering::Relaxed);
            ready(Err(Fault::Failed))
        });
        // Some of these futures cannot be proven `Send` inside another, so the inner call has a
        // thread.
        let outer = op(move || {
            let fails = Arc::clone(&fails);
            let call = move || runtime(false).block_on(who.call(3, Duration::ZERO, fails));
            ready(std::thread::spawn(call).join().expect("no panic").map_err(|_| Fault::Failed))
        });
        let _ = who.call(4, Duration::ZERO, outer).await;
        rows.push((
            who.name(),
            vec![made.load(Ordering::Relaxed).to_string(), "nothing".to_owned()],
        ));
    }
    Section {
        title: "11. Retries within retries",
        tried: "Three attempts within each of four. Reports are by the crate's own hooks and documentation.",
        columns: &["attempts", "reported"],
        rows,
    }
}
