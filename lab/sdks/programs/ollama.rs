use std::time::SystemTime;

use ollama_rs::Ollama;
use ollama_rs::error::OllamaError;
use ollama_rs::generation::chat::ChatMessage;
use ollama_rs::generation::chat::request::ChatMessageRequest;
use resile::{Never, Verdict, retry};
use resile_llm::{Classifier, Failure, Phase, Reply};
use serde_json::json;

/// Returns what an error of the SDK means, or `None` for no opinion.
fn failure(error: &OllamaError) -> Option<Failure> {
    match error {
        OllamaError::ReqwestError(error) => {
            Some(Failure::from_transport(error))
        }
        // A refusal: the body, without the status.
        OllamaError::Other(body) => {
            let reply = Reply::new(body.as_bytes());
            Some(reply.classify(SystemTime::now()))
        }
        // An error in a stream.
        OllamaError::InternalError(error) => {
            let event = json!({ "error": error.message }).to_string();
            Some(Failure::from_event(&event, Phase::Content))
        }
        // A good status, but no completion.
        OllamaError::JsonError(fault) => {
            Some(Failure::invalid_output(fault.to_string()))
        }
        OllamaError::ToolCallError(_) => None,
    }
}

fn classify(llm: &Classifier, error: &OllamaError) -> Option<Verdict> {
    Some(llm.verdict(&failure(error)?))
}

/// One attempt.
async fn ask(model: &Ollama, question: &str) -> Result<String, OllamaError> {
    let message = ChatMessage::user(question.to_owned());
    let request = ChatMessageRequest::new("qwen3".to_owned(), vec![message]);
    Ok(model.send_chat_messages(request).await?.message.content)
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let model = Ollama::default(); // http://127.0.0.1:11434
    let question = "It is 8 °C and it rains in Paris. What do I wear?";
    let classifier = Classifier::new().over(classify);
    let policy = resile_llm::interactive().with_classifier(classifier);
    println!("{}", retry(|_| ask(&model, question), policy, Never).await?);
    Ok(())
}
