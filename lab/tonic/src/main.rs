//! A channel of `tonic` with retries. The request is a stream of messages, so it is kept while it is sent:
//! the server fails after the first message, and the second attempt sends all of them again.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, BufMut};
use resile_tower::BoxError;
use resile_tower::resile::{Budget, RetryPolicy, Upstream};
use resile_tower::resile_clients::Idempotency::Idempotent;
use resile_tower::tonic_0_14::RetryChannel;
use tokio_stream::{Stream, StreamExt};
use tonic::body::Body;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::server::{NamedService, StreamingService};
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Server};
use tonic::{Request, Response, Status, Streaming};

static WEATHER: Upstream = Upstream::new("weather").with_budget(Budget::new());

const POLICY: RetryPolicy = RetryPolicy::new().with_total_timeout(Duration::from_secs(10));

const PATH: &str = "/weather.Weather/Watch";

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let incoming = TcpIncoming::bind("127.0.0.1:0".parse()?)?;
    let url = format!("http://{}", incoming.local_addr()?);
    let server = Server::builder().add_service(Weather).serve_with_incoming(incoming);
    let server = tokio::spawn(server);

    let channel = Channel::from_shared(url)?.connect_lazy();
    let channel = RetryChannel::new(channel, POLICY, Idempotent).on(&WEATHER);
    let mut client = tonic::client::Grpc::new(channel);
    client.ready().await.map_err(BoxError::from)?;

    let cities = tokio_stream::iter(["Paris", "Oslo", "Quito"].map(str::to_owned));
    let path = http::uri::PathAndQuery::from_static(PATH);
    let answer = client.streaming(Request::new(cities), path, Text).await?;
    let mut answers = answer.into_inner();
    let mut count = 0;
    while let Some(answer) = answers.message().await? {
        println!("{answer}");
        count += 1;
    }
    server.abort();
    if count == 3 && CALLS.load(Relaxed) == 2 {
        Ok(())
    } else {
        Err("three answers should have come from the second attempt".into())
    }
}

static CALLS: AtomicU32 = AtomicU32::new(0);

/// The server: it is unavailable once.
#[derive(Clone, Copy)]
struct Weather;

impl NamedService for Weather {
    const NAME: &'static str = "weather.Weather";
}

type Answers = Pin<Box<dyn Stream<Item = Result<String, Status>> + Send>>;
type BoxFuture<T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send>>;

impl StreamingService<String> for Weather {
    type Response = String;
    type ResponseStream = Answers;
    type Future = BoxFuture<Response<Answers>, Status>;

    fn call(&mut self, request: Request<Streaming<String>>) -> Self::Future {
        Box::pin(async move {
            let mut cities = request.into_inner();
            if CALLS.fetch_add(1, Relaxed) == 0 {
                let first = cities.message().await?;
                println!("the server got {first:?} and is unavailable");
                return Err(Status::unavailable("restarts"));
            }
            let answers = cities.map(|city| Ok(format!("{}: 18 °C", city?)));
            Ok(Response::new(Box::pin(answers) as Answers))
        })
    }
}

impl tower::Service<http::Request<Body>> for Weather {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<http::Response<Body>, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        Box::pin(async { Ok(tonic::server::Grpc::new(Text).streaming(Weather, request).await) })
    }
}

/// Messages that are plain text, so that no code is generated.
#[derive(Clone, Copy)]
struct Text;

impl Codec for Text {
    type Encode = String;
    type Decode = String;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for Text {
    type Item = String;
    type Error = Status;

    fn encode(&mut self, text: String, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put_slice(text.as_bytes());
        Ok(())
    }
}

impl Decoder for Text {
    type Item = String;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<String>, Status> {
        let bytes = buffer.copy_to_bytes(buffer.remaining());
        let text = String::from_utf8(bytes.to_vec());
        text.map(Some).map_err(|error| Status::internal(error.to_string()))
    }
}
