use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use resile::{Never, RetryPolicy, retry};

type Answer = Result<String, String>;

static REQUESTS: AtomicU32 = AtomicU32::new(0);

const POLICY: RetryPolicy = RetryPolicy::new().with_attempts(4);

/// The database is down.
async fn query() -> Answer {
    REQUESTS.fetch_add(1, Relaxed);
    Err("connection refused".to_owned())
}

/// The client of the database retries the query.
async fn user() -> Answer {
    let user = retry(|_| query(), POLICY, Never).on("database").await;
    user.map_err(|gave_up| format!("no user: {gave_up}"))
}

/// The service retries the client.
async fn order() -> Answer {
    let order = retry(|_| user(), POLICY, Never).on("users").await;
    order.map_err(|gave_up| format!("no order: {gave_up}"))
}

/// The page retries the service.
async fn wrong() -> Answer {
    let page = retry(|_| order(), POLICY, Never).on("orders").await;
    page.map_err(|gave_up| format!("no page: {gave_up}"))
}

/// One level retries: the one that knows the errors of the database.
async fn mended() -> Answer {
    user().await
}

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() {
    wrong().await.unwrap_err();
    assert_eq!(REQUESTS.swap(0, Relaxed), 64);

    mended().await.unwrap_err();
    assert_eq!(REQUESTS.load(Relaxed), 4);
}
