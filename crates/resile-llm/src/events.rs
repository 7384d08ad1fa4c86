use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Buf;
use futures_core::Stream;
use http::{HeaderMap, StatusCode};
use http_body::Body;
use pin_project_lite::pin_project;

use crate::bill::{Bill, Entry};
use crate::event::Event;
use crate::failure::Failure;
use crate::in_band;
use crate::kind::{Kind, Phase};
use crate::limits::{learn_limits, learn_used_requests};
use crate::reply::Reply;
use crate::rule::Rule;
use crate::sse::{Decoder, Fields, LARGEST, TooLarge};
use crate::usage::usage;
use resile::http::headers::now;
use resile::quota::{self, Usage};
use resile::stream::Part;

/// The number of bytes of a body without events after which reading stops.
const READ: usize = 256 * 1024;

/// Reads an answer as a stream of server-sent events. Every failure is an item of the stream.
///
/// `answer` is an answer of `reqwest`, or a `http::Response` with any body. A stream of bytes becomes a
/// body by `http_body_util::StreamBody`. In a browser use this for `reqwest`'s `bytes_stream`.
///
/// The stream is made for [`retry_events`](crate::retry_events()), which knows the parts of its events.
/// The events need no further check:
///
/// | the provider sends | the stream yields |
/// |---|---|
/// | an event | an [`Event`] |
/// | comments, pings, empty events | nothing |
/// | a status other than 2xx | the [`Failure`] of status, headers and the first 256 KiB of the body |
/// | an event with an error, or with a bad ending such as a content filter, a model that refuses or the token limit | its failure |
/// | an event without a whole JSON, or a clean end without a last event | [`Kind::Network`](crate::Kind::Network), with words that say so |
/// | words as an event, or a body without events | the failure that the words mean, or [`Kind::InvalidOutput`](crate::Kind::InvalidOutput). Words without a known meaning are counted and not quoted |
/// | an event above 16 MiB | [`Kind::InvalidOutput`](crate::Kind::InvalidOutput) |
/// | a broken connection | the failure of the transport |
///
/// The usage often comes in an event behind the one with the bad ending. So the stream is read on until
/// an event has the usage or is the last one or is content, or until the body ends. Then the failure
/// follows. A limit on silence holds in the meantime too.
///
/// A failure is the last item. Its [`phase`](Failure::phase) is [`Phase::Content`] once content was
/// yielded. A last event is one whose part is `Complete` or `End`. For a provider with another last
/// event give `with_parts` a function of your own. A stream that it ends is not read to its end.
///
/// Reports to the quota of the current attempt: the limits in the headers, as
/// [`learn_limits`] does, and the usage of each event, as [`record_usage`](crate::record_usage()) does. A
/// failure has the usage of its stream as its [`usage`](Failure::usage).
///
/// A limit on silence that is put on this stream does not count pings and comments. For a limit on any
/// byte set the client's, such as `reqwest`'s `read_timeout`.
///
/// # Cancel safety
///
/// Dropping the stream drops the answer. No event is lost if a wait for the next one is dropped.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use futures_util::StreamExt;
/// use resile_llm::Kind;
///
/// let body = "data: {\"choices\":[{\"delta\":{\"content\":\"Hello\"}}]}\n\n\
///     data: {\"error\":{\"type\":\"overloaded_error\"}}\n\n";
/// let answer = http::Response::new(body.to_owned());
/// let mut events = resile_llm::events(answer);
/// let word = events.next().await.unwrap().unwrap();
/// assert!(word.data().contains("Hello"));
/// let failure = events.next().await.unwrap().unwrap_err();
/// assert_eq!(failure.kind(), Kind::Overloaded);
/// assert!(events.next().await.is_none());
/// # }
/// ```
pub fn events<A, B>(answer: A) -> Events<B>
where
    A: Into<http::Response<B>>,
    B: Body<Error: Into<Box<dyn Error + Send + Sync>>>,
{
    let (head, body) = answer.into().into_parts();
    learn_limits(head.status, &head.headers);
    let state = if head.status.is_success() { State::Unread } else { State::Refused };
    Events {
        body,
        reading: Reading {
            status: head.status,
            headers: head.headers,
            start: Vec::new(),
            decoder: Decoder::default(),
            phase: Phase::Preamble,
            state,
            at_end: false,
            used: Usage::new(),
            is_whole: false,
            entry: None,
            ending: None,
        },
    }
}

