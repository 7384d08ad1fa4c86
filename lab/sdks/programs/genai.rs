use std::time::SystemTime;

use genai::chat::{ChatOptions, ChatRequest};
use genai::{Client, Error, webc};
use resile::{Never, Verdict, retry};
use resile_llm::{Classifier, Failure, Reply};

/// Returns what an error of the SDK means, or `None` for no opinion.
fn failure(error: &Error) -> Option<Failure> {
    let now = SystemTime::now();
    let good = |body: &str| {
        let inside = Reply::new(body.as_bytes()).with_status(200).find(now);
        let odd = || Failure::invalid_output("no completion");
        Some(inside.unwrap_or_else(odd))
    };
    match error {
        Error::WebModelCall { webc_error, .. }
        | Error::WebAdapterCall { webc_error, .. } => match webc_error {
            webc::Error::ResponseFailedStatus { status, headers, body } => {
                let reply = Reply::new(body.as_bytes())
                    .with_status(status.as_u16())
                    .with_headers(headers);
                Some(reply.classify(now))
            }
            webc::Error::ResponseFailedNotJson { body, .. }
            | webc::Error::ResponseFailedInvalidJson { body, .. } => good(body),
            webc::Error::Reqwest(error) => Some(Failure::from_transport(error)),
            webc::Error::JsonValueExt(_) => None,
        },
        // A good status, but no completion. The body is there because of
        // `with_capture_raw_body`.
        Error::ChatResponseGeneration { response_body: body, .. }
            if body.is_object() =>
        {
            good(&body.to_string())
        }
        Error::ChatResponse { body, .. } => good(&body.to_string()),
        Error::NoChatResponse { .. } => good("{}"),
        Error::WebStream { error, .. } => Failure::find_in_error(&**error),
        _ => None,
    }
}

fn classify(llm: &Classifier, error: &Error) -> Option<Verdict> {
    Some(llm.verdict(&failure(error)?))
}

/// One attempt.
async fn ask(client: &Client, question: &str) -> Result<String, Error> {
    let request = ChatRequest::from_user(question);
    let options = ChatOptions::default().with_capture_raw_body(true);
    let mut answer =
        client.exec_chat("gpt-4o-mini", request, Some(&options)).await?;
    let model_iden = answer.model_iden.clone();
    // The SDK reads an error inside a good answer as an empty answer.
    if let Some(body) = answer.captured_raw_body.take() {
        let bytes = body.to_string().into_bytes();
        let reply = Reply::new(&bytes).with_status(200);
        if reply.find(SystemTime::now()).is_some() {
            return Err(Error::ChatResponse { model_iden, body });
        }
    }
    answer.into_first_text().ok_or(Error::NoChatResponse { model_iden })
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let http =
        reqwest::Client::builder().retry(reqwest::retry::never()).build()?;
    let client = Client::builder().with_reqwest(http).build()?;
    let question = "It is 8 °C and it rains in Paris. What do I wear?";
    let classifier = Classifier::new().over(classify);
    let policy = resile_llm::interactive().with_classifier(classifier);
    println!("{}", retry(|_| ask(&client, question), policy, Never).await?);
    Ok(())
}
