use std::panic::{AssertUnwindSafe, catch_unwind};

use resile::time::Timer;

use super::step::Agent;

/// The ends of the strains on the parts of the upstream.
impl<M: Timer> Agent<'_, M> {
    /// Tells the ends of strains that have been quiet for a while. The process may report no attempt for long.
    pub(super) fn tell_quiet(&mut self) {
        self.is_strained = self.observed(|| self.shared.end_quiet_strains()).unwrap_or(true);
    }

    /// Tells the numbers of the strains that go on while the member leaves. The process may make no call
    /// afterwards.
    pub(super) fn tell_strains(&self) {
        self.observed(|| self.shared.end_strains());
    }

    /// Lets observers of the program see something. The task goes on if one of them panics.
    pub(super) fn observed<T>(&self, tell: impl FnOnce() -> T) -> Option<T> {
        let upstream = self.shared.upstream().name();
        let told = catch_unwind(AssertUnwindSafe(tell)).ok();
        if told.is_none() {
            tracing::error!(
                target: "resile", upstream,
                "{upstream}: fleet: an observer panicked"
            );
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use resile::observe::{Event, EventKind};
    use resile::time::ManualTimer;
    use resile::{Cooldown, Upstream, Verdict};

    use crate::agent::{Agent, Context, Plan};
    use crate::keys::Keys;
    use crate::meter::Meter;
    use crate::store::{Site, Store};

    const SECOND: Duration = Duration::from_secs(1);

    /// The process makes no call after the hold. The task of an upstream that rests wakes up seldom otherwise.
    #[test]
    fn the_end_of_a_strain_is_told_without_a_later_call() {
        let told = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&told);
        let timer = ManualTimer::new();
        let upstream = Upstream::new("model")
            .with_cooldown(Cooldown::new())
            .with_timer(timer.clone())
            .with_shared_observer(move |event: &Event<'_>| {
                if let EventKind::Limiting { .. } | EventKind::Relieved { .. } = event.kind {
                    seen.lock().unwrap().push(event.to_string());
                }
            });
        let admission = upstream.try_admit().unwrap();
        let shared = upstream.share().unwrap();
        let context = Context {
            store: Store::new(Site::server("redis://nowhere").unwrap()),
            plan: Plan::new(),
            keys: Keys::new("test", "model"),
            id: Arc::from("web-1"),
            meter: Meter::new("model"),
        };
        let mut agent = Agent::new(&shared, &context);
        admission.settle(&Verdict::throttled().after(2 * SECOND));
        agent.holds.knows(2 * SECOND, SECOND);
        let mut wakes_after_step = |now| {
            agent.step(now);
            agent.report(now);
            agent.rests = true;
            agent.due(0, now);
            (agent.wakes_at(true, now).saturating_sub(now), told.lock().unwrap().len())
        };
        assert_eq!(wakes_after_step(SECOND), (SECOND, 1));
        timer.advance(11 * SECOND);
        assert_eq!(wakes_after_step(12 * SECOND), (SECOND, 1));
        timer.advance(SECOND);
        let (pause, count) = wakes_after_step(13 * SECOND);
        assert!(pause > 20 * SECOND && count == 2, "{pause:?} {count}");
        let told = told.lock().unwrap();
        assert_eq!(told[1], "model: cooldown over: 0 waits within 2.0s, until 10.0s ago");
    }
}
