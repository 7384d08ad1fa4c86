//! `tower`: policies for its `Retry`, which has none of its own.

use std::future::{Ready, ready};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Sleep, sleep};
use tower::retry::Policy;
use tower::retry::budget::{Budget, TpsBudget};

use crate::job::Fault;

/// That many attempts more, at once.
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

/// That many attempts more, after a delay.
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

/// That many attempts more, if the budget pays.
pub struct Paid<E = Fault>(pub u32, pub Arc<TpsBudget>, std::marker::PhantomData<fn() -> E>);

impl<E> Paid<E> {
    pub fn new(retries: u32, budget: Arc<TpsBudget>) -> Self {
        Self(retries, budget, std::marker::PhantomData)
    }
}

impl<E> Clone for Paid<E> {
    fn clone(&self) -> Self {
        Self::new(self.0, self.1.clone())
    }
}

impl<E> Policy<(), u64, E> for Paid<E> {
    type Future = Ready<()>;

    fn retry(&mut self, _: &mut (), result: &mut Result<u64, E>) -> Option<Ready<()>> {
        if result.is_ok() {
            self.1.deposit();
            return None;
        }
        if self.0 == 0 || !self.1.withdraw() {
            return None;
        }
        self.0 -= 1;
        Some(ready(()))
    }

    fn clone_request(&mut self, (): &()) -> Option<()> {
        Some(())
    }
}

/// Ten retries for each success: none is denied.
pub fn budget() -> Arc<TpsBudget> {
    Arc::new(TpsBudget::new(Duration::from_secs(10), 10, 10.0))
}
