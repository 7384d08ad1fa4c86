//! Models of `resile::Budget`: no token is lost and none appears.

use std::sync::Arc;

use loom::thread;
use resile::Budget;

fn shared(budget: Budget) -> Arc<Budget> {
    // Makes its atomics before sharing. The withdrawal that fails makes those of the signal.
    budget.deposit();
    let all: Vec<_> = std::iter::from_fn(|| budget.withdraw()).collect();
    drop(all);
    Arc::new(budget)
}

#[test]
fn simultaneous_failures_take_exactly_the_tokens_left() {
    loom::model(|| {
        let budget = shared(Budget::new().with_capacity(2));
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let budget = Arc::clone(&budget);
                thread::spawn(move || {
                    (0..2).filter(|_| budget.withdraw().map(|it| it.spend()).is_some()).count()
                })
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
        let thread = thread::spawn(move || drop(other.withdraw()));
        let spent = budget.withdraw().map(|it| it.spend()).is_some();
        thread.join().unwrap();
        assert_eq!(budget.available(), u32::from(!spent));
    });
}

#[test]
fn deposits_add_up_and_stop_at_the_capacity() {
    loom::model(|| {
        let budget = shared(Budget::new().with_capacity(3).with_deposit(1.0));
        while let Some(it) = budget.withdraw() {
            it.spend();
        }
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let budget = Arc::clone(&budget);
                thread::spawn(move || budget.deposit())
            })
            .collect();
        let taken = budget.withdraw().map(|it| it.spend()).is_some();
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
        let withdrawal = budget.withdraw().unwrap();
        let thread = thread::spawn(move || other.deposit());
        drop(withdrawal);
        thread.join().unwrap();
        assert_eq!(budget.available(), 1);
    });
}
