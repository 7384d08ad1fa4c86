//! Shows the answer of a model word by word, with retries, a quota and a second model. Run it with:
//!
//! ```sh
//! OPENAI_BASE_URL=http://localhost:11434/v1 cargo run -p resile-llm --example chat
//! ```
//!
//! The program is that of the guide's chapter on streams. It asks for `gpt-4o` and `gpt-4o-mini`. The
//! example has no TLS: for an `https` address add `--features reqwest/rustls`, and set `OPENAI_API_KEY`.

include!("program.rs");
