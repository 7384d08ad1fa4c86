use std::error::Error;
use std::time::SystemTime;

use http::header::{HeaderMap, RETRY_AFTER};
use resile::{GaveUp, Never, Verdict, retry};
use resile_llm::{Classifier, Failure, Reply};
use rmcp::ServiceExt;
use rmcp::service::ClientInitializeError;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpError;

type HttpError = StreamableHttpError<reqwest::Error>;

/// Returns what an error of the SDK means, or `None` for no opinion.
fn failure(error: &anyhow::Error) -> Option<Failure> {
    let error: &(dyn Error + 'static) = match error.downcast_ref() {
        Some(ClientInitializeError::TransportError { error, .. }) => {
            &*error.error
        }
        _ => error.as_ref(),
    };
    let mut chain =
        std::iter::successors(Some(error), |error| (*error).source());
    match chain.find_map(|error| error.downcast_ref::<HttpError>()) {
        // A 429 or a 5xx, with its hint and without its body.
        Some(HttpError::HttpStatus(refusal)) => {
            let hint = refusal
                .retry_after
                .as_deref()
                .and_then(|hint| hint.parse().ok());
            let headers: HeaderMap =
                hint.map(|hint| (RETRY_AFTER, hint)).into_iter().collect();
            let reply = Reply::new(b"")
                .with_status(refusal.status)
                .with_headers(&headers);
            Some(reply.classify(SystemTime::now()))
        }
        Some(HttpError::Client(error)) => Some(Failure::from_transport(error)),
        Some(HttpError::AuthRequired(_)) => Some(Failure::from_text(401, "")),
        Some(HttpError::InsufficientScope(_)) => {
            Some(Failure::from_text(403, ""))
        }
        _ => Failure::find_in_error(error),
    }
}

fn classify(llm: &Classifier, error: &anyhow::Error) -> Option<Verdict> {
    Some(llm.verdict(&failure(error)?))
}

/// One attempt: connects to the server and asks for the names of its tools.
async fn tools(url: &str) -> anyhow::Result<Vec<String>> {
    let server = ().serve(StreamableHttpClientTransport::from_uri(url)).await?;
    let tools = server.list_all_tools().await?;
    Ok(tools.into_iter().map(|tool| tool.name.into_owned()).collect())
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let url = std::env::var("MCP_URL")?;
    let classifier = Classifier::new().over(classify);
    let policy = resile_llm::interactive().with_classifier(classifier);
    let tools = retry(|_| tools(&url), policy, Never).await;
    println!("{:?}", tools.map_err(GaveUp::into_boxed)?);
    Ok(())
}
