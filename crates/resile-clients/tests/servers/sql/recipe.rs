use std::time::Duration;

use resile::{GaveUp, Never, ResilienceExt, RetryPolicy, Upstream, retry};
use resile_clients::Classifier;
use resile_clients::sqlx::{BeforeCommit, TransactionError, commit, queued};
use sqlx::Transaction;
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions, Postgres};

static BANK: Upstream = Upstream::new("bank");

/// The limits of both calls.
const POLICY: RetryPolicy = RetryPolicy::contention()
    .with_attempt_timeout(Duration::from_secs(7))
    .with_total_timeout(Duration::from_secs(15));

/// Opens the pool. An attempt waits up to 2 s for a connection, up to 1.5 s for one lock and up to 4 s for
/// the locks of one statement. So each of these waits ends with an error of its own, which says what was
/// missing. Only several in a row end as "did not finish within 7s". The server ends a statement after 4 s
/// also because it does not see that its client has gone. It does not end a `COMMIT` so. It ends a session
/// whose transaction gets no statement for 3 s, because a lost client would keep its locks otherwise.
pub(crate) fn open(bank: PgConnectOptions) -> PgPool {
    let limits = [
        ("lock_timeout", "1500ms"),
        ("statement_timeout", "4s"),
        ("idle_in_transaction_session_timeout", "3s"),
    ];
    PgPoolOptions::new()
        .max_connections(10)
        .acquire_timeout(Duration::from_secs(2))
        .connect_lazy_with(bank.options(limits))
}

/// Reads the amount of an account.
pub(crate) async fn amount(bank: &PgPool, id: i32) -> Result<i64, GaveUp<sqlx::Error>> {
    let read = "SELECT amount FROM account WHERE id = $1";
    let query = async |_| {
        let mut connection = bank.acquire().before_sending().await?;
        sqlx::query_scalar(read).bind(id).fetch_one(&mut *connection).await
    };
    let idempotent = Classifier::idempotent().with_place("amount");
    retry(query, POLICY.with_classifier(idempotent), Never).on(&BANK).await
}

/// A transfer from one account to another. Its id belongs to this transfer alone, and each further call
/// for this transfer has the same id.
pub(crate) struct Transfer<'a> {
    pub(crate) id: &'a str,
    pub(crate) from: i32,
    pub(crate) to: i32,
    pub(crate) amount: i64,
}

/// Makes a transfer once, however often it is called.
pub(crate) async fn transfer(
    bank: &PgPool,
    transfer: &Transfer<'_>,
) -> Result<(), GaveUp<TransactionError>> {
    let keyed = Classifier::keyed().with_place("transfer");
    // `queued` waits again after a statement that stood in a queue for a row for too long.
    let policy = POLICY.with_classifier((queued, keyed));
    retry(|_| commit(book(bank, transfer)), policy, Never).on(&BANK).await
}

/// Does everything before `COMMIT`. If it fails or is cut, it is rolled back.
async fn book(
    bank: &PgPool,
    transfer: &Transfer<'_>,
) -> Result<(Transaction<'static, Postgres>, ()), BeforeCommit> {
    let mut transaction = bank.begin().await?;
    // This waits for an earlier attempt whose `COMMIT` is still running.
    let insert = "INSERT INTO transfer (id) VALUES ($1) ON CONFLICT DO NOTHING";
    let query = sqlx::query(insert).bind(transfer.id);
    if query.execute(&mut *transaction).await?.rows_affected() == 0 {
        return Ok((transaction, ())); // an earlier attempt or call has committed
    }
    let add = "UPDATE account SET amount = amount + $1 WHERE id = $2";
    let mut changes = [(transfer.from, -transfer.amount), (transfer.to, transfer.amount)];
    changes.sort_unstable(); // always lock in one order: opposite transfers would deadlock
    for (id, change) in changes {
        let query = sqlx::query(add).bind(change).bind(id);
        query.execute(&mut *transaction).await?;
    }
    Ok((transaction, ()))
}
