//! A provider on the loopback interface that follows a script of failures. The same server offers
//! the library of the tool `lookup`.

mod answer;
mod script;

use std::io;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};

use crate::cli::Scenario;
use answer::{Body, answer, full, page};
use script::{Act, Fault, Script};

/// The provider and the library.
pub(crate) struct Server {
    listener: TcpListener,
    scenario: Scenario,
    script: Mutex<Script>,
    lookups: AtomicU32,
}

impl Server {
    /// Binds a port of the loopback interface. Port 0 takes any free port.
    pub(crate) async fn bind(port: u16, scenario: Scenario, seed: u64) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let script = Mutex::new(Script::of(scenario, seed));
        Ok(Self { listener, scenario, script, lookups: AtomicU32::new(0) })
    }

    /// Makes the script start again after its end.
    pub(crate) fn endless(self) -> Self {
        let script = self.script.into_inner().unwrap_or_else(PoisonError::into_inner);
        Self { script: Mutex::new(script.endless()), ..self }
    }

    /// Returns the URL without a path.
    pub(crate) fn url(&self) -> io::Result<String> {
        Ok(format!("http://{}", self.listener.local_addr()?))
    }

    /// Serves until the program ends.
    pub(crate) async fn serve(self) {
        let server = Arc::new(self);
        loop {
            match server.listener.accept().await {
                Ok((stream, _)) => _ = tokio::spawn(Arc::clone(&server).connection(stream)),
                // The process has no free descriptors, or the client is gone. Try again.
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    }

    async fn connection(self: Arc<Self>, mut stream: TcpStream) -> io::Result<()> {
        // A completion is a POST. Its act must be known before HTTP begins, as a reset is not HTTP.
        let mut first = [0];
        stream.peek(&mut first).await?;
        let act = (first == *b"P")
            .then(|| self.script.lock().unwrap_or_else(PoisonError::into_inner).next());
        if matches!(act, Some(Act::Fail(Fault::Reset))) {
            stream.read_u8().await?; // the client has sent its request
            // With a linger of zero, the drop of the stream resets the connection.
            #[allow(
                deprecated,
                reason = "`set_zero_linger` needs tokio 1.50; zero does not block"
            )]
            return stream.set_linger(Some(Duration::ZERO));
        }
        // Each connection takes one act, so the next request must open a new one.
        let service = service_fn(|request| self.respond(request, act));
        let connection =
            http1::Builder::new().keep_alive(false).serve_connection(TokioIo::new(stream), service);
        connection.await.map_err(io::Error::other)
    }

    async fn respond(
        &self,
        request: Request<Incoming>,
        act: Option<Act>,
    ) -> Result<Response<Body>, hyper::http::Error> {
        let (parts, body) = request.into_parts();
        // An answer before the end of the request would reset the connection.
        _ = body.collect().await;
        match act {
            Some(act)
                if parts.method == Method::POST
                    && parts.uri.path().ends_with("/chat/completions") =>
            {
                answer(act).await
            }
            None if parts.uri.path() == "/library" => {
                self.library(parts.uri.query().unwrap_or_default())
            }
            _ => page(404, "<html><body>No such page.</body></html>"),
        }
    }

    fn library(&self, query: &str) -> Result<Response<Body>, hyper::http::Error> {
        let lookups = self.lookups.fetch_add(1, Ordering::Relaxed);
        match self.scenario {
            Scenario::Captcha => {
                page(403, "<html><body>Solve this captcha to continue.</body></html>")
            }
            Scenario::Stormy if lookups == 0 => {
                page(503, "<html><body>Back in a moment.</body></html>")
            }
            _ if query.contains("resile") => {
                Response::builder().body(full("resile, verb: to spring back; also, to withdraw."))
            }
            _ => Response::builder().body(full("The library has no such topic.")),
        }
    }
}
