use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;
use std::time::Duration;

use js_sys::{Function, Reflect};
use wasm_bindgen::closure::Closure;
use wasm_bindgen::{JsCast, JsValue};

/// Returns the time since 1970 by the wall clock, or `None` if it cannot be read.
pub(crate) fn since_1970() -> Option<Duration> {
    SCRIPT.with(|script| span(script.wall_clock.as_ref()?.call()?.as_f64()?))
}

thread_local! {
    pub(super) static SCRIPT: Script = Script::new();
}

/// The longest delay of `setTimeout`. A longer one would end at once.
const LONGEST: Duration = Duration::from_millis(i32::MAX as u64);

/// The functions that the global object offers to this thread. A missing function is `None`.
pub(super) struct Script {
    clock: Option<Method>,
    wall_clock: Option<Method>,
    /// The reading of the clock at its zero. It makes the readings of all workers comparable.
    origin: Duration,
    latest: Cell<Duration>,
    set_timeout: Option<Method>,
    clear_timeout: Option<Method>,
    /// The function behind every timeout. It receives the key of the timeout.
    fired: JsValue,
    timeouts: RefCell<BTreeMap<u64, Timeout>>,
}

/// A timeout that has not fired.
struct Timeout {
    handle: JsValue,
    waker: Waker,
}

impl Script {
    fn new() -> Self {
        let global = JsValue::from(js_sys::global());
        let performance = get(&global, "performance");
        let monotonic = performance.as_ref().and_then(|it| Method::of(it, "now"));
        let origin = performance.as_ref().and_then(|it| get(it, "timeOrigin")?.as_f64());
        let wall_clock = get(&global, "Date").and_then(|it| Method::of(&it, "now"));
        Self {
            origin: monotonic.as_ref().and_then(|_| span(origin?)).unwrap_or_default(),
            clock: monotonic.or_else(|| wall_clock.clone()),
            wall_clock,
            latest: Cell::default(),
            set_timeout: Method::of(&global, "setTimeout"),
            clear_timeout: Method::of(&global, "clearTimeout"),
            fired: Closure::<dyn Fn(f64)>::new(fired).into_js_value(),
            timeouts: RefCell::default(),
        }
    }

    /// Reads the clock. The reading never decreases, even if the clock is a wall clock.
    pub(super) fn now(&self) -> Duration {
        let reading = self.clock.as_ref().and_then(|clock| span(clock.call()?.as_f64()?));
        let reading = reading.map_or(Duration::ZERO, |since| self.origin.saturating_add(since));
        self.latest.set(self.latest.get().max(reading));
        self.latest.get()
    }

    /// Sets a timeout for `left`, or for a part of it, and returns its key. Wakes at once if there
    /// are no timeouts: the sleep is then polled again and again.
    pub(super) fn set(&self, left: Duration, waker: &Waker) -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let delay = left.min(LONGEST).as_secs_f64() * 1000.0;
        let handle = self
            .set_timeout
            .as_ref()
            .and_then(|set| set.call_with([self.fired.clone(), delay.ceil().into(), key(id)]));
        let waker = waker.clone();
        match handle {
            Some(handle) => {
                self.timeouts.borrow_mut().insert(id, Timeout { handle, waker });
            }
            None => waker.wake(),
        }
        id
    }

    /// Gives the timeout `id` another waker. Returns false if it has fired or is of another thread.
    pub(super) fn replace(&self, id: u64, waker: &Waker) -> bool {
        let mut waker = waker.clone();
        match self.timeouts.borrow_mut().get_mut(&id) {
            Some(timeout) => std::mem::swap(&mut timeout.waker, &mut waker),
            None => return false,
        }
        true // the old waker is dropped here, outside of the borrow
    }

    pub(super) fn clear(&self, id: u64) {
        let timeout = self.timeouts.borrow_mut().remove(&id);
        if let (Some(timeout), Some(clear)) = (&timeout, &self.clear_timeout) {
            clear.call_with([timeout.handle.clone()]);
        }
    }
}

/// Wakes the sleep of the timeout with this key.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn fired(key: f64) {
    let timeout = SCRIPT.with(|script| script.timeouts.borrow_mut().remove(&(key as u64)));
    if let Some(timeout) = timeout {
        timeout.waker.wake();
    }
}

/// Returns a key as a number of JavaScript, which is exact up to 2^53.
#[expect(clippy::cast_precision_loss)]
fn key(id: u64) -> JsValue {
    (id as f64).into()
}

/// A method and its object.
#[derive(Clone)]
struct Method {
    of: JsValue,
    function: Function,
}

impl Method {
    fn of(object: &JsValue, name: &str) -> Option<Self> {
        let function = get(object, name)?.dyn_into().ok()?;
        Some(Self { of: object.clone(), function })
    }

    fn call(&self) -> Option<JsValue> {
        self.function.call0(&self.of).ok()
    }

    fn call_with<const N: usize>(&self, arguments: [JsValue; N]) -> Option<JsValue> {
        self.function.apply(&self.of, &arguments.into_iter().collect()).ok()
    }
}

/// Returns a property of an object. A missing property is not an object.
fn get(object: &JsValue, name: &str) -> Option<JsValue> {
    Reflect::get(object, &name.into()).ok()
}

/// Converts milliseconds. Returns `None` for NaN and negative numbers.
fn span(millis: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(millis / 1000.0).ok()
}
