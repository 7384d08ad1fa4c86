use std::cell::{Cell, RefCell};

use super::{Limits, Usage};

thread_local! {
    /// The report of the attempt that this thread is polling, or `None` outside of such a poll.
    static REPORT: Cell<Option<Report>> = const { Cell::new(None) };
    /// The reports of the attempts around that attempt. The outermost is first.
    static OUTER: RefCell<Vec<Report>> = const { RefCell::new(Vec::new()) };
}

/// The usage and the limits that an attempt reported during a poll.
#[derive(Clone, Copy, Default)]
pub(crate) struct Report {
    pub(crate) usage: Option<Usage>,
    pub(crate) limits: Option<Limits>,
}

/// Records the usage of the current attempt. Its quota then charges this usage in place of the
/// estimate.
///
/// Call this within the future of an operation, in a call on an upstream with a quota. Outside of
/// such a future it returns false and records nothing. The current attempt is the innermost one of
/// such a call that this thread is polling, so a task that the operation has spawned has none.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), resile::GaveUp<std::io::Error>> {
/// use resile::quota::{self, Rate, Usage};
/// use resile::{Never, Quota, RetryPolicy, Upstream, retry};
///
/// static MODEL: Upstream =
///     Upstream::new("model").with_quota(Quota::new().with_tokens(Rate::per_minute(10_000)));
///
/// async fn ask() -> std::io::Result<&'static str> {
///     // … send the request and read the answer
///     quota::record(Usage::new().with_input(1_200).with_output(350));
///     Ok("answer")
/// }
/// retry(|_| ask(), RetryPolicy::new(), Never).on(&MODEL).await?;
/// assert_eq!(MODEL.quota_level(quota::Dimension::Tokens), Some(8_450));
/// # Ok(())
/// # }
/// ```
#[allow(clippy::must_use_candidate)] // most callers need no answer
pub fn record(usage: Usage) -> bool {
    change(|report| report.usage = Some(report.usage.unwrap_or_default().merged(usage)))
}

/// Passes the limits that the provider reported to the quota of the current attempt.
///
/// The quota lowers its level to the reported one and compares its limit with the reported one. See
/// the [module](super#learning). Returns false outside of an attempt, as [`record`] does.
#[allow(clippy::must_use_candidate)] // most callers need no answer
pub fn learn(limits: Limits) -> bool {
    change(|report| report.limits = Some(limits))
}

fn change(change: impl FnOnce(&mut Report)) -> bool {
    let changed = REPORT.try_with(|current| {
        let Some(mut report) = current.get() else { return false };
        change(&mut report);
        current.set(Some(report));
        true
    });
    changed.unwrap_or(false)
}

/// A guard that collects the report of an attempt while the attempt is polled.
pub(crate) struct Collecting(());

impl Collecting {
    #[inline(never)] // compiled once for all call sites
    pub(crate) fn start() -> Self {
        let outer = REPORT.replace(Some(Report::default()));
        if let Some(outer) = outer {
            let _ = OUTER.try_with(|all| all.borrow_mut().push(outer));
        }
        Self(())
    }

    /// Returns the report of this poll if there is one.
    #[inline(never)]
    #[expect(clippy::unused_self, reason = "a report exists only while one collects")]
    pub(crate) fn report(&self) -> Option<Report> {
        let report = REPORT.get()?;
        (report.usage.is_some() || report.limits.is_some()).then_some(report)
    }
}

impl Drop for Collecting {
    #[inline(never)]
    fn drop(&mut self) {
        REPORT.set(OUTER.try_with(|all| all.borrow_mut().pop()).ok().flatten());
    }
}
