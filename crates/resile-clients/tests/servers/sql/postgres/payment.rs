//! The program of the README with a key and an error of its own, under `SERIALIZABLE`.

use std::error::Error;
use std::fmt;

use tokio::task::JoinSet;

use super::{Admin, alone, options};
use crate::row::within;
use crate::sql::payment::{Failed, pay};
use crate::sql::recipe::open;

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Poor => "not enough money",
            Self::Bank(_) => "the bank has failed",
        })
    }
}

impl Error for Failed {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Poor => None,
            Self::Bank(error) => Some(error),
        }
    }
}

/// Twenty payments of 10 from an account with 100: ten are made, and of the others surely nothing was kept.
#[tokio::test]
async fn what_an_account_cannot_pay_has_no_effect() {
    within(async {
        let server = alone(&[]);
        let mut admin = Admin::new(&server).await;
        admin.run("CREATE TABLE account (id int PRIMARY KEY, amount bigint NOT NULL)").await;
        admin.run("CREATE TABLE transfer (id text PRIMARY KEY)").await;
        admin.run("INSERT INTO account VALUES (1, 100)").await;
        let bank = open(options(&server));
        let mut payments = JoinSet::new();
        for number in 0..20 {
            let bank = bank.clone();
            let id = number.to_string();
            payments.spawn(async move { (pay(&bank, &id, 1, 10).await, id) });
        }
        let mut paid = Vec::new();
        for (end, id) in payments.join_all().await {
            match end {
                Ok(()) => paid.push(id),
                Err(gave_up) => {
                    assert!(matches!(gave_up.last(), Some(Failed::Poor)), "{gave_up:#}");
                    assert!(gave_up.is_without_effect() && !gave_up.is_in_doubt());
                }
            }
        }
        assert_eq!(paid.len(), 10);
        for id in &paid {
            pay(&bank, id, 1, 10).await.unwrap();
        }
        assert_eq!(admin.one("SELECT amount FROM account WHERE id = 1").await, 0);
        assert_eq!(admin.one("SELECT count(*) FROM transfer").await, 10);
    })
    .await;
}
