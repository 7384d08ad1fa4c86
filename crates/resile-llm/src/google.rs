//! The details of Google's error model: `ErrorInfo`, `QuotaFailure`, `RetryInfo`.

use std::time::{Duration, SystemTime};

use serde_json::Value;

use crate::codes;
use crate::kind::{Kind, Scope};
use crate::rule::Rule;
use crate::statuses::Statuses;
use crate::wait;

/// The facts in the details in the order of their weight.
#[derive(Debug, Default)]
pub(crate) struct Google {
    /// `ErrorInfo.reason`.
    reason: Option<String>,
    /// The longest window among the failed quotas.
    window: Option<Window>,
    /// A quota is zero: the plan does not include it.
    pub(crate) nothing: bool,
    /// The longest wait in the details.
    pub(crate) wait: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Window {
    Minute,
    Hour,
    Day,
    Month,
}

impl Google {
    pub(crate) fn details(&mut self, details: &[Value], now: SystemTime) {
        for detail in details.iter().take(32) {
            let Some(detail) = detail.as_object() else { continue };
            let reason = detail.get("reason").and_then(Value::as_str);
            let is_info = match detail.get("@type") {
                Some(kind) => kind.as_str().is_some_and(|kind| kind.ends_with("ErrorInfo")),
                // A gateway may drop the type. The letters are Google's.
                None => !reason.is_some_and(|reason| reason.contains(char::is_lowercase)),
            };
            let metadata = detail.get("metadata").and_then(Value::as_object);
            for (name, value) in detail.iter().chain(metadata.into_iter().flatten()) {
                self.wait = self.wait.max(wait::field(name, value, now));
                if let (Value::String(text), "quota_limit" | "quotaId") = (value, name.as_str()) {
                    self.note("quotaId", text);
                }
            }
            if let Some(reason) = reason.filter(|_| is_info) {
                self.reason = Some(reason.to_owned());
            }
            for violation in
                detail.get("violations").and_then(Value::as_array).into_iter().flatten().take(32)
            {
                let text =
                    |name: &str| violation.get(name).and_then(Value::as_str).unwrap_or_default();
                self.note("quotaId", text("quotaId"));
                self.nothing |= text("quotaValue") == "0";
            }
        }
    }

    /// Records one field of a detail.
    pub(crate) fn note(&mut self, name: &str, value: &str) {
        match name {
            "reason" => self.reason = Some(value.to_owned()),
            _ => self.window = self.window.max(window(value)),
        }
    }

    /// Returns the conclusion from the details alone if they allow one.
    pub(crate) fn classify(&self, status: Statuses) -> Option<(Kind, Option<Scope>, Rule)> {
        let scope = self.window.map(|window| match window {
            Window::Minute => Scope::Minute,
            Window::Hour | Window::Month => Scope::Window,
            Window::Day => Scope::Day,
        });
        if let Some(said) = self.reason.as_deref().and_then(|reason| codes::look_up(reason, status))
        {
            // If the reason says only "a limit", the quotas decide which limit it was.
            if said.kind != Kind::RateLimit || self.window <= Some(Window::Minute) {
                return Some((said.kind, said.scope.or(scope), said.rule));
            }
        }
        match self.window {
            Some(Window::Day | Window::Month) => {
                Some((Kind::QuotaExhausted, scope, Rule::Google("quota per day")))
            }
            _ if self.nothing => Some((Kind::QuotaExhausted, scope, Rule::Google("quota of zero"))),
            Some(_) => Some((Kind::RateLimit, scope, Rule::Google("quota per minute"))),
            None => None,
        }
    }
}

/// Returns the window in the name of a quota: `GenerateRequestsPerDayPerProjectPerModel-FreeTier`.
fn window(quota: &str) -> Option<Window> {
    let quota: String =
        quota.chars().filter(char::is_ascii_alphabetic).map(|c| c.to_ascii_lowercase()).collect();
    let windows = [
        ("permonth", Window::Month),
        ("perday", Window::Day),
        ("perhour", Window::Hour),
        ("perminute", Window::Minute),
    ];
    windows.iter().find(|(name, _)| quota.contains(name)).map(|(_, window)| *window)
}
