//! Turns on the models of the scripts, which the crate has for its own tests.

fn main() {
    println!("cargo::rustc-check-cfg=cfg(model)");
    println!("cargo::rustc-cfg=model");
}
