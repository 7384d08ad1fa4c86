//! Generates the clients and the servers of `proto`. `protox` reads the files, so no `protoc`
//! is needed.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=proto");
    let files = protox::compile(
        ["proto/feed.proto", "proto/store.proto", "proto/weather.proto"],
        ["proto"],
    )?;
    tonic_prost_build::configure().compile_fds(files)?;
    Ok(())
}
