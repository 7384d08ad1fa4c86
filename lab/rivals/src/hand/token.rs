use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

/// The loop with a token. It checks the token before each attempt and races it against attempts and
/// sleeps. The token's future is made only when the loop has to wait.
pub async fn by_hand_token<F, T, E>(
    mut op: impl FnMut() -> F,
    attempts: u32,
    delay: Duration,
    token: &CancellationToken,
) -> Result<T, Option<E>>
where
    F: Future<Output = Result<T, E>>,
{
    let (mut attempt, mut last) = (1, None);
    loop {
        if token.is_cancelled() {
            return Err(last);
        }
        let outcome = {
            let mut work = pin!(op());
            let mut cancelled = pin!(None);
            poll_fn(|cx| {
                if let Poll::Ready(outcome) = work.as_mut().poll(cx) {
                    return Poll::Ready(Some(outcome));
                }
                if cancelled.is_none() {
                    cancelled.set(Some(token.cancelled()));
                }
                cancelled
                    .as_mut()
                    .as_pin_mut()
                    .map_or(Poll::Pending, |stop| stop.poll(cx))
                    .map(|()| None)
            })
            .await
        };
        match outcome {
            None => return Err(last),
            Some(Ok(value)) => return Ok(value),
            Some(Err(error)) if attempt >= attempts => return Err(Some(error)),
            Some(Err(error)) => {
                last = Some(error);
                if !delay.is_zero()
                    && token.run_until_cancelled(tokio::time::sleep(delay)).await.is_none()
                {
                    return Err(last);
                }
                attempt += 1;
            }
        }
    }
}
