use super::explain::Inferred;
use super::held::Held;
use super::{Endpoint, Name, Parts, Upstream};
use crate::observe::Event;
use crate::time::Timer;

/// An upstream as the target of its calls.
impl<M: Timer> Endpoint for Upstream<M> {
    type Timer = M;
    type Sleep = M::Sleep;
    type Describe = Inferred;
    type Slot = Held;

    #[inline]
    fn timer(&self) -> &M {
        Self::timer(self)
    }

    #[inline]
    fn reading(&self) -> Option<u64> {
        Some(self.now())
    }

    #[inline]
    fn parts(&self) -> Option<&Parts> {
        Some(&self.parts)
    }

    #[inline]
    fn name(&self) -> Option<&str> {
        Some(self.parts.name.as_str())
    }

    fn owned_name(&self) -> Option<Name> {
        Some(self.parts.name.clone())
    }

    #[inline]
    fn listens(&self) -> bool {
        self.parts.observer.get().is_enabled()
    }

    #[inline]
    fn wants_all(&self) -> bool {
        self.parts.observer.wants_all()
    }

    fn observe(&self, event: &Event<'_>) {
        self.parts.observer.get().observe(event);
    }

    fn writes_log(&self) -> bool {
        self.parts.observer.get().writes_log()
    }
}
