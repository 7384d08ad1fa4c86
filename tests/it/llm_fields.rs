//! The fields of error objects: their words, their codes and their numbers.

use std::time::SystemTime;

use resile::llm::{Failure, Kind, Reply};
use serde_json::json;

fn read(status: u16, body: &str) -> Failure {
    Reply::new(body.as_bytes()).with_status(status).classify(SystemTime::UNIX_EPOCH)
}

#[test]
fn an_error_counts_in_the_second_best_words_too() {
    let error = r#"{"error":{"type":"overloaded_error"}}"#;
    for name in ["detail", "error_message", "cause", "body"] {
        for body in [
            json!({ "error": { "message": "these words", name: error } }),
            json!({ "error": { "message": "these words", name: format!("no: {error}") } }),
        ] {
            let failure = read(400, &body.to_string());
            assert_eq!(failure.kind(), Kind::Overloaded, "{body}");
        }
    }
}

#[test]
fn words_that_lie_too_deep_for_an_error_stay_whole() {
    // The message of a truncated object is read without the objects in it.
    let body = r#"{"id":"x","message":"no {\"error\":{\"message\":\"a\"}} at x","choices":["#;
    let failure = read(400, body);
    assert_eq!(failure.message(), Some(r#"no {"error":{"message":"a"}} at x"#));
}
