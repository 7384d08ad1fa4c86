//! Models of `resile::Cooldown`: the hint that ends last counts, in any order of arrival.

use std::sync::Arc;
use std::time::Duration;

use loom::thread;
use resile::time::ManualTimer;
use resile::{Cooldown, Upstream};

const SECOND: Duration = Duration::from_secs(1);

type Shared = Arc<Upstream<ManualTimer>>;

fn shared(timer: &ManualTimer) -> Shared {
    let upstream = Upstream::new("held")
        .with_cooldown(Cooldown::new())
        .with_observer(&())
        .with_timer(timer.clone());
    let _ = format!("{:?}", upstream.cooldown()); // makes its atomics before sharing
    drop(upstream.share()); // and those of the signal
    Arc::new(upstream)
}

fn with<T: 'static>(
    cooldown: &Shared,
    act: impl FnOnce(&Shared) -> T + 'static,
) -> thread::JoinHandle<T> {
    let cooldown = Arc::clone(cooldown);
    thread::spawn(move || act(&cooldown))
}

#[test]
fn the_hint_that_ends_last_counts() {
    crate::roomy::model(|| {
        let cooldown = shared(&ManualTimer::new());
        let long = with(&cooldown, |it| it.hold(20 * SECOND));
        cooldown.hold(5 * SECOND);
        assert!(cooldown.held() >= Some(5 * SECOND));
        cooldown.hold(2 * SECOND);
        long.join().unwrap();
        assert_eq!(cooldown.held(), Some(20 * SECOND));
    });
}

// In the next models the reader is the thread that is made last. loom explores the interleavings of
// a load only if the load comes after the store in its walk.

#[test]
fn no_reader_sees_the_hold_shrink() {
    crate::roomy::model(|| {
        let cooldown = shared(&ManualTimer::new());
        let reader = with(&cooldown, |it| {
            let (first, second) = (it.held(), it.held());
            assert!(first <= second, "{first:?} then {second:?}");
        });
        cooldown.hold(2 * SECOND);
        cooldown.hold(SECOND);
        cooldown.hold(3 * SECOND);
        reader.join().unwrap();
        assert_eq!(cooldown.held(), Some(3 * SECOND));
    });
}

/// A reader clears a hold that has passed. It must not clear a hold that begins meanwhile.
#[test]
fn clearing_an_old_hold_does_not_lose_a_new_one() {
    // Three threads over three words have too many interleavings. This walks those with up to three
    // preemptions.
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(crate::roomy::roomy(|| {
        let timer = ManualTimer::new();
        let cooldown = shared(&timer);
        cooldown.hold(SECOND);
        timer.advance(2 * SECOND); // past its release too
        let reader = with(&cooldown, |it| it.held());
        let other = with(&cooldown, |it| it.held());
        cooldown.hold(7 * SECOND);
        for seen in [reader.join().unwrap(), other.join().unwrap()] {
            assert!(seen.is_none_or(|left| left == 7 * SECOND), "{seen:?}");
        }
        assert_eq!(cooldown.held(), Some(7 * SECOND));
    }));
}

/// The spread is drawn from the beginning of the same hold, and never from that of an earlier one.
#[test]
fn a_reader_of_the_hold_sees_its_beginning() {
    use std::task::{Context, Waker};

    crate::roomy::model(|| {
        let timer = ManualTimer::new();
        timer.advance(3600 * SECOND); // a hold from zero would be spread over far longer
        let cooldown = shared(&timer);
        let reader = {
            let timer = timer.clone();
            with(&cooldown, move |it| {
                let mut wait = std::pin::pin!(it.admit(resile::Never));
                let _ = wait.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                if let Some(delay) = timer.until_next() {
                    assert!(delay >= 4 * SECOND && delay <= 5 * SECOND, "{delay:?}");
                }
            })
        };
        cooldown.hold(4 * SECOND);
        reader.join().unwrap();
    });
}