pin_project! {
    /// The events of an answer. Made by [`events`].
    #[must_use = "streams do nothing unless polled"]
    pub struct Events<B> {
        #[pin]
        body: B,
        reading: Reading,
    }
}

impl<B> Events<B> {
    /// Counts the usage of this stream on a [`Bill`], as each event comes. What was counted stays on the
    /// bill if the stream fails or is dropped. A second call moves the stream to another bill from then on,
    /// and its usage is on both.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use futures_util::StreamExt;
    /// use resile_llm::{Bill, events};
    ///
    /// let bill = Bill::new();
    /// let body = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":700,\"completion_tokens\":90}}\n\n";
    /// let answer = http::Response::new(body.to_owned()); // breaks off
    /// assert!(events(answer).billed(&bill).any(|item| async move { item.is_err() }).await);
    /// assert_eq!(bill.total().total(), 790);
    /// # }
    /// ```
    pub fn billed(mut self, bill: &Bill) -> Self {
        let is_refused = matches!(self.reading.state, State::Refused | State::Done);
        let mut entry = Entry::open(bill, self.reading.used, is_refused);
        entry.complete(self.reading.is_whole);
        if let Some(before) = self.reading.entry.replace(entry) {
            before.leave();
        }
        self
    }
}

/// The state beside the body.
struct Reading {
    status: StatusCode,
    headers: HeaderMap,
    /// The first bytes of an answer without events.
    start: Vec<u8>,
    decoder: Decoder,
    phase: Phase,
    state: State,
    /// The body has ended.
    at_end: bool,
    /// The usage that the events have reported.
    used: Usage,
    /// The usage is whole: the last event or the ending has come.
    is_whole: bool,
    /// The place on a bill.
    entry: Option<Entry>,
    /// The failure of a bad ending, while its usage is awaited.
    ending: Option<Failure>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The status is bad, and the body holds the reason.
    Refused,
    /// No event has come.
    Unread,
    /// Events come.
    Open,
    /// The last event has come. An end is a good one.
    Complete,
    /// The stream has ended.
    Done,
}

impl<B> Stream for Events<B>
where
    B: Body<Error: Into<Box<dyn Error + Send + Sync>>>,
{
    type Item = Result<Event, Failure>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut this = self.project();
        loop {
            let item = this.reading.next();
            if item.is_ready() {
                return item;
            }
            match ready!(this.body.as_mut().poll_frame(cx)) {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        this.reading.push(data);
                    } // else trailers
                }
                Some(Err(error)) => {
                    return Poll::Ready(Some(Err(this.reading.broken(error.into()))));
                }
                None => this.reading.finish(),
            }
        }
    }
}

impl Reading {
    /// Returns the next item of the bytes that have come, or `Pending` if more bytes are needed.
    fn next(&mut self) -> Poll<Option<Result<Event, Failure>>> {
        while !matches!(self.state, State::Refused | State::Done) {
            match self.decoder.next() {
                Ok(Some(fields)) => {
                    if let Some(item) = self.read(fields) {
                        return Poll::Ready(Some(item));
                    }
                }
                Ok(None) => break,
                Err(TooLarge) => {
                    let failure = self.ending.take().unwrap_or_else(too_large);
                    return Poll::Ready(Some(Err(self.end(failure))));
                }
            }
        }
        let is_read = self.at_end || self.state == State::Refused && self.start.len() >= READ;
        if is_read || self.state == State::Done {
            let failure = self.conclusion();
            let item = failure.map(|failure| Err(self.end(failure)));
            self.entry = None; // an attempt that has ended
            return Poll::Ready(item);
        }
        Poll::Pending
    }

    /// Takes the next bytes.
    fn push(&mut self, mut data: impl Buf) {
        while data.has_remaining() {
            let piece = data.chunk();
            if matches!(self.state, State::Refused | State::Unread) {
                let room = READ.saturating_sub(self.start.len()).min(piece.len());
                self.start.extend_from_slice(piece.get(..room).unwrap_or_default());
            }
            if self.state != State::Refused {
                self.decoder.push(piece);
            }
            data.advance(piece.len());
        }
    }

    /// Notes the end of the body.
    fn finish(&mut self) {
        self.at_end = true;
        self.decoder.finish();
    }

