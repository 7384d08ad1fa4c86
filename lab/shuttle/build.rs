//! Turns on the atomics and locks of shuttle in the crate.

fn main() {
    println!("cargo::rustc-cfg=shuttle");
}
