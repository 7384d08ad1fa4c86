use std::collections::HashMap;
use std::sync::Mutex;

use redis::{PushInfo, PushKind, Value};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::store::lock;

/// The receivers of messages, by channel. Upstreams of one name have one channel.
#[derive(Default)]
pub(super) struct Listeners(Mutex<HashMap<String, Vec<UnboundedSender<String>>>>);

impl Listeners {
    /// Receives the messages of a channel from now on. Dropping the receiver ends it.
    pub(super) fn listen(&self, channel: &str) -> UnboundedReceiver<String> {
        let (sender, receiver) = unbounded_channel();
        let mut listeners = lock(&self.0);
        listeners.retain(|_, senders| {
            senders.retain(|sender| !sender.is_closed());
            !senders.is_empty()
        });
        listeners.entry(channel.to_owned()).or_default().push(sender);
        receiver
    }

    /// Passes a message to the listeners of its channel.
    pub(super) fn deliver(&self, push: &PushInfo) {
        let (PushKind::Message, [channel, message]) = (&push.kind, push.data.as_slice()) else {
            return;
        };
        let (Some(channel), Some(message)) = (text(channel), text(message)) else { return };
        for listener in lock(&self.0).get(channel).into_iter().flatten() {
            // The listener may have ended meanwhile.
            let _ = listener.send(message.to_owned());
        }
    }
}

/// Returns the text of a reply. `None` if it is no text.
pub(super) fn text(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok(),
        Value::SimpleString(text) => Some(text),
        _ => None,
    }
}
