use std::time::SystemTime;

use resile::{Never, Verdict, retry};
use resile_llm::{Classifier, Failure, Phase, Reply};
use rig_core::completion::CompletionRequest;
use rig_core::error::ProviderError;
use rig_core::http_client;
use rig_core::providers::openai::OpenAI;

/// Returns what an error of the SDK means, or `None` for no opinion.
fn failure(error: &ProviderError) -> Option<Failure> {
    match error {
        ProviderError::ProviderResponse(refusal)
        | ProviderError::InvalidAuthentication(refusal) => {
            let mut reply = Reply::new(refusal.body.as_bytes());
            if let Some(status) = refusal.status {
                reply = reply.with_status(status.as_u16());
            }
            if let Some(headers) = &refusal.headers {
                reply = reply.with_headers(headers);
            }
            Some(reply.classify(SystemTime::now()))
        }
        ProviderError::Http(error) => match &**error {
            http_client::Error::Instance(error) => {
                Failure::find_in_error(&**error)
            }
            _ => None,
        },
        ProviderError::Json(fault) => {
            Some(Failure::invalid_output(fault.to_string()))
        }
        ProviderError::Truncated => Some(Failure::truncated(Phase::Content)),
        _ => None,
    }
}

fn classify(llm: &Classifier, error: &ProviderError) -> Option<Verdict> {
    Some(llm.verdict(&failure(error)?))
}

/// One attempt.
async fn ask(model: &OpenAI, question: &str) -> Result<String, ProviderError> {
    let request = CompletionRequest::new(question);
    Ok(model.chat("gpt-4o-mini").call(request).await?.text())
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let model = OpenAI::from_env()?;
    let question = "It is 8 °C and it rains in Paris. What do I wear?";
    let classifier = Classifier::new().over(classify);
    let policy = resile_llm::interactive().with_classifier(classifier);
    println!("{}", retry(|_| ask(&model, question), policy, Never).await?);
    Ok(())
}
