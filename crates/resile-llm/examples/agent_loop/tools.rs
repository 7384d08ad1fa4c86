//! The tools of the agent. They read a library, write a slow report, measure with a busy sensor,
//! and send a mail that must not be sent twice.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::agent::{Spec, Tool, ToolError};

/// Returns all tools except `done`, as the loop itself has that tool. `library` is the URL for
/// `lookup`.
///
/// # Errors
///
/// Returns an error if the client cannot be built.
pub(crate) fn all(library: String) -> Result<Vec<Box<dyn Tool>>, reqwest::Error> {
    let client = reqwest::Client::builder().no_proxy().retry(reqwest::retry::never()).build()?;
    Ok(vec![
        Box::new(Lookup { client, library }),
        Box::new(Slow),
        Box::new(Flaky { asked: AtomicU32::new(0) }),
        Box::new(SendMail { sent: AtomicU32::new(0) }),
    ])
}

/// Parses the arguments of a tool. The type of the arguments is their schema.
fn read<T: DeserializeOwned>(arguments: &Value) -> Result<T, String> {
    T::deserialize(arguments).map_err(|error| error.to_string())
}

/// Parses the arguments of a tool that runs. An error is permanent.
fn parse<T: DeserializeOwned>(arguments: &Value) -> Result<T, ToolError> {
    read(arguments).map_err(ToolError::Permanent)
}

/// Returns the JSON schema of an object that requires all these properties.
fn schema(properties: &Value) -> Value {
    let required: Vec<_> =
        properties.as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect();
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

/// A tool that reads the library over HTTP.
struct Lookup {
    client: reqwest::Client,
    library: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Topic {
    topic: String,
}

impl Lookup {
    async fn read(&self, topic: &str) -> Result<String, ToolError> {
        let broke = |error: reqwest::Error| ToolError::Transient(error.without_url().to_string());
        let mut url = reqwest::Url::parse(&self.library)
            .map_err(|error| ToolError::Permanent(error.to_string()))?;
        url.query_pairs_mut().append_pair("topic", topic);
        let answer = self.client.get(url).send().await.map_err(broke)?;
        let status = answer.status();
        let text = answer.text().await.map_err(broke)?;
        if status.is_success() {
            Ok(text)
        } else if text.contains("captcha") {
            Err(ToolError::Permanent("the page asks for a captcha".to_owned()))
        } else if status.is_server_error() {
            Err(ToolError::Transient(format!("the library answered {status}")))
        } else {
            Err(ToolError::Permanent(format!("the library answered {status}")))
        }
    }
}

impl Tool for Lookup {
    fn spec(&self) -> Spec {
        let parameters = schema(&json!({ "topic": { "type": "string" } }));
        Spec { name: "lookup", about: "Reads the entry of the library on a topic.", parameters }
    }

    fn is_idempotent(&self) -> bool {
        true
    }

    fn check(&self, arguments: &Value) -> Result<(), String> {
        read::<Topic>(arguments).map(|_| ())
    }

    fn run<'a>(
        &'a self,
        arguments: Value,
        _: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<String, ToolError>> {
        async move { self.read(&parse::<Topic>(&arguments)?.topic).await }.boxed()
    }
}

/// A tool that takes as long as its arguments say.
struct Slow;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Seconds {
    seconds: u8,
}

impl Tool for Slow {
    fn spec(&self) -> Spec {
        let parameters =
            schema(&json!({ "seconds": { "type": "integer", "minimum": 0, "maximum": 255 } }));
        Spec { name: "slow_report", about: "Writes a report in this many seconds.", parameters }
    }

    fn check(&self, arguments: &Value) -> Result<(), String> {
        read::<Seconds>(arguments).map(|_| ())
    }

    fn run<'a>(
        &'a self,
        arguments: Value,
        token: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<String, ToolError>> {
        async move {
            let Seconds { seconds } = parse(&arguments)?;
            let written = tokio::time::sleep(Duration::from_secs(seconds.into()));
            // After a stop, the tool cleans up and returns. The loop drops the result.
            if token.run_until_cancelled(written).await.is_none() {
                return Ok("The beginning of a report is written.".to_owned());
            }
            Ok(format!("A report of {seconds} s is written."))
        }
        .boxed()
    }
}

/// A tool that is busy two times out of three. A second measurement does no harm.
struct Flaky {
    asked: AtomicU32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Room {
    room: String,
}

impl Tool for Flaky {
    fn spec(&self) -> Spec {
        let parameters = schema(&json!({ "room": { "type": "string" } }));
        Spec { name: "flaky_sensor", about: "Measures the temperature of a room.", parameters }
    }

    fn is_idempotent(&self) -> bool {
        true
    }

    fn check(&self, arguments: &Value) -> Result<(), String> {
        read::<Room>(arguments).map(|_| ())
    }

    fn run<'a>(
        &'a self,
        arguments: Value,
        _: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<String, ToolError>> {
        async move {
            let Room { room } = parse(&arguments)?;
            match self.asked.fetch_add(1, Ordering::Relaxed) % 3 {
                2 => Ok(format!("It is 21 degrees in the {room}.")),
                _ => Err(ToolError::Transient("the sensor is busy".to_owned())),
            }
        }
        .boxed()
    }
}

/// A tool that loses the connection on its first run. The mail may have been sent by then, so the
/// loop does not run this tool again.
struct SendMail {
    sent: AtomicU32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Mail {
    to: String,
    text: String,
}

impl Tool for SendMail {
    fn spec(&self) -> Spec {
        let parameters =
            schema(&json!({ "to": { "type": "string" }, "text": { "type": "string" } }));
        Spec { name: "send_mail", about: "Sends a mail.", parameters }
    }

    fn check(&self, arguments: &Value) -> Result<(), String> {
        read::<Mail>(arguments).map(|_| ())
    }

    fn run<'a>(
        &'a self,
        arguments: Value,
        _: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<String, ToolError>> {
        async move {
            let Mail { to, text } = parse(&arguments)?;
            match self.sent.fetch_add(1, Ordering::Relaxed) {
                0 => Err(ToolError::Transient(
                    "the connection broke after the mail was sent".to_owned(),
                )),
                _ => Ok(format!("Sent {} letters to {to}.", text.len())),
            }
        }
        .boxed()
    }
}
