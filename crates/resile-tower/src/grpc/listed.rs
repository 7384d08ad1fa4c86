//! The paths of methods that may be executed twice, as a program lists them.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use tracing::warn;

use crate::foreign::{Key, Site, key};

/// Paths that a program has listed.
type List = &'static [&'static str];

/// Returns whether a list has a path, with its first slash or without.
pub(super) fn has(list: List, path: &str) -> bool {
    let bare = path.strip_prefix('/');
    list.iter().any(|listed| *listed == path || Some(*listed) == bare)
}

/// Logs a warning if no request can have some of the paths, once in a program for each layer and list.
pub(super) fn watch(list: List, site: Site) {
    let odd: Vec<_> = list.iter().filter(|path| !is_path(path)).collect();
    if !odd.is_empty() && is_new(list, site) {
        let odd = odd.iter().map(|path| format!("{path:?}")).collect::<Vec<_>>().join(", ");
        warn!(
            target: "resile",
            layer = %site,
            "with_idempotent lists {odd}, but no request has such a path: \
             write /package.Service/Method",
        );
    }
}

/// Returns whether a request of gRPC may have a path. There may be more before its service and its method, if a
/// proxy serves them there.
fn is_path(path: &str) -> bool {
    let is_odd = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '*' | '?' | '#');
    let bare = path.strip_prefix('/').unwrap_or(path);
    bare.contains('/') && bare.split('/').all(|name| !name.is_empty() && !name.contains(is_odd))
}

/// The warnings so far. The lists in the source bound their number.
static TOLD: Mutex<BTreeSet<(Key, List)>> = Mutex::new(BTreeSet::new());

fn is_new(list: List, site: Site) -> bool {
    TOLD.lock().unwrap_or_else(PoisonError::into_inner).insert((key(site), list))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_a_service_and_a_method() {
        for path in
            ["/shop.Shop/Price", "shop.Shop/Price", "/Shop/Price", "/api/v1/shop.Shop/Price"]
        {
            assert!(is_path(path), "{path}");
        }
        for odd in [
            "",
            "/",
            "Price",
            "/Price",
            "shop.Shop.Price",
            "/shop.Shop/",
            "shop.Shop/",
            "//Price",
            "/shop.Shop//Price",
            "/shop.Shop/Price/",
            "/shop.Shop/*",
            "/shop.Shop/Price?a=1",
            "/shop.Shop/ Price",
            "/shop.Shop/Price\n",
            "http://shop/shop.Shop/Price",
        ] {
            assert!(!is_path(odd), "{odd}");
        }
    }
}
