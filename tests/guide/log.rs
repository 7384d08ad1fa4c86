//! The lines that a program writes to the log.

use std::cell::RefCell;
use std::fmt::{self, Write as _};
use std::sync::Once;

use tracing::field::{Field, Visit};
use tracing::{Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

thread_local! {
    /// The lines of this thread.
    static LINES: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

struct Capture;

struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            let _ = write!(self.0, "{value:?}");
        }
    }
}

impl<S: Subscriber> Layer<S> for Capture {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        let level = *event.metadata().level();
        if event.metadata().target() == "resile" && level <= Level::WARN {
            let mut line = Message(format!("{level} "));
            event.record(&mut line);
            LINES.with_borrow_mut(|lines| lines.push(line.0));
        }
    }
}

/// Runs `program` and returns its lines at WARN and above, such as `WARN weather: breaker isolated`.
///
/// The subscriber is that of the process, because `tracing` asks only the thread that reaches a call
/// site first.
pub(crate) fn of(program: impl FnOnce()) -> Vec<String> {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let subscriber = tracing_subscriber::registry().with(Capture);
        tracing::subscriber::set_global_default(subscriber).unwrap();
    });
    LINES.take();
    program();
    LINES.take()
}
