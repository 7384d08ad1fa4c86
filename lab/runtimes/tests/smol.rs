//! The laws hold on smol, with its own timer and with that of the standard library.

#[path = "../../../tests/runtimes/laws.rs"]
mod laws;

use std::pin::Pin;
use std::time::{Duration, Instant};

use resile::time::{ThreadTimer, Timer};

/// The recipe of the guide.
#[derive(Clone, Copy)]
struct SmolTimer(Instant);

impl Timer for SmolTimer {
    type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

    fn now(&self) -> Duration {
        self.0.elapsed()
    }

    fn sleep(&self, delay: Duration) -> Self::Sleep {
        let timer = smol::Timer::after(delay);
        Box::pin(async { _ = timer.await })
    }
}

#[test]
fn its_own_timer() {
    smol::block_on(laws::all(SmolTimer(Instant::now())));
}

#[test]
fn the_timer_of_the_standard_library() {
    smol::block_on(laws::all(ThreadTimer::new()));
}
