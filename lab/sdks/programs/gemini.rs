use std::error::Error;

use gemini_rust::{ClientError, Gemini};
use resile::{Never, Verdict, retry};
use resile_llm::{Classifier, Failure};

/// Returns what an error of the SDK means, or `None` for no opinion.
fn failure(error: &ClientError) -> Option<Failure> {
    match error {
        // A refusal: the status and the body.
        ClientError::BadResponse { code, description } => {
            let body = description.as_deref().unwrap_or_default();
            Some(Failure::from_text(*code, body))
        }
        ClientError::PerformRequestNew { source } => {
            Some(Failure::from_transport(source))
        }
        // A good status, but no completion. Or the body broke off.
        ClientError::DecodeResponse { source } => Some(match source.source() {
            Some(fault) if fault.is::<serde_json::Error>() => {
                Failure::invalid_output(fault.to_string())
            }
            _ => Failure::from_transport(source),
        }),
        _ => None,
    }
}

fn classify(llm: &Classifier, error: &ClientError) -> Option<Verdict> {
    Some(llm.verdict(&failure(error)?))
}

/// One attempt.
async fn ask(model: &Gemini, question: &str) -> Result<String, ClientError> {
    let request = model.create_interaction().with_text(question);
    Ok(request.execute().await?.output_text())
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let model = Gemini::new(std::env::var("GEMINI_API_KEY")?)?;
    let question = "It is 8 °C and it rains in Paris. What do I wear?";
    let classifier = Classifier::new().over(classify);
    let policy = resile_llm::interactive().with_classifier(classifier);
    println!("{}", retry(|_| ask(&model, question), policy, Never).await?);
    Ok(())
}
