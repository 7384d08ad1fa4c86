use std::time::{Duration, SystemTime};

use aws_sdk_bedrockruntime::config::http::HttpResponse;
use aws_sdk_bedrockruntime::config::retry::RetryConfig;
use aws_sdk_bedrockruntime::config::{BehaviorVersion, Region, Token};
use aws_sdk_bedrockruntime::error::SdkError;
use aws_sdk_bedrockruntime::types::{
    ContentBlock, ConversationRole, ConverseStreamOutput as Event, Message,
};
use aws_sdk_bedrockruntime::{Client, Config};
use aws_smithy_types::event_stream::RawMessage;
use futures_util::{Stream, TryStreamExt, stream};
use http::{HeaderMap, HeaderName, HeaderValue};
use resile::stream::Part;
use resile::{Never, StreamResilienceExt, retry_stream};
use resile_llm::{Failure, Phase, Reply};

/// Returns what the error of an opening means.
fn refused<E>(error: SdkError<E, HttpResponse>) -> Failure
where
    E: std::error::Error + Send + Sync + 'static,
{
    let Some(answer) = error.raw_response() else {
        return Failure::from_transport(&error).with_source(error);
    };
    let headers = answer.headers().iter().filter_map(|(name, value)| {
        let name: HeaderName = name.parse().ok()?;
        Some((name, HeaderValue::from_str(value).ok()?))
    });
    Reply::new(answer.body().bytes().unwrap_or_default())
        .with_status(answer.status().as_u16())
        .with_headers(&headers.collect::<HeaderMap>())
        .classify(SystemTime::now())
}

/// Returns what the error of a stream means. Its name is a header of the frame.
fn broken<E>(error: SdkError<E, RawMessage>) -> Failure
where
    E: std::error::Error + Send + Sync + 'static,
{
    match error.raw_response() {
        Some(RawMessage::Decoded(frame)) => {
            let name = frame.headers().iter().find(|header| {
                [":exception-type", ":error-code"]
                    .contains(&header.name().as_str())
            });
            let name = name.and_then(|name| name.value().as_string().ok());
            let name = name.map_or("", |name| name.as_str());
            let headers = HeaderValue::from_str(name).into_iter();
            let headers = headers.map(|name| (NAME, name)).collect();
            let reply = Reply::new(frame.payload())
                .with_headers(&headers)
                .with_phase(Phase::Content);
            let is_invalid = name == "validationException";
            let reply = if is_invalid { reply.with_status(400) } else { reply };
            reply.classify(SystemTime::now())
        }
        Some(_) => Failure::truncated(Phase::Content), // half a frame
        None => Failure::from_transport(&error).with_source(error),
    }
}

const NAME: HeaderName = HeaderName::from_static("x-amzn-errortype");

fn part(event: &Event) -> Part {
    match event {
        Event::ContentBlockDelta(_) => Part::Content,
        Event::MessageStop(_) => Part::Complete,
        Event::Metadata(_) => Part::End, // the usage
        _ => Part::Preamble,
    }
}

fn text(event: &Event) -> &str {
    let Event::ContentBlockDelta(event) = event else { return "" };
    let text = event.delta().and_then(|delta| delta.as_text().ok());
    text.map_or("", String::as_str)
}

/// Opens the stream of one answer.
async fn open(
    client: &Client,
    question: &str,
) -> Result<impl Stream<Item = Result<Event, Failure>> + use<>, Failure> {
    let message = Message::builder()
        .role(ConversationRole::User)
        .content(ContentBlock::Text(question.to_owned()))
        .build()
        .map_err(|error| Failure::invalid_output(error.to_string()))?;
    let request = client.converse_stream().messages(message);
    let answer = request.model_id("amazon.nova-lite-v1:0").send().await;
    let events = answer.map_err(refused)?.stream;
    let events = stream::try_unfold(events, |mut events| async {
        let event = events.recv().await.map_err(broken)?;
        Ok(event.map(|event| (event, events)))
    });
    Ok(events.idle_timeout(Duration::from_secs(30)))
}

/// Returns the whole answer. A program shows each word as it comes.
async fn ask(client: &Client, question: &str) -> anyhow::Result<String> {
    let open = |_| open(client, question);
    let words = retry_stream(open, resile_llm::interactive(), Never)
        .with_parts(part)
        .with_required_end()
        .with_whole_timeout(Duration::from_secs(90))
        .try_fold(String::new(), |words, event| async move {
            Ok(words + text(&event))
        });
    Ok(words.await?)
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let key = std::env::var("AWS_BEARER_TOKEN_BEDROCK")?;
    let config = Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("us-east-1"))
        .bearer_token(Token::new(key, None))
        .retry_config(RetryConfig::disabled())
        .build();
    let question = "It is 8 °C and it rains in Paris. What do I wear?";
    println!("{}", ask(&Client::from_conf(config), question).await?);
    Ok(())
}
