use std::time::Duration;

use resile::{GaveUp, Never, ResilienceExt, RetryPolicy, Upstream, retry};
use resile_clients::Classifier;
use sqlx::postgres::PgPool;

static USERS: Upstream = Upstream::new("users");

const POLICY: RetryPolicy<Classifier> = RetryPolicy::contention()
    .with_attempt_timeout(Duration::from_secs(7))
    .with_total_timeout(Duration::from_secs(15))
    .with_classifier(Classifier::keyed().with_place("claim"));

/// Gives a name to an owner, however often it is called. Returns false if another owner has the name.
pub(crate) async fn claim(
    users: &PgPool,
    name: &str,
    owner: &str,
) -> Result<bool, GaveUp<sqlx::Error>> {
    retry(|_| attempt(users, name, owner), POLICY, Never).on(&USERS).await
}

async fn attempt(users: &PgPool, name: &str, owner: &str) -> sqlx::Result<bool> {
    let mut connection = users.acquire().before_sending().await?;
    // This waits for an earlier attempt or call whose row is not committed yet.
    let insert = "INSERT INTO name (name, owner) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING";
    let query = sqlx::query(insert).bind(name).bind(owner);
    if query.execute(&mut *connection).await?.rows_affected() == 1 {
        return Ok(true);
    }
    // Always compare: even the first attempt may find the row of an earlier call.
    let read = "SELECT owner FROM name WHERE name = $1";
    let found: String = sqlx::query_scalar(read).bind(name).fetch_one(&mut *connection).await?;
    Ok(found == owner)
}
