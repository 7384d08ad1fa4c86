//! wip
#![allow(dead_code)]
mod claims;
use claims::Size;
fn main() {
    let size = Size::Full;
    let p: claims::Progress<'_> = &|_| {};
    let show = |n: &str, t: std::time::Instant, c: Vec<claims::Check>| {
        println!("== {n} {:?}", t.elapsed());
        for c in c { println!("{} | {} | {} | {}", c.what, c.published, c.measured, if c.holds {"ok"} else {"FAIL"}); }
    };
    let only = std::env::args().nth(1).unwrap_or_default();
    let t = std::time::Instant::now;
    let w = |n: &str| only.is_empty() || only == n;
    if w("jitter") { let s = t(); show("jitter", s, claims::jitter::checks(&claims::jitter::measure(size, p), size)); }
    if w("cap") { let s = t(); show("cap", s, claims::cap::checks(&claims::cap::measure(size, p))); }
    if w("bucket") { let s = t(); show("bucket", s, claims::bucket::checks(&claims::bucket::measure(size, p), size)); }
    if w("collapse") { let s = t(); show("collapse", s, claims::collapse::checks(&claims::collapse::measure(size, p), size)); }
    if w("storm") { let s = t(); show("storm", s, claims::storm::checks(&claims::storm::measure(size, p))); }
    if w("hedge") { let s = t(); show("hedge", s, claims::hedge::checks(&claims::hedge::measure(size, p), size)); }
    if w("exact") { let s = t(); show("exact", s, claims::exact::checks(size)); }
    if w("fleet") { let s = t(); show("fleet", s, claims::fleet::checks(&claims::fleet::measure(size, p))); }
}