    /// Reads an event. A ping is not an event.
    fn read(&mut self, fields: Fields) -> Option<Result<Event, Failure>> {
        if self.state == State::Unread {
            (self.state, self.start) = (State::Open, Vec::new());
        }
        let event = Event::new(fields.name, fields.data);
        if event.is_ping() {
            return None;
        }
        let used = self.record(event.data().as_bytes());
        let part = event.part();
        self.complete(matches!(part, Part::Complete | Part::End) || used && self.ending.is_some());
        if let Some(ending) = self.ending.take() {
            if used || matches!(part, Part::End | Part::Content) {
                return Some(Err(self.end(ending)));
            }
            self.ending = Some(ending);
            return None;
        }
        if let Some(failure) = in_band::failure(&event, self.phase) {
            let may_have_usage = matches!(part, Part::Complete | Part::Preamble) && !used;
            if matches!(failure.rule(), Rule::Finish(_)) && may_have_usage {
                self.ending = Some(failure);
                return None;
            }
            self.complete(used);
            return Some(Err(self.end(failure)));
        }
        match part {
            Part::Preamble => {}
            Part::End => self.state = State::Done,
            Part::Complete => (self.state, self.phase) = (State::Complete, Phase::Content),
            _ => self.phase = Phase::Content,
        }
        Some(Ok(event))
    }

    /// Records the usage that a text reports. Returns false if there is none.
    fn record(&mut self, text: &[u8]) -> bool {
        let Some(used) = usage(text) else { return false };
        quota::record(used);
        self.used = self.used.merged(used);
        if let Some(entry) = &self.entry {
            entry.set(self.used);
        }
        true
    }

    /// Notes that the usage is whole, if it is.
    fn complete(&mut self, is_whole: bool) {
        self.is_whole |= is_whole;
        if let Some(entry) = &mut self.entry {
            entry.complete(is_whole);
        }
    }

    /// Returns what the end of the body means. An end is good after the last event only.
    fn conclusion(&mut self) -> Option<Failure> {
        if let Some(ending) = self.ending.take() {
            return Some(ending);
        }
        match self.state {
            State::Refused => Some(self.refusal()),
            State::Unread => Some(self.no_events()),
            State::Open => Some(Failure::truncated(self.phase)),
            State::Complete | State::Done => None,
        }
    }

    /// Returns the failure of a broken connection. If it broke in the body of a refusal, the refusal
    /// counts.
    fn broken(&mut self, error: Box<dyn Error + Send + Sync>) -> Failure {
        let failure = if self.state == State::Refused {
            self.refusal()
        } else if let Some(ending) = self.ending.take() {
            ending
        } else {
            let mut failure = Failure::from_transport(&*error).with_source(error);
            failure.0.phase = self.phase;
            failure
        };
        self.end(failure)
    }

    /// Notes that `failure` is the last item.
    fn end(&mut self, mut failure: Failure) -> Failure {
        self.state = State::Done;
        failure.0.usage = self.used;
        if let Some(mut entry) = self.entry.take() {
            entry.fail(&failure);
        }
        failure
    }

    /// Returns the failure of an answer with a bad status.
    fn refusal(&self) -> Failure {
        let failure = self.reply().classify(now());
        if failure.is_about_requests() {
            learn_used_requests(self.status, &self.headers);
        }
        failure
    }

    fn reply(&self) -> Reply<'_> {
        Reply::new(&self.start).with_status(self.status.as_u16()).with_headers(&self.headers)
    }

    /// Returns the failure of a good answer without an event.
    fn no_events(&mut self) -> Failure {
        let start = std::mem::take(&mut self.start);
        let used = self.record(&start); // of a whole answer
        self.complete(used);
        self.start = start;
        let reply = self.reply().with_phase(Phase::Preamble);
        let found = reply.find(now());
        if found.as_ref().is_some_and(|failure| failure.rule() == Rule::Truncated) {
            return Failure::truncated(Phase::Preamble); // half a body is content, or there were pings only
        }
        found.unwrap_or_else(|| {
            let kind = self.headers.get(http::header::CONTENT_TYPE);
            let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or("without a type");
            let mut failure = Failure::bare(Kind::InvalidOutput, Rule::NotStream, Phase::Preamble);
            failure.0.message = Some(format!("it is one whole body ({kind})"));
            failure
        })
    }
}

fn too_large() -> Failure {
    Failure::invalid_output(format!("an event of the stream is above {LARGEST} bytes"))
}

impl<B> fmt::Debug for Events<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events")
            .field("status", &self.reading.status)
            .field("state", &self.reading.state)
            .field("phase", &self.reading.phase)
            .finish_non_exhaustive()
    }
}
