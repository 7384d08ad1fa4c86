//! Models of `resile::Budget`: no token is lost and none appears.

use std::sync::Arc;

use loom::thread;
use resile::Budget;

fn shared(budget: Budget) -> Arc<Budget> {
    // Makes its atomics before sharing. The withdrawal that fails makes those of the signal.
    budget.deposit();
    let all = (0..9).take_while(|_| budget.withdraw()).count();
    (0..all).for_each(|_| budget.refund());
    Arc::new(budget)
}

#[test]
fn simultaneous_failures_take_exactly_the_tokens_left() {
    loom::model(|| {
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
    loom::model(|| {
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
    loom::model(|| {
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
    loom::model(|| {
        let budget = shared(Budget::new().with_capacity(1).with_deposit(1.0));
        let other = Arc::clone(&budget);
        assert!(budget.withdraw());
        let thread = thread::spawn(move || other.deposit());
        budget.refund();
        thread.join().unwrap();
        assert_eq!(budget.available(), 1);
    });
}
