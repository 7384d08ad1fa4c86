//! The command line and the environment. Each error is one line.

use std::ffi::OsString;
use std::str::FromStr;
use std::time::Duration;

use lexopt::prelude::*;
use resile::Backoff;
use resile_llm::{self as llm, Classifier};

use crate::model::{Limits, Settings};

pub(crate) const HELP: &str = "\
Runs an agent loop over HTTP with a provider that fails in many ways.

usage: agent_loop [options]
  --scenario NAME     calm, stormy (default), captcha, outage, quota, runaway
                      or stop
  --task TEXT         the task of the agent
  --max-steps N       the most calls to the model (40)
  --seed N            shuffles the faults of `stormy`; 0 keeps their order (0)
  --json              prints events, one JSON object per line
  --server-only PORT  runs only the provider, for other clients, until Ctrl-C

environment:
  OPENAI_BASE_URL     another provider than the built-in one
  OPENAI_API_KEY, OPENAI_MODEL
  OPENAI_FALLBACK_MODEL
                      the model to ask while the first one is down
  LLM_MAX_RETRIES     the most retries of a call
  LLM_RETRY_DELAY_MS  the first delay of the backoff
  LLM_TIMEOUT_MS      the time limit of one attempt

exit code: 0 completed with success, 1 completed without, 2 usage, 3 error,
130 stopped";

/// A script of the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scenario {
    Calm,
    Stormy,
    Captcha,
    Outage,
    Quota,
    Runaway,
    Stop,
}

impl FromStr for Scenario {
    type Err = &'static str;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Ok(match name {
            "calm" => Self::Calm,
            "stormy" => Self::Stormy,
            "captcha" => Self::Captcha,
            "outage" => Self::Outage,
            "quota" => Self::Quota,
            "runaway" => Self::Runaway,
            "stop" => Self::Stop,
            _ => return Err("calm, stormy, captcha, outage, quota, runaway or stop"),
        })
    }
}

/// The arguments of the command line.
pub(crate) struct Options {
    pub(crate) scenario: Scenario,
    pub(crate) task: String,
    pub(crate) max_steps: u32,
    pub(crate) seed: u64,
    pub(crate) json: bool,
    pub(crate) server_only: Option<u16>,
    pub(crate) help: bool,
}

impl Options {
    /// Parses the arguments.
    ///
    /// # Errors
    ///
    /// Returns the error in one line.
    pub(crate) fn read(arguments: impl IntoIterator<Item = OsString>) -> Result<Self, String> {
        let mut options = Self {
            scenario: Scenario::Stormy,
            task: "Find out what resile means, and mail it to ada.".to_owned(),
            max_steps: 40,
            seed: 0,
            json: false,
            server_only: None,
            help: false,
        };
        let mut parser = lexopt::Parser::from_args(arguments);
        let words = |error: lexopt::Error| error.to_string();
        while let Some(argument) = parser.next().map_err(words)? {
            let Long(name) = argument else {
                if argument == Short('h') {
                    options.help = true;
                    continue;
                }
                return Err(argument.unexpected().to_string());
            };
            let name = name.to_owned();
            let mut value = || -> Result<String, String> {
                parser
                    .value()
                    .map_err(words)?
                    .into_string()
                    .map_err(|_| format!("--{name}: the value is not UTF-8"))
            };
            match name.as_str() {
                "scenario" => {
                    let value = value()?;
                    options.scenario =
                        value.parse().map_err(|known| bad("--scenario", known, &value))?;
                }
                "task" => {
                    options.task = value()?;
                    if options.task.trim().is_empty() {
                        return Err("--task: the task is empty".to_owned());
                    }
                }
                "max-steps" => options.max_steps = number("--max-steps", &value()?, 1)?,
                "seed" => options.seed = number("--seed", &value()?, 0)?,
                "server-only" => options.server_only = Some(number("--server-only", &value()?, 0)?),
                "json" => options.json = true,
                "help" => options.help = true,
                _ => return Err(format!("invalid option '--{name}'")),
            }
        }
        Ok(options)
    }
}

