//! A server that follows a script of failures and then answers.

use std::future::pending;
use std::io;
use std::net::Ipv4Addr;
use std::time::Duration;

use hyper::header::RETRY_AFTER;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};

#[derive(Clone, Copy)]
enum Step {
    TooManyRequests,
    Unavailable,
    Reset,
    Hang,
    Greet,
}

/// The steps of the first connections. Every later connection gets a greeting.
const SCRIPT: [Step; 4] = [Step::TooManyRequests, Step::Unavailable, Step::Reset, Step::Hang];

/// Starts the server on a free loopback port and returns its URL. It serves until the program ends.
pub(crate) async fn start() -> io::Result<String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let url = format!("http://{}/greeting", listener.local_addr()?);
    tokio::spawn(async move {
        let mut script = SCRIPT.into_iter();
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, script.next().unwrap_or(Step::Greet)));
        }
    });
    Ok(url)
}

async fn serve(mut stream: TcpStream, step: Step) -> io::Result<()> {
    if let Step::Reset = step {
        stream.read_u8().await?; // the client has sent its request
        // With a linger of zero, the drop of the stream resets the connection.
        #[allow(deprecated, reason = "`set_zero_linger` needs tokio 1.50; zero does not block")]
        return stream.set_linger(Some(Duration::ZERO));
    }
    // Each connection takes one step, so the next attempt must open a new one.
    let connection = http1::Builder::new()
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service_fn(move |_| answer(step)));
    connection.await.map_err(io::Error::other)
}

async fn answer(step: Step) -> Result<Response<String>, hyper::http::Error> {
    let answer = Response::builder();
    match step {
        Step::TooManyRequests => answer
            .status(StatusCode::TOO_MANY_REQUESTS)
            .header(RETRY_AFTER, 1)
            .body("Slower.".into()),
        Step::Unavailable => answer.status(StatusCode::SERVICE_UNAVAILABLE).body("Not now.".into()),
        Step::Greet => answer.body("Hello.".into()),
        Step::Reset | Step::Hang => pending().await,
    }
}
