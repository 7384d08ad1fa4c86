//! `tower`: policies for its `Retry`. The crate has no policy of its own.

use std::future::{Ready, ready};
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Sleep, sleep};
use tower::retry::Policy;
use tower::retry::budget::{Budget, TpsBudget};

use crate::job::Fault;

/// A policy that allows a number of retries, at once.
#[derive(Clone)]
pub struct AtOnce(pub u32);

impl Policy<(), u64, Fault> for AtOnce {
    type Future = Ready<()>;

    fn retry(&mut self, _: &mut (), result: &mut Result<u64, Fault>) -> Option<Ready<()>> {
        if result.is_ok() || self.0 == 0 {
            return None;
        }
        self.0 -= 1;
        Some(ready(()))
    }

    fn clone_request(&mut self, (): &()) -> Option<()> {
        Some(())
    }
}

/// A policy that allows a number of retries, after a delay.
#[derive(Clone)]
pub struct Later(pub u32, pub Duration);

impl Policy<(), u64, Fault> for Later {
    type Future = Sleep;

    fn retry(&mut self, _: &mut (), result: &mut Result<u64, Fault>) -> Option<Sleep> {
        if result.is_ok() || self.0 == 0 {
            return None;
        }
        self.0 -= 1;
        Some(sleep(self.1))
    }

    fn clone_request(&mut self, (): &()) -> Option<()> {
        Some(())
    }
}

/// A policy that allows a number of retries if the budget pays. It waits for the future of `wait`.
pub struct Paid<F, E = Fault> {
    retries: u32,
    budget: Arc<TpsBudget>,
    wait: fn() -> F,
    error: PhantomData<fn() -> E>,
}

impl<F, E> Paid<F, E> {
    pub fn new(retries: u32, budget: Arc<TpsBudget>, wait: fn() -> F) -> Self {
        Self { retries, budget, wait, error: PhantomData }
    }
}

impl<F, E> Clone for Paid<F, E> {
    fn clone(&self) -> Self {
        Self::new(self.retries, self.budget.clone(), self.wait)
    }
}

impl<F: Future<Output = ()>, E> Policy<(), u64, E> for Paid<F, E> {
    type Future = F;

    fn retry(&mut self, _: &mut (), result: &mut Result<u64, E>) -> Option<F> {
        if result.is_ok() {
            self.budget.deposit();
            return None;
        }
        if self.retries == 0 || !self.budget.withdraw() {
            return None;
        }
        self.retries -= 1;
        Some((self.wait)())
    }

    fn clone_request(&mut self, (): &()) -> Option<()> {
        Some(())
    }
}

/// Makes a budget with ten retries for each success. It denies none.
pub fn budget() -> Arc<TpsBudget> {
    Arc::new(TpsBudget::new(Duration::from_secs(10), 10, 10.0))
}
