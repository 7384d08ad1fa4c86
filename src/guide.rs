// The text is in `docs/guide/`, one file for each chapter. Only rustdoc compiles this module.
//
// A page defines its links for readers of the file: they lead to files. The first definition of a
// label counts, so rustdoc takes the definitions that stand here before the page. The label of a link
// to an item is the path of the item. Pages of other crates are not in these docs, so the label of such a
// page leads to what the guide itself says of it.
//
// rustdoc keeps raw SVG whole if the SVG has no blank line. So the pictures are part of the page.
#![doc = include_str!("chapters.md")]
#![doc = "[crate]: crate"]
#![doc = ""]
#![doc = include_str!("../docs/guide/guide.md")]

/// The style of pictures whose letters are too small on a phone: there they scroll sideways.
macro_rules! wide_pictures {
    () => {
        "<style>.picture { margin: 1em 0; overflow-x: auto } .picture svg { max-width: 100%; height: auto }\n\
         @media (max-width: 700px) { .picture svg { min-width: 45rem } }</style>"
    };
}

/// A chapter: its name, the features that its links need, the links, the text, and what follows it.
macro_rules! chapter {
    (
        $(#[$attribute:meta])*
        $name:ident [$($feature:literal)*] [$($to:literal)*] $text:expr $(, $more:expr)*
    ) => {
        #[cfg(all($(feature = $feature),*))]
        $(#[$attribute])*
        #[doc = include_str!("chapters.md")]
        #[doc = concat!($("[", $to, "]: ", $to, "\n",)*)]
        #[doc = ""]
        #[doc = $text]
        $(#[doc = $more])*
        pub mod $name {}

        #[cfg(not(all($(feature = $feature),*)))]
        #[doc = concat!("This chapter needs [features](crate#features):" $(, " `", $feature, "`")*)]
        pub mod $name {}
    };
}

chapter! {
    #[cfg_attr(not(feature = "http"), doc = "[crate::http::Failure]: crate#features")]
    first_call [] [
        "crate::retry()" "crate::http::Failure" "crate::RetryPolicy" "crate::RetryPolicy#defaults"
        "crate::Run" "crate::Never" "crate::retry::Retry::on" "crate::Upstream" "crate::GaveUp"
        "crate::GaveUp::into_boxed"
    ]
    include_str!("../docs/guide/first_call.md")
}

chapter! {
    classifying ["reqwest"] [
        "crate::http::error_for_status" "crate::http::Failure" "crate::http::Classifier::idempotent"
        "crate::http::Failure::cause" "crate::http::Failure::check" "crate::http::Failure::unanswered"
        "crate::http::StatusError::check" "crate::http::Failure::headers"
        "crate::http::Failure::not_sent" "crate::Verdict" "crate::http"
        "crate::StopReason::Unclassified" "crate::http::Classifier::over" "crate::Verdict::after"
        "crate::Verdict::at_least" "crate::GaveUp" "crate::GaveUp::retry_after"
        "crate::GaveUp::verdict" "crate::http::Classifier::non_idempotent"
        "crate::classify::ClassifyExt::cut_is" "crate::Classify#cut-attempts" "crate::hedge()"
        "crate::Classify" "crate::Classify::place" "crate::classify::Over::new"
        "crate::classify::Over::with_place" "crate::Classify::error_type"
        "crate::classify::note_error_type"
        "crate::Verdict::on_cut" "crate::http::headers"
        "crate::io" "crate::io::never_sent" "crate::io::Classifier::verdict"
        "crate::RetryPolicy::contention" "crate::RetryPolicy::with_healthy_backoff"
        "crate::http::Failure::not_understood"
        "crate::http::Classifier::with_conflict" "crate::Upstream::call" "crate::Budget"
        "crate::http::Classifier::with_place"
        "crate::GaveUp::is_in_doubt" "crate::Verdict::idempotent" "crate::Verdict::not_wanted"
        "crate::Verdict::not_repeatable"
    ]
    include_str!("../docs/guide/classifying.md")
}

chapter! {
    timeouts ["tokio"] [
        "crate::Classify#cut-attempts" "crate::StopReason::Deadline" "crate::StopReason::Cancelled"
        "crate::Drain" "crate::classify::ClassifyExt::cut_is" "crate::ResilienceExt::timeout"
        "crate::timeout::Elapsed" "crate::timeout::Error" "crate::Upstream::call" "crate::call::Call::with_token"
        "crate::call::Call::with_attempt_timeout" "crate::AdaptiveTimeout" "crate::hedge()" "crate::Cooldown"
        "crate::Attempt::time_left" "crate::RetryPolicy::shortened_to"
    ]
    include_str!("../docs/guide/timeouts.md")
}

chapter! {
    #[cfg_attr(not(feature = "http"), doc = "[crate::http::Failure]: crate#features")]
    load [] [
        "crate::Upstream" "crate::Budget" "crate::Breaker" "crate::Cooldown" "crate::Bulkhead"
        "crate::Quota" "crate::Throttle" "crate::Health::Throttling" "crate::GaveUp" "crate::GaveUp::reason"
        "crate::RetryPolicy::aws" "crate::Budget::aws" "crate::StopReason::Budget" "crate::http::Failure"
        "crate::RetryPolicy::contention" "crate::Keyed" "crate::Upstream::call" "#parts" "#limit"
        "#collapse" "#storm" "#fleet"
    ]
    include_str!("../docs/guide/load.md"),
    "",
    "<figure id=\"parts\" class=\"picture\">",
    include_str!("../docs/parts.svg"),
    "<figcaption>The parts of an upstream, in the order in which an attempt asks them.</figcaption>",
    "</figure>",
    "",
    "<figure id=\"limit\" class=\"picture\">",
    include_str!("../docs/limit.svg"),
    "<figcaption>Limits that six algorithms learn on a server with 50 slots that queues.</figcaption>",
    "</figure>",
    "",
    "<figure id=\"collapse\" class=\"picture\">",
    include_str!("../docs/collapse.svg"),
    "<figcaption>A spike and a ramp: answers a second, as means of 600 runs.</figcaption>",
    "</figure>",
    "",
    "<figure id=\"storm\" class=\"picture\">",
    include_str!("../docs/storm.svg"),
    "<figcaption>A standstill of ten seconds: answers in time, and load, as means of 20 runs.</figcaption>",
    "</figure>",
    "",
    "<figure id=\"fleet\" class=\"picture\">",
    include_str!("../docs/fleet.svg"),
    "<figcaption>A fleet at a rate limit of 500 a second: requests a second.</figcaption>",
    "</figure>",
    "",
    wide_pictures!(),
    "",
    "Next: [`ends`]."
}

chapter! {
    ends ["http"] [
        "crate::RetryPolicy::contention" "crate::GaveUp::is_in_doubt"
        "crate::ResilienceExt::before_sending" "crate::GaveUp::is_without_effect"
        "crate::Verdict::without_effect"
        "crate::http::Classifier::keyed" "crate::Verdict::keyed" "crate::Breaker::with_open_time"
        "crate::GaveUp::conclusion"
        "crate::GaveUp::conclusion_if_first" "crate::http::headers::retry_after_secs"
        "crate::classify::ClassifyExt::cut_is"
    ]
    include_str!("../docs/guide/ends.md")
}

chapter! {
    configuration ["serde"] [
        "crate::RetryPolicy#configuration" "crate::HedgePolicy" "crate::FallbackPolicy"
        "crate::Upstream" "crate::config::duration" "crate::RetryPolicy::with_classifier"
        "crate::Upstream::with_shared_observer" "crate::Upstream::with_timer"
    ]
    include_str!("../docs/guide/configuration.md")
}

chapter! {
    observing ["tracing" "metrics"] [
        "crate::observe::Log" "crate::Upstream::display" "crate::http"
        "crate::Classify::error_type" "crate::observe::Metrics" "crate::observe::Event"
        "crate::Upstream::observed_by" "crate::upstream::Observed"
        "crate::observe::AttemptFailure::source" "crate::Upstream::with_shared_observer"
        "crate::Run::progressed" "crate::hedge()" "crate::Run::next" "crate::call::Admission"
        "crate::observe::HeldBy::as_str"
    ]
    include_str!("../docs/guide/observing.md")
}

chapter! {
    #[doc = "[llm_page]: crate::guide"]
    #[doc = "[grpc_page]: crate::guide::clients#grpc-with-tonic"]
    streams ["stream"] [
        "crate::stream::RetryStream::with_parts" "crate::stream::RetryStream::with_required_end"
        "crate::stream::RetryStream::with_resumption" "crate::StopReason::Partial"
        "crate::stream::RetryStream::with_whole_timeout" "crate::stream::RetryStream::shortened_to"
        "crate::GaveUp::is_partial" "crate::GaveUp::flatten" "crate::GaveUp::is_without_effect"
        "crate::StreamResilienceExt::idle_timeout" "crate::StreamResilienceExt::first_item_timeout"
        "crate::StreamResilienceExt::progress_timeout" "crate::retry()" "crate::Attempt::time_left"
    ]
    include_str!("../docs/guide/streams.md")
}

chapter! {
    #[doc = "[llm_page]: crate::guide"]
    quotas ["reqwest"] [
        "crate::Quota" "crate::Quota::with_learning" "crate::Quota::with_queue" "crate::http::learn"
        "crate::quota::learn" "crate::StopReason::Full"
        "crate::Upstream::at_cost" "crate::Upstream::quota_rate"
        "crate::quota::record" "crate::quota::Charge" "#quota" "#priority"
        "crate::Verdict::without_effect" "crate::http::Classifier"
        "crate::upstream::AtCost::with_group" "crate::Bulkhead" "crate::Cooldown"
    ]
    include_str!("../docs/guide/quotas.md"),
    "",
    "<figure id=\"quota\" class=\"picture\">",
    include_str!("../docs/quota.svg"),
    "<figcaption>One account: the used share of its limit, and refusals.</figcaption>",
    "</figure>",
    "",
    "<figure id=\"priority\" class=\"picture\">",
    include_str!("../docs/priority.svg"),
    "<figcaption>512 agents at a limit of 10 calls a second: finished agents.</figcaption>",
    "</figure>",
    "",
    wide_pictures!(),
    "",
    "Next: [`fleet`]."
}

chapter! {
    #[doc = "[fleet_page]: #the-program"]
    #[doc = "[redis_page]: #when-redis-is-away"]
    #[doc = "[server_page]: #the-server"]
    fleet ["fleet"] [
        "crate::Upstream" "crate::fleet::State" "crate::Upstream::fleet" "crate::GaveUp"
        "crate::Upstream::quota_rate"
        "crate::GaveUp::retry_after" "crate::Verdict::after" "crate::Breaker::with_open_time"
        "crate::StopReason::Full" "crate::StopReason::Budget" "crate::Drain" "#fleet-redis"
    ]
    include_str!("../docs/guide/fleet.md"),
    "",
    "<figure id=\"fleet-redis\" class=\"picture\">",
    include_str!("../docs/fleet-redis.svg"),
    "<figcaption>Eight processes with one limit of 200 a second: what the provider got.</figcaption>",
    "</figure>",
    "",
    wide_pictures!(),
    "",
    "Next: [`testing`]."
}

chapter! {
    testing ["chaos"] [
        "crate::time::ManualTimer" "crate::Upstream::with_seed" "crate::time::Seeded" "crate::Keyed"
        "crate::RetryPolicy::decide" "crate::time::Timer" "crate::chaos::Chaos"
        "crate::Run::blocking_next"
    ]
    include_str!("../docs/guide/testing.md")
}

chapter! {
    // It links to `ThreadTimer`, which does not exist there.
    #[cfg_attr(
        all(target_family = "wasm", target_os = "unknown"),
        allow(rustdoc::broken_intra_doc_links)
    )]
    runtimes [] [
        "crate::time::Timer" "crate::time::Timer::draw" "crate::time::ThreadTimer" "crate::Run"
        "crate::Run::blocking_next" "crate::time::Timer::park" "crate::cancel::Cancel" "crate::Run::next"
    ]
    include_str!("../docs/guide/runtimes.md")
}

chapter! {
    #[doc = "[clients_page]: #what-an-error-means"]
    #[doc = "[call_page]: #grpc-with-tonic"]
    #[doc = "[layer_page]: #grpc-with-tonic"]
    #[doc = "[codes_page]: #grpc-with-tonic"]
    #[doc = "[ways_page]: #grpc-with-tonic"]
    #[doc = "[sqlx_page]: #the-unit-of-a-retry"]
    #[doc = "[insert_page]: #the-unit-of-a-retry"]
    clients ["tokio"] [
        "crate::io::Classifier" "crate::RetryPolicy::contention" "crate::Attempt::number"
        "crate::retry()"
    ]
    include_str!("../docs/guide/clients.md")
}

chapter! {
    #[cfg_attr(not(feature = "http"), doc = "[crate::http]: crate#features")]
    #[cfg_attr(not(feature = "http"), doc = "[crate::http::Failure::into_cause]: crate#features")]
    #[cfg_attr(not(feature = "http"), doc = "[crate::http::Classifier::over]: crate#features")]
    migrating [] [
        "crate::Run" "crate::RetryPolicy::with_attempts" "crate::Backoff::exponential"
        "crate::RetryPolicy::with_classifier" "crate::Upstream::observed_by" "crate::Verdict::after"
        "crate::Upstream::with_timer" "crate::Run::attempt" "crate::Run::next"
        "crate::Run::blocking_next" "crate::Run::progressed" "crate::Budget"
        "crate::RetryPolicy::with_attempt_timeout" "crate::RetryPolicy::with_total_timeout"
        "crate::Bulkhead" "crate::hedge()" "crate::Upstream" "crate::Breaker" "crate::fallback()"
        "crate::Keyed" "crate::observe::Observe" "crate::Upstream::isolate" "crate::Upstream::reset"
        "crate::Backoff::fixed" "crate::Backoff::steps" "crate::GaveUp" "crate::GaveUp::cut"
        "crate::GaveUp::into_last" "crate::retry::Retry::on"
        "crate::Backoff::with_cap" "crate::RetryPolicy::with_hint_cap" "crate::http"
        "crate::observe::AttemptFailure::source" "crate::Backoff::fibonacci" "crate::Backoff::linear"
        "crate::Backoff::custom" "crate::Upstream::with_seed" "crate::classify::ClassifyExt::cut_is"
        "crate::Drain" "crate::Verdict::throttled" "crate::Verdict::at_least"
        "crate::RetryPolicy::with_throttled_backoff" "crate::RetryPolicy::with_healthy_backoff"
        "crate::ResilienceExt" "crate::Verdict::with_base"
        "crate::Backoff::delay" "crate::Breaker::with_open_time" "crate::breaker" "crate::Cooldown"
        "crate::StopReason::Open" "crate::Upstream::call" "crate::Upstream::try_admit"
        "crate::http::Failure::into_cause" "crate::http::Classifier::over"
    ]
    include_str!("../docs/guide/migrating.md")
}

chapter! {
    cookbook ["serde"] [
        "crate::retry()" "crate::Upstream::call" "crate::Budget" "crate::Breaker" "crate::Cooldown" "crate::Throttle"
        "crate::Bulkhead" "crate::Quota" "crate::hedge()" "crate::fallback()" "#which-part"
    ]
    include_str!("../docs/guide/cookbook.md"),
    "",
    "<figure id=\"which-part\" class=\"picture\">",
    include_str!("../docs/which-part.svg"),
    "<figcaption>An arrow to the right is a yes. The questions go on either way.</figcaption>",
    "</figure>",
    "",
    "<style>.picture { margin: 1em 0 } .picture svg { max-width: 100%; height: auto }</style>",
    "",
    "Next: [`wrong_retries`]."
}

chapter! {
    wrong_retries ["http"] [
        "crate::RetryPolicy::with_total_timeout" "crate::Backoff" "crate::Jitter::Full"
        "crate::Backoff::fixed" "crate::Upstream" "crate::http" "crate::Verdict::after"
        "crate::Cooldown"
    ]
    include_str!("../docs/guide/wrong_retries.md")
}

chapter! {
    wrong_results ["http" "stream"] [
        "crate::RetryPolicy::with_hint_cap" "crate::GaveUp::retry_after" "crate::http::Classifier"
        "crate::http::Classifier::non_idempotent" "crate::http::Classifier::keyed"
        "crate::stream::RetryStream::with_required_end"
        "crate::stream::RetryStream::with_resumption" "crate::StopReason::Partial"
        "crate::RetryPolicy::contention"
    ]
    include_str!("../docs/guide/wrong_results.md")
}

chapter! {
    operating ["metrics" "stream"] [
        "crate::Classify" "crate::classify::ClassifyExt::cut_is"
        "crate::stream::RetryStream::with_resumption" "crate::Upstream::isolate" "crate::Quota"
        "crate::stream::RetryStream::with_whole_timeout" "crate::Upstream::hold"
        "crate::observe::Metrics" "crate::GaveUp::is_in_doubt" "crate::Drain" "crate::StopReason::Full"
        "crate::Cooldown::with_cap"
    ]
    include_str!("../docs/guide/operating.md")
}

// A page of rustdoc has no files beside it. So the picture stands at the end of the page.
#[doc = include_str!("../DESIGN.md")]
#[doc = ""]
#[doc = "<figure class=\"picture\">"]
#[doc = include_str!("../docs/fleet.svg")]
#[doc = "<figcaption>The section on cooldowns: a fleet at a rate limit of 500 a second.</figcaption>"]
#[doc = "</figure>"]
#[doc = ""]
#[doc = "<style>img[src='docs/fleet.svg'] { display: none }</style>"]
#[doc = "<style>.picture { overflow-x: auto } .picture svg { max-width: 100%; height: auto }"]
#[doc = "@media (max-width: 700px) { .picture svg { min-width: 45rem } }</style>"]
pub mod design {}

#[doc = include_str!("../COMPARE.md")]
pub mod compare {}
