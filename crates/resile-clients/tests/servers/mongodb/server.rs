//! A server that speaks `OP_MSG` and answers as a test wants.

use std::io::{self, Cursor, ErrorKind};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mongodb::Client;
use mongodb::bson::{Document, doc};
use mongodb::options::{ClientOptions, ServerAddress, ServerApi, ServerApiVersion};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// The operation code of a message.
const OP_MSG: i32 = 2013;

/// A running server. It ends with this value.
#[derive(Debug)]
pub(super) struct Server {
    port: u16,
    commands: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Server {
    /// Starts a server. `answer` gets each command but those of the driver itself. Without an answer the
    /// connection is closed.
    pub(super) async fn start(
        answer: impl Fn(&Document) -> Option<Document> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (commands, answer) = (Arc::<AtomicUsize>::default(), Arc::new(answer));
        let count = Arc::clone(&commands);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (answer, count) = (Arc::clone(&answer), Arc::clone(&count));
                tokio::spawn(serve(stream, move |command: &Document| {
                    let name = command.keys().next().unwrap().as_str();
                    match name {
                        "hello" => Some(hello()),
                        "endSessions" => Some(doc! { "ok": 1 }),
                        _ => {
                            count.fetch_add(1, Ordering::SeqCst);
                            answer(command)
                        }
                    }
                }));
            }
        });
        Self { port, commands, task }
    }

    /// Returns the number of commands that arrived. They may have been executed.
    pub(super) fn commands(&self) -> usize {
        self.commands.load(Ordering::SeqCst)
    }

    /// Makes a client, whose own retries are on or off.
    pub(super) fn client(&self, retries: bool) -> Client {
        client(self.port, retries)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub(super) fn client(port: u16, retries: bool) -> Client {
    let address = ServerAddress::Tcp { host: "127.0.0.1".to_owned(), port: Some(port) };
    let options = ClientOptions::builder()
        .hosts(vec![address])
        .direct_connection(true)
        .server_api(ServerApi::builder().version(ServerApiVersion::V1).build())
        .server_selection_timeout(Duration::from_millis(500))
        .retry_reads(retries)
        .retry_writes(retries)
        .build();
    Client::with_options(options).unwrap()
}

/// The only member of a set, so that sessions and transactions are there.
fn hello() -> Document {
    doc! {
        "ok": 1, "isWritablePrimary": true, "setName": "rs", "hosts": ["127.0.0.1"],
        "minWireVersion": 0, "maxWireVersion": 25, "logicalSessionTimeoutMinutes": 30,
        "maxBsonObjectSize": 16_777_216, "maxMessageSizeBytes": 48_000_000,
        "maxWriteBatchSize": 100_000,
    }
}

/// Answers the messages of a connection.
async fn serve(
    mut stream: TcpStream,
    answer: impl Fn(&Document) -> Option<Document>,
) -> io::Result<()> {
    loop {
        let length = stream.read_i32_le().await?;
        let request = stream.read_i32_le().await?;
        let _answers = stream.read_i32_le().await?;
        assert_eq!(stream.read_i32_le().await?, OP_MSG);
        let mut rest = vec![0; usize::try_from(length).unwrap() - 16];
        stream.read_exact(&mut rest).await?;
        // Flags, and the kind of the first section: one document.
        let section = rest.get(5..).ok_or(ErrorKind::InvalidData)?;
        let command = Document::from_reader(Cursor::new(section)).map_err(io::Error::other)?;
        let Some(answer) = answer(&command) else { return Ok(()) };
        let mut body = vec![0; 5];
        answer.to_writer(&mut body).map_err(io::Error::other)?;
        let length = i32::try_from(body.len() + 16).unwrap();
        for number in [length, 1, request, OP_MSG] {
            stream.write_i32_le(number).await?;
        }
        stream.write_all(&body).await?;
    }
}
