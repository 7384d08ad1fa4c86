use std::cell::Cell;

use resile::{GaveUp, Never, RetryPolicy, retry};

type Done = Result<(), &'static str>;

/// Two accounts, stored and in an open transaction. One deadlock comes.
struct Database {
    stored: Cell<[i32; 2]>,
    open: Cell<Option<[i32; 2]>>,
    deadlock: Cell<bool>,
}

impl Database {
    fn begin(&self) {
        self.open.set(Some(self.stored.get()));
    }

    /// A deadlock ends the transaction. Without one a change is stored.
    async fn add(&self, account: usize, amount: i32) -> Done {
        if account == 1 && self.deadlock.replace(false) {
            self.open.set(None);
            return Err("deadlock found, transaction rolled back");
        }
        let open = self.open.get();
        let mut all = open.unwrap_or(self.stored.get());
        all[account] += amount;
        match open {
            Some(_) => self.open.set(Some(all)),
            None => self.stored.set(all),
        }
        Ok(())
    }

    fn commit(&self) {
        self.stored.set(self.open.take().unwrap_or(self.stored.get()));
    }
}

const POLICY: RetryPolicy = RetryPolicy::contention();

async fn wrong(db: &Database) -> Result<(), GaveUp<&'static str>> {
    db.begin();
    retry(|_| db.add(0, -30), POLICY, Never).on("bank").await?;
    retry(|_| db.add(1, 30), POLICY, Never).on("bank").await?;
    db.commit();
    Ok(())
}

async fn mended(db: &Database) -> Result<(), GaveUp<&'static str>> {
    let transfer = async |_| {
        db.begin();
        db.add(0, -30).await?;
        db.add(1, 30).await?;
        db.commit();
        Ok(())
    };
    retry(transfer, POLICY, Never).on("bank").await
}

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() {
    let new = || Database {
        stored: Cell::new([100, 100]),
        open: Cell::new(None),
        deadlock: Cell::new(true),
    };
    let db = new();
    wrong(&db).await.unwrap();
    assert_eq!(db.stored.get(), [100, 130]);

    let db = new();
    mended(&db).await.unwrap();
    assert_eq!(db.stored.get(), [70, 130]);
}
