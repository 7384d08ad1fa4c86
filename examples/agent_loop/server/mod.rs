//! A provider that misbehaves by a script, on the loopback interface; and beside it the library that `lookup` reads.

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

pub(crate) struct Server {
    listener: TcpListener,
    scenario: Scenario,
    script: Mutex<Script>,
    lookups: AtomicU32,
}

impl Server {
    /// On a port of the loopback interface; 0 is any that is free.
    pub(crate) async fn bind(port: u16, scenario: Scenario, seed: u64) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let script = Mutex::new(Script::of(scenario, seed));
        Ok(Self { listener, scenario, script, lookups: AtomicU32::new(0) })
    }

    /// At the end of its script it begins anew.
    pub(crate) fn endless(self) -> Self {
        let script = self.script.into_inner().unwrap_or_else(PoisonError::into_inner);
        Self { script: Mutex::new(script.endless()), ..self }
    }

    /// Where it is, without a path.
    pub(crate) fn url(&self) -> io::Result<String> {
        Ok(format!("http://{}", self.listener.local_addr()?))
    }

    /// Serves until the program ends.
    pub(crate) async fn serve(self) {
        let server = Arc::new(self);
        loop {
            match server.listener.accept().await {
                Ok((stream, _)) => _ = tokio::spawn(Arc::clone(&server).connection(stream)),
                // Out of descriptors, or a client that is gone already: the next one may have more luck.
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    }

    async fn connection(self: Arc<Self>, mut stream: TcpStream) -> io::Result<()> {
        // A completion is a POST. What becomes of it is decided before HTTP begins: a reset is not HTTP.
        let mut first = [0];
        stream.peek(&mut first).await?;
        let act = (first == *b"P")
            .then(|| self.script.lock().unwrap_or_else(PoisonError::into_inner).next());
        if matches!(act, Some(Act::Fail(Fault::Reset))) {
            stream.read_u8().await?; // The request is on its way:
            #[allow(deprecated)]
            // Only a zero does not block, and tokio has `set_zero_linger` since 1.50 alone.
            return stream.set_linger(Some(Duration::ZERO)); // Dropped so, the connection is reset and not closed.
        }
        // The next request is to meet the next act, so it must not come through this connection.
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
        // An answer to a request that is not read to its end would reset the connection.
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
                page(403, "<html><body>Solve this captcha to go on.</body></html>")
            }
            Scenario::Stormy if lookups == 0 => {
                page(503, "<html><body>Back in a moment.</body></html>")
            }
            _ if query.contains("resile") => {
                Response::builder().body(full("resile, verb: to spring back; also, to withdraw."))
            }
            _ => Response::builder().body(full("Nothing is known of that.")),
        }
    }
}
