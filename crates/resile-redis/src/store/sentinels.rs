use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use redis::{ConnectionInfo, RedisError, Value, cmd};
use tokio::time::timeout;

use super::listeners::text;
use super::site::client;

/// The time for one sentinel to answer.
const ANSWER: Duration = Duration::from_millis(500);

/// Asks all sentinels for the host and the port of a primary. Most of the answers decide, because a
/// sentinel that is cut off still names the old primary.
///
/// Returns an error in words if no sentinel knows it.
pub(super) async fn primary(
    sentinels: &[ConnectionInfo],
    name: &str,
) -> Result<(String, u16), String> {
    let mut answers: FuturesUnordered<_> =
        sentinels.iter().map(|sentinel| timeout(ANSWER, ask(sentinel, name))).collect();
    let mut votes: Vec<((String, u16), usize)> = Vec::new();
    let mut wrong = "no answer".to_owned();
    while let Some(answer) = answers.next().await {
        let address = match answer {
            Ok(Ok(Some(address))) => address,
            Ok(Ok(None)) => {
                "it knows none".clone_into(&mut wrong);
                continue;
            }
            Ok(Err(error)) => {
                wrong = error.to_string();
                continue;
            }
            Err(_) => continue,
        };
        let count = if let Some((_, count)) = votes.iter_mut().find(|(other, _)| *other == address)
        {
            *count += 1;
            *count
        } else {
            votes.push((address.clone(), 1));
            1
        };
        if count * 2 > sentinels.len() {
            return Ok(address);
        }
    }
    let most = votes.into_iter().max_by_key(|(_, count)| *count);
    most.map(|(address, _)| address)
        .ok_or_else(|| format!("no sentinel knows the primary `{name}`: {wrong}"))
}

/// Asks one sentinel. `None` if it does not know the name.
async fn ask(sentinel: &ConnectionInfo, name: &str) -> Result<Option<(String, u16)>, RedisError> {
    let client = client(sentinel.clone())?;
    let mut connection = client.get_multiplexed_async_connection().await?;
    let mut command = cmd("SENTINEL");
    let command = command.arg("get-master-addr-by-name").arg(name);
    let reply: Value = command.query_async(&mut connection).await?;
    let Value::Array(parts) = &reply else { return Ok(None) };
    let [host, port] = parts.as_slice() else { return Ok(None) };
    let port = text(port).and_then(|port| port.parse().ok());
    Ok(text(host).map(ToOwned::to_owned).zip(port))
}
