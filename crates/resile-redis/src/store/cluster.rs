use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use redis::{ConnectionAddr, ConnectionInfo, RedisError, Value, cmd};
use tokio::time::timeout;

use super::listeners::text;
use super::map::Range;
use super::site::{at, client, host};

/// The time for one node to answer.
const ANSWER: Duration = Duration::from_millis(500);
/// The most nodes that are asked at once.
const ASKED: usize = 8;

/// Asks the nodes of a cluster for the slots of each node. The first answer counts. A wrong one is
/// corrected by the redirection of the next request.
///
/// The addresses get the TLS settings of `like`. Returns an error in words without an answer.
pub(super) async fn slots(
    nodes: &[ConnectionInfo],
    like: &ConnectionAddr,
) -> Result<Vec<Range>, String> {
    let mut wrong = "no answer".to_owned();
    for some in nodes.chunks(ASKED) {
        let mut answers: FuturesUnordered<_> =
            some.iter().map(|node| timeout(ANSWER, ask(node, like))).collect();
        while let Some(answer) = answers.next().await {
            match answer {
                Ok(Ok(ranges)) if !ranges.is_empty() => return Ok(ranges),
                Ok(Ok(_)) => "the node serves no slots".clone_into(&mut wrong),
                Ok(Err(error)) => wrong = error.to_string(),
                Err(_) => {}
            }
        }
    }
    Err(format!("no node of the cluster tells the slots: {wrong}"))
}

/// Asks one node.
async fn ask(node: &ConnectionInfo, like: &ConnectionAddr) -> Result<Vec<Range>, RedisError> {
    let mut connection = client(node.clone())?.get_multiplexed_async_connection().await?;
    let reply: Value = cmd("CLUSTER").arg("SLOTS").query_async(&mut connection).await?;
    let asked = host(node).unwrap_or_default();
    let Value::Array(ranges) = &reply else { return Ok(Vec::new()) };
    Ok(ranges.iter().filter_map(|range| parse(range, &asked, like)).collect())
}

/// Parses one range: its first and its last slot, its primary, and its replicas.
fn parse(range: &Value, asked: &str, like: &ConnectionAddr) -> Option<Range> {
    let Value::Array(parts) = range else { return None };
    let [Value::Int(first), Value::Int(last), Value::Array(primary), ..] = parts.as_slice() else {
        return None;
    };
    let [host, Value::Int(port), ..] = primary.as_slice() else { return None };
    // A node that does not know its own host names none: it is the one that was asked.
    let host = text(host).filter(|host| !matches!(*host, "" | "?")).unwrap_or(asked);
    let address = at(like, host, u16::try_from(*port).ok()?);
    Some(Range { first: u16::try_from(*first).ok()?, last: u16::try_from(*last).ok()?, address })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_without_a_host_is_the_one_that_was_asked() {
        let word = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let like = ConnectionAddr::Tcp(String::new(), 0);
        for (host, right) in
            [(word("10.0.0.1"), "10.0.0.1"), (word(""), "asked"), (Value::Nil, "asked")]
        {
            let primary = Value::Array(vec![host, Value::Int(7_000), word("id")]);
            let range = Value::Array(vec![Value::Int(0), Value::Int(5_460), primary]);
            let range = parse(&range, "asked", &like).unwrap();
            assert_eq!((range.first, range.last), (0, 5_460));
            assert_eq!(range.address, ConnectionAddr::Tcp(right.to_owned(), 7_000));
        }
    }
}
