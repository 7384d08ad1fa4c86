use std::io;

use resile::{Attempt, Never, RetryPolicy, Upstream, retry};
use wasm_bindgen::prelude::wasm_bindgen;

static WEATHER: Upstream = Upstream::new("weather");

async fn fetch(attempt: Attempt) -> io::Result<&'static str> {
    if attempt.is_first() {
        return Err(io::ErrorKind::ConnectionReset.into());
    }
    Ok("18 °C")
}

#[wasm_bindgen(main)]
async fn main() {
    let call = retry(fetch, RetryPolicy::new(), Never).on(&WEATHER);
    assert_eq!(call.await.unwrap(), "18 °C");
}
