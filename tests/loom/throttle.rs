//! A model of `resile::Throttle`: no count is lost between the attempts without a refusal and the window.

use std::sync::Arc;
use std::time::Duration;

use loom::thread;
use resile::time::ManualTimer;
use resile::{Throttle, Upstream, Verdict};

/// An attempt is accepted while another one is refused for the first time. Both count.
#[test]
fn the_first_refusal_loses_no_count() {
    crate::roomy::model(|| {
        let timer = ManualTimer::with_seed(1);
        let upstream = Upstream::new("search").with_throttle(Throttle::new()).with_observer(&());
        let upstream = Arc::new(upstream.with_timer(timer.clone()));
        // Makes the atomics before sharing. These two leave the window.
        upstream.try_admit().unwrap().settle(&Verdict::throttled());
        upstream.try_admit().unwrap().succeeded();
        timer.advance(Duration::from_secs(300));
        upstream.try_admit().unwrap().succeeded();

        let other = Arc::clone(&upstream);
        let thread = thread::spawn(move || other.try_admit().unwrap().succeeded());
        upstream.try_admit().unwrap().settle(&Verdict::throttled());
        thread.join().unwrap();
        // Two were accepted. The next three refusals make (6 − 4) / 7.
        for _ in 0..3 {
            let _ = upstream.try_admit().map(|sent| sent.settle(&Verdict::throttled()));
        }
        assert_eq!(upstream.throttled(), Some(0.29));
    });
}
