use std::io;
use std::pin::Pin;
use std::time::{Duration, Instant};

use resile::time::Timer;
use resile::{Attempt, Never, RetryPolicy, Upstream, retry};

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

async fn fetch(attempt: Attempt) -> io::Result<&'static str> {
    if attempt.is_first() {
        return Err(io::ErrorKind::ConnectionReset.into());
    }
    Ok("18 °C")
}

fn main() {
    let timer = SmolTimer(Instant::now());
    let weather = Upstream::new("weather").with_timer(timer);
    let call = retry(fetch, RetryPolicy::new(), Never).on(&weather);
    assert_eq!(smol::block_on(call).unwrap(), "18 °C");
}
