//! Trap 12: a stream that breaks after its first content.

use std::future::{poll_fn, ready};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};

use futures_core::Stream;
use resile::{Backoff, Never, RetryPolicy, retry_stream};

use super::Section;
use crate::job::Fault;

/// A stream of the items in order.
struct Items(std::vec::IntoIter<Result<u64, Fault>>);

impl Stream for Items {
    type Item = Result<u64, Fault>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Ready(self.0.next())
    }
}

pub async fn seen() -> Section {
    let (before, after) =
        (reported(vec![Err(Fault::Failed)]).await, reported(vec![Ok(1), Err(Fault::Failed)]).await);
    Section {
        title: "12. A stream that breaks",
        tried: "One stream breaks before its first item, and another breaks after it. A second attempt would yield 1 and 2.",
        columns: &["before: the consumer sees", "after: the consumer sees"],
        rows: vec![
            ("**resile**, `retry_stream`", vec![before, after]),
            ("the others (failsafe guards streams, and does not retry)", vec!["n/a".to_owned(); 2]),
        ],
    }
}

async fn reported(first: Vec<Result<u64, Fault>>) -> String {
    let opened = AtomicU32::new(0);
    let open = |_| {
        let again = opened.fetch_add(1, Ordering::Relaxed) > 0;
        let items = if again { vec![Ok(1), Ok(2)] } else { first.clone() };
        ready(Ok::<_, Fault>(Items(items.into_iter())))
    };
    let policy = RetryPolicy::new().with_backoff(Backoff::none());
    let mut stream = pin!(retry_stream(open, &policy, Never));
    let mut seen = Vec::new();
    while let Some(item) = poll_fn(|cx| stream.as_mut().poll_next(cx)).await {
        seen.push(
            item.map_or_else(
                |e| format!("`StopReason::{:?}`", e.reason()),
                |item| item.to_string(),
            ),
        );
    }
    format!("{}; times opened: {}", seen.join(", "), opened.load(Ordering::Relaxed))
}
