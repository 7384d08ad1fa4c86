use std::error::Error;

use resile::{Never, StopReason, Verdict, retry};
use resile_llm::Classifier;

/// The last resort: the words of the error.
fn classify(
    llm: &Classifier,
    error: &Box<dyn Error + Send + Sync>,
) -> Option<Verdict> {
    llm.classify_dyn(&**error)
}

/// One attempt. The library keeps nothing of the answer but its words.
async fn ask() -> Result<&'static str, Box<dyn Error + Send + Sync>> {
    Err(r#"429 Too Many Requests: {"error":{"code":"insufficient_quota"}}"#)?
}

#[tokio::main]
async fn main() {
    let classifier = Classifier::new().with_text().over(classify);
    let policy = resile_llm::interactive().with_classifier(classifier);
    let gave_up = retry(|_| ask(), policy, Never).await.unwrap_err();
    assert_eq!(gave_up.reason(), StopReason::Fatal); // this 429 does not pass
}
