//! Reads an answer within the time limit of its attempt.

use std::io;
use std::time::Duration;

use resile_llm::{self as llm, Failure, Phase};
use tokio::time::Instant;

use super::sse::Decoder;
use super::wire::Delta;

/// The largest answer or event in bytes.
const HELD: usize = 4 << 20;

/// A reader of one answer.
pub(super) struct Reader {
    answer: reqwest::Response,
    decoder: Decoder,
    /// The end of the attempt.
    deadline: Instant,
    limit: Duration,
    phase: Phase,
    /// True after an event with a finish reason.
    finished: bool,
    ended: bool,
}

impl Reader {
    pub(super) fn new(answer: reqwest::Response, began: Instant, limit: Duration) -> Self {
        let decoder = Decoder::default();
        let deadline = began + limit;
        Self {
            answer,
            decoder,
            deadline,
            limit,
            phase: Phase::Preamble,
            finished: false,
            ended: false,
        }
    }

    /// Returns the next event, or `None` after the last one.
    pub(super) async fn next(&mut self) -> Result<Option<Delta>, Failure> {
        while !self.ended {
            if let Some(data) = self.decoder.next() {
                llm::record_usage(data.as_bytes());
                let delta = Delta::read(&data, self.phase)?;
                if delta.part() == resile::stream::Part::Content {
                    self.phase = Phase::Content;
                }
                self.finished |= delta.finish.is_some();
                self.ended = delta.end;
                return Ok(Some(delta));
            }
            if self.decoder.held() > HELD {
                return Err(Failure::invalid_output("an event of the answer is too long"));
            }
            match self.chunk().await? {
                Some(chunk) => self.decoder.push(&chunk),
                // Some providers omit the last event. Without a finish reason, the answer was cut.
                None if self.finished => {
                    self.ended = true;
                    return Ok(Some(Delta::end()));
                }
                None => return Ok(None),
            }
        }
        Ok(None)
    }

    /// Reads a whole answer that is not a stream.
    pub(super) async fn whole(mut self) -> Result<Delta, Failure> {
        let mut body = Vec::new();
        while let Some(chunk) = self.chunk().await? {
            body.extend_from_slice(&chunk);
            if body.len() > HELD {
                return Err(Failure::invalid_output("the answer is too long"));
            }
        }
        llm::record_usage(&body);
        Delta::whole(&body, self.answer.headers())
    }

    /// Reads the next bytes.
    async fn chunk(
        &mut self,
    ) -> Result<Option<impl AsRef<[u8]> + std::ops::Deref<Target = [u8]> + use<>>, Failure> {
        let chunk = tokio::time::timeout_at(self.deadline, self.answer.chunk());
        let late = |_| {
            io::Error::new(
                io::ErrorKind::TimedOut,
                format!("did not finish within {:?}", self.limit),
            )
        };
        Ok(chunk.await.map_err(late)??)
    }
}
