//! Models of `resile::Budget`: no token is lost and none appears.

use std::sync::Arc;

use loom::thread;
use resile::time::ManualTimer;
use resile::upstream::Resource;
use resile::{Budget, Upstream};

fn shared(budget: Budget) -> Arc<Budget> {
    // Makes its atomics before sharing. The withdrawal that fails makes those of the signal.
    budget.deposit();
    let all = (0..9).take_while(|_| budget.withdraw()).count();
    (0..all).for_each(|_| budget.refund());
    Arc::new(budget)
}

#[test]
fn simultaneous_failures_take_exactly_the_tokens_left() {
    crate::roomy::model(|| {
        let budget = shared(Budget::new().with_capacity(2));
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let budget = Arc::clone(&budget);
                thread::spawn(move || (0..2).filter(|_| budget.withdraw()).count())
            })
            .collect();
        let taken: usize = threads.into_iter().map(|it| it.join().unwrap()).sum();
        assert_eq!((taken, budget.available()), (2, 0));
    });
}

#[test]
fn a_token_that_is_not_spent_comes_back() {
    crate::roomy::model(|| {
        let budget = shared(Budget::new().with_capacity(1));
        let other = Arc::clone(&budget);
        let thread = thread::spawn(move || {
            if other.withdraw() {
                other.refund();
            }
        });
        let spent = budget.withdraw();
        thread.join().unwrap();
        assert_eq!(budget.available(), u32::from(!spent));
    });
}

#[test]
fn deposits_add_up_and_stop_at_the_capacity() {
    crate::roomy::model(|| {
        let budget = shared(Budget::new().with_capacity(3).with_deposit(1.0));
        while budget.withdraw() {}
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let budget = Arc::clone(&budget);
                thread::spawn(move || budget.deposit())
            })
            .collect();
        let taken = budget.withdraw();
        threads.into_iter().for_each(|it| it.join().unwrap());
        assert_eq!(budget.available(), 2 - u32::from(taken));
        budget.deposit();
        budget.deposit();
        assert_eq!(budget.available(), 3);
    });
}

#[test]
fn a_refund_beside_a_deposit_never_passes_the_capacity() {
    crate::roomy::model(|| {
        let budget = shared(Budget::new().with_capacity(1).with_deposit(1.0));
        let other = Arc::clone(&budget);
        assert!(budget.withdraw());
        let thread = thread::spawn(move || other.deposit());
        budget.refund();
        thread.join().unwrap();
        assert_eq!(budget.available(), 1);
    });
}

/// The store lets a deposit count that has waited for it, beside a success and a failure.
#[test]
fn a_deposit_that_waits_is_neither_lost_nor_doubled() {
    const TOKEN: u64 = 1_000_000;
    crate::roomy::model(|| {
        let budget = Budget::new().with_capacity(3).with_deposit(1.0);
        let host = Upstream::new("model").with_budget(budget).with_timer(ManualTimer::new());
        let host = Arc::new(host);
        let tokens = |host: &Upstream<ManualTimer>| host.budget().unwrap().available();
        let shared = host.share().unwrap();
        shared.set_low(Resource::Budget, 0);
        shared.adjust(Resource::Budget, i64::MIN);
        shared.set_usable(Resource::Budget, 0);
        assert!(!host.budget().unwrap().withdraw());
        host.budget().unwrap().deposit();
        assert_eq!((tokens(&host), shared.balance(Resource::Budget)), (0, Some(1_000_000)));
        let other = Arc::clone(&host);
        let thread = thread::spawn(move || {
            let budget = other.budget().unwrap();
            budget.deposit();
            u32::from(budget.withdraw())
        });
        shared.set_usable(Resource::Budget, 2 * TOKEN);
        let taken = thread.join().unwrap();
        assert_eq!(
            shared.balance(Resource::Budget),
            Some(2_000_000 - 1_000_000 * i64::from(taken))
        );
        shared.set_usable(Resource::Budget, 3 * TOKEN);
        assert_eq!(tokens(&host), 2 - taken);
    });
}