/// Returns the model and its fallback from the environment. `embedded` is the URL of the built-in
/// provider, for an environment that names none.
///
/// # Errors
///
/// Returns the error in one line.
pub(crate) fn models(embedded: &str) -> Result<(Settings, Option<Settings>), String> {
    let base_url = variable("OPENAI_BASE_URL")?;
    if let Some(url) = &base_url {
        let known = reqwest::Url::parse(url)
            .is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
        if !known {
            return Err(bad("OPENAI_BASE_URL", "a URL that begins with http:// or https://", url));
        }
    }
    let key = variable("OPENAI_API_KEY")?;
    if key.as_ref().is_some_and(|key| !key.bytes().all(|byte| byte.is_ascii_graphic())) {
        return Err(
            "OPENAI_API_KEY: the key contains a space, a control character or a non-ASCII character"
                .to_owned(),
        );
    }
    let millis = |name: &str, least: u8| -> Result<Option<Duration>, String> {
        variable(name)?
            .map(|value| number(name, &value, least).map(Duration::from_millis))
            .transpose()
    };
    let retries = variable("LLM_MAX_RETRIES")?
        .map(|value| number::<u32>("LLM_MAX_RETRIES", &value, 0))
        .transpose()?;
    let is_loopback = base_url.is_none();
    let mut policy = llm::interactive();
    // The embedded provider gets short limits, so that the example is quick.
    let seconds = Duration::from_secs;
    let (mut first, mut limits) = if is_loopback {
        policy = policy.with_classifier(Classifier::new().with_overload_floor(seconds(1)));
        (seconds(1), Limits { attempt: seconds(2), idle: seconds(1), total: seconds(60) })
    } else {
        (seconds(60), Limits { attempt: seconds(120), idle: seconds(60), total: seconds(600) })
    };
    if let Some(retries) = retries {
        policy = policy.with_attempts(retries.saturating_add(1));
    }
    if let Some(delay) = millis("LLM_RETRY_DELAY_MS", 0)? {
        policy = policy.with_backoff(Backoff::exponential(delay).with_cap(seconds(8).max(delay)));
    }
    if let Some(attempt) = millis("LLM_TIMEOUT_MS", 1)? {
        limits.attempt = attempt;
        (first, limits.idle) = (first.min(attempt), limits.idle.min(attempt));
        limits.total = limits.total.max(attempt);
    }
    let policy = policy.with_attempt_timeout(first);
    let default = if is_loopback { "scripted" } else { "gpt-4o-mini" };
    let model = variable("OPENAI_MODEL")?.unwrap_or_else(|| default.to_owned());
    let base_url = base_url.unwrap_or_else(|| format!("{embedded}/v1"));
    let settings = Settings { base_url, key, model, policy, limits, is_loopback };
    let other =
        variable("OPENAI_FALLBACK_MODEL")?.map(|model| Settings { model, ..settings.clone() });
    Ok((settings, other))
}

/// Returns the value of a variable that is set and not empty.
fn variable(name: &str) -> Result<Option<String>, String> {
    match std::env::var(name) {
        Ok(value) => Ok(Some(value).filter(|value| !value.is_empty())),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(std::env::VarError::NotUnicode(_)) => Err(format!("{name}: the value is not UTF-8")),
    }
}

/// Parses a whole number of at least `least`.
fn number<T: FromStr + PartialOrd + From<u8>>(
    name: &str,
    value: &str,
    least: u8,
) -> Result<T, String> {
    let number = value.parse().ok().filter(|number| *number >= T::from(least));
    number.ok_or_else(|| {
        bad(name, &format!("a whole number from {least} up that fits its range"), value)
    })
}

/// Returns the message for a wrong value.
fn bad(name: &str, expected: &str, value: &str) -> String {
    format!("{name}: expected {expected}, not {value:?}")
}
