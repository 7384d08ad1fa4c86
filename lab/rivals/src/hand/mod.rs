//! The code that one would write by hand.

mod breaker;
mod budget;
mod token;

pub use breaker::HandBreaker;
pub use budget::HandBudget;
pub use token::by_hand_token;

use std::time::Duration;

use tokio::time::Instant;

/// The usual loop: attempts, a delay, a sleep if there is a delay.
pub async fn by_hand<F, T, E>(
    mut op: impl FnMut() -> F,
    attempts: u32,
    delay: Duration,
) -> Result<T, E>
where
    F: Future<Output = Result<T, E>>,
{
    let mut attempt = 1;
    loop {
        match op().await {
            Ok(value) => return Ok(value),
            Err(error) if attempt >= attempts => return Err(error),
            Err(_) => {
                if !delay.is_zero() {
                    tokio::time::sleep(delay).await;
                }
                attempt += 1;
            }
        }
    }
}

/// The loop with the elapsed time of the call in its error.
pub async fn by_hand_timed<F, T, E>(
    mut op: impl FnMut() -> F,
    attempts: u32,
    delay: Duration,
) -> Result<T, (E, Duration)>
where
    F: Future<Output = Result<T, E>>,
{
    let (mut attempt, began) = (1, Instant::now());
    loop {
        match op().await {
            Ok(value) => return Ok(value),
            Err(error) if attempt >= attempts => return Err((error, began.elapsed())),
            Err(_) => {
                if !delay.is_zero() {
                    tokio::time::sleep(delay).await;
                }
                attempt += 1;
            }
        }
    }
}

/// The loop with retries that a budget pays for.
pub async fn by_hand_budget<F, T, E>(
    mut op: impl FnMut() -> F,
    attempts: u32,
    delay: Duration,
    budget: &HandBudget,
) -> Result<T, E>
where
    F: Future<Output = Result<T, E>>,
{
    let mut attempt = 1;
    loop {
        match op().await {
            Ok(value) => {
                budget.deposit();
                return Ok(value);
            }
            Err(error) if attempt >= attempts || !budget.withdraw() => return Err(error),
            Err(_) => {
                if !delay.is_zero() {
                    tokio::time::sleep(delay).await;
                }
                attempt += 1;
            }
        }
    }
}
