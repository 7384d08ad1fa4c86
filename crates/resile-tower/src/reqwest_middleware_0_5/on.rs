use std::fmt;
use std::sync::Arc;

use resile::Upstream;

/// The upstream of a middleware: `&'static Upstream`, `Arc<Upstream>`, or a name alone.
///
/// A middleware has no type parameter for it, because `reqwest-middleware` boxes its futures as `Send`.
#[derive(Clone)]
pub struct On(pub(super) Place);

/// The place of the upstream.
#[derive(Clone)]
pub(super) enum Place {
    /// [`HTTP`]. A constant of Rust 1.85 cannot refer to it.
    Default,
    Static(&'static Upstream),
    Shared(Arc<Upstream>),
}

/// The upstream of a middleware that was given none.
pub(super) static HTTP: Upstream = Upstream::new("http");

impl On {
    pub(super) const DEFAULT: Self = Self(Place::Default);
}

/// A name without shared parts.
impl From<&'static str> for On {
    fn from(name: &'static str) -> Self {
        Arc::new(Upstream::new(name)).into()
    }
}

impl From<&'static Upstream> for On {
    fn from(upstream: &'static Upstream) -> Self {
        Self(Place::Static(upstream))
    }
}

impl From<Arc<Upstream>> for On {
    fn from(upstream: Arc<Upstream>) -> Self {
        Self(Place::Shared(upstream))
    }
}

impl fmt::Debug for On {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match &self.0 {
            Place::Default => HTTP.name(),
            Place::Static(upstream) => upstream.name(),
            Place::Shared(upstream) => upstream.name(),
        };
        f.debug_tuple("On").field(&name).finish()
    }
}
