//! A member that shares and gets nothing says so, once.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redis::Value;
use resile::Never;
use resile_redis::Fleet;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber, span};

use crate::crew::{Mate, all_share, limited, until};
use crate::scene::run;
use crate::server::Server;

/// The lines of the log.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<(Level, String)>>>);

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "resile"
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut message = Message(String::new());
        event.record(&mut message);
        self.0.lock().unwrap().push((*event.metadata().level(), message.0));
    }
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}

#[tokio::test]
async fn shared_and_nothing_granted_is_said_once_at_both_ends() {
    let lines = Lines::default();
    let _guard = tracing::subscriber::set_default(lines.clone());
    let said = |level: Level, words: &str| {
        let lines = lines.0.lock().unwrap();
        lines.iter().filter(|(at, line)| *at == level && line.contains(words)).count()
    };
    let Some(server) = Server::start(&[]) else { return };
    // A busy machine must not lead to the safe mode.
    let fleet = Fleet::new(&server.url()).unwrap().with_timeout(Duration::from_secs(1));
    let mate = Mate::join(&fleet, limited(10, 100));
    all_share(std::slice::from_ref(&mate)).await;
    // Somebody has used all units, and of the next eight seconds too.
    let key = "resile:1:{shared}:quota:requests";
    let Value::BulkString(parts) = run(&server, &["HGET", key, "s"]).await else {
        panic!("no key")
    };
    let parts: i64 = String::from_utf8(parts).unwrap().parse().unwrap();
    let debt = (-80 * parts).to_string();
    while mate.upstream.try_admit().is_ok() {} // what the process holds
    run(&server, &["HSET", key, "l", &debt]).await;

    let upstream = Arc::clone(&mate.upstream);
    let caller = tokio::spawn(async move {
        let mut calls = 0;
        for _ in 0..20 {
            upstream.admit(Never).await.unwrap().succeeded();
            calls += 1;
        }
        calls
    });
    let snapshot = || mate.member.snapshot();
    let words = || format!("{:?}", snapshot());
    let took = until("the alarm", || snapshot().starves_for.is_some(), words).await;
    assert!((5_000..7_500).contains(&took.as_millis()), "{took:?}");
    assert!(snapshot().starves_for >= Some(Duration::from_secs(5)));
    assert_eq!(said(Level::WARN, "shared, and nothing granted for"), 1);
    assert_eq!(said(Level::INFO, "granted again"), 0);
    assert_eq!(caller.await.unwrap(), 20);
    until("the end", || snapshot().starves_for.is_none(), words).await;
    assert_eq!(said(Level::WARN, "nothing granted"), 1);
    let ends = said(Level::INFO, "units are granted again") + said(Level::INFO, "no call lacks");
    assert_eq!(ends, 1, "{:?}", lines.0.lock().unwrap());
    assert_eq!(said(Level::WARN, "fleet:"), 1, "{:?}", lines.0.lock().unwrap());
}
