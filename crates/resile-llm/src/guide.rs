// The text is in `docs/guide/`, one file for each chapter. Only rustdoc compiles this module.
//
// The chapters need the features `reqwest` and `stream`, since their programs do.
//
// A page defines its links for readers of the file: they lead to files. The first definition of a
// label counts, so rustdoc takes the definitions that stand here before the page. The label of a link
// to an item is the path of the item.
#![doc = include_str!("chapters.md")]
#![doc = ""]
#![doc = include_str!("../docs/guide/guide.md")]

/// A chapter: its name, the links to items, and the text.
macro_rules! chapter {
    ($name:ident [$($to:literal)*] $text:expr) => {
        #[doc = include_str!("chapters.md")]
        #[doc = concat!($("[", $to, "]: ", $to, "\n",)*)]
        #[doc = ""]
        #[doc = $text]
        pub mod $name {}
    };
}

chapter! {
    failures [
        "crate::Bill::note" "crate::Classifier" "crate::interactive" "crate::batch" "crate::Failure"
        "crate::guide::rules#kinds" "crate::Failure::is_by_status_alone" "crate::Failure::message"
        "crate::Reply::explain" "crate::another_model" "crate::recovery" "crate::upstream()"
        "crate::upstream_named" "crate::breaker()"
    ]
    include_str!("../docs/guide/failures.md")
}

chapter! {
    streams [
        "crate::events()" "crate::Event::part" "crate::Event::text" "crate::upstream()"
        "crate::another_model" "crate::Failure" "crate::read_answer"
        "crate::Classifier" "crate::Bill" "crate::retry_events()"
        "crate::breaker()" "crate::ToolCalls"
    ]
    include_str!("../docs/guide/streams.md")
}

chapter! {
    sdks [
        "crate::Classifier" "crate::Classifier::classify_dyn" "crate::Failure"
        "crate::Failure::find_in_error" "crate::Classifier::with_text"
        "crate::Failure::find_in_text" "crate::Reply" "crate::Failure::from_text"
        "crate::Failure::from_transport" "crate::Failure::from_error_text" "crate::Reply::find"
        "crate::events()"
    ]
    include_str!("../docs/guide/sdks.md")
}

chapter! {
    quotas [
        "crate::read_answer" "crate::record_usage" "crate::learn_limits" "crate::charge"
        "crate::events()" "crate::Bill" "crate::Bill::unreported" "crate::batch"
    ]
    include_str!("../docs/guide/quotas.md")
}

chapter! {
    rules [
        "crate::Reply::classify" "crate::Reply::explain" "crate::Kind" "crate::Recovery" "crate::Failure::wait"
        "crate::Failure::tokens" "crate::Failure::rule" "crate::Failure::is_by_status_alone"
        "crate::usage()" "crate::record_usage" "crate::learn_limits" "crate::Failure::usage"
    ]
    include_str!("../docs/guide/rules.md")
}

#[doc = include_str!("../docs/agent.md")]
pub mod agent {}

#[doc = include_str!("../DESIGN.md")]
pub mod design {}
