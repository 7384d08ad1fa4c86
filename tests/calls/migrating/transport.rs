use resile::http::{Classifier, Failure, error_for_status};
use resile::{Classify, Verdict};

#[derive(Debug, thiserror::Error)]
enum ApiError {
    #[error(transparent)]
    Refused(#[from] Failure),
    #[error(transparent)]
    Transport(#[from] reqwest::Error),
    #[error("no answer in time")]
    Timeout,
}

fn judge(http: &Classifier, error: &ApiError) -> Option<Verdict> {
    match error {
        ApiError::Refused(failure) => http.classify(failure),
        ApiError::Transport(error) => http.classify(error),
        ApiError::Timeout => None,
    }
}

async fn fetch(http: &reqwest::Client, url: &str) -> Result<String, ApiError> {
    let answer = error_for_status(http.get(url).send().await?).await?;
    Ok(answer.text().await?)
}
