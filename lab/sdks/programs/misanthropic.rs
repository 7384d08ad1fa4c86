use std::error::Error as _;
use std::num::NonZero;
use std::time::SystemTime;

use misanthropic::client::Error;
use misanthropic::prompt::message::Role;
use misanthropic::{Client, Id, Prompt};
use resile::{Never, Verdict, retry};
use resile_llm::{Classifier, Failure, Reply};
use serde_json::json;

/// Returns what an error of the SDK means, or `None` for no opinion.
fn failure(error: &Error) -> Option<Failure> {
    match error {
        // A refusal, or an error in a stream: its type, words and hint.
        Error::Anthropic(error) => {
            let body = json!({ "error": error }).to_string();
            let reply = Reply::new(body.as_bytes());
            let status = error.status().map(NonZero::get);
            let reply = status.map_or(reply, |it| reply.with_status(it));
            Some(reply.classify(SystemTime::now()))
        }
        // The page of a proxy.
        Error::NonJsonResponse { status, body } => {
            Some(Failure::from_text(*status, body))
        }
        Error::HTTP(error) => Some(match error.source() {
            Some(fault) if fault.is::<serde_json::Error>() => {
                Failure::invalid_output(fault.to_string())
            }
            _ => Failure::from_transport(error),
        }),
        // A good status, but no completion.
        Error::Parse(fault) => Some(Failure::invalid_output(fault.to_string())),
        Error::UnexpectedResponse { .. } => None,
    }
}

fn classify(llm: &Classifier, error: &Error) -> Option<Verdict> {
    Some(llm.verdict(&failure(error)?))
}

/// One attempt.
async fn ask(client: &Client, prompt: &Prompt) -> Result<String, Error> {
    Ok(client.message(prompt).await?.inner.content.to_string())
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let client = Client::new(std::env::var("ANTHROPIC_API_KEY")?)?;
    let question = "It is 8 °C and it rains in Paris. What do I wear?";
    let prompt = Prompt::default()
        .model(Id::Sonnet46)
        .add_message((Role::User, question))?;
    let classifier = Classifier::new().over(classify);
    let policy = resile_llm::interactive().with_classifier(classifier);
    println!("{}", retry(|_| ask(&client, &prompt), policy, Never).await?);
    Ok(())
}
