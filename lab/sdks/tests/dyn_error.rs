//! The program of the guide with errors of an unknown type.

// A classifier takes a reference to the error of the operation, and this program does not wait.
#![allow(clippy::borrowed_box, clippy::unused_async)]

include!("../programs/dyn_error.rs");

#[test]
fn the_program_ends() {
    main();
}

#[test]
fn words_without_knowledge_are_no_opinion() {
    for words in ["no such prompt", "line 429", "rate limit", "127.0.0.1:503"] {
        let llm = Classifier::new().with_text();
        assert_eq!(classify(&llm, &words.into()), None, "{words}");
    }
}
