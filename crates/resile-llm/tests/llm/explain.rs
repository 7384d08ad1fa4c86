//! `Reply::explain`: what decided, what lost against it, and how sure the kind is.

use std::time::SystemTime;

use resile_llm::{Certainty, Explanation, Failure, Kind, Phase, Reason, Reply, Rule};
use serde_json::Value;

const NOW: SystemTime = SystemTime::UNIX_EPOCH;

fn explain(status: u16, body: &str) -> Explanation {
    Reply::new(body.as_bytes()).with_status(status).explain(NOW)
}

/// The kinds and the rules that lost.
fn lost(explained: &Explanation) -> Vec<(Kind, String)> {
    explained.lost().iter().map(|reason| (reason.kind(), reason.rule().to_string())).collect()
}

#[test]
fn an_explanation_has_the_same_failure_and_true_places() {
    let files = [
        include_str!("../data/llm/kinds.jsonl"),
        include_str!("../data/llm/clashes.jsonl"),
        include_str!("../data/llm/texts.jsonl"),
        include_str!("../data/llm/providers.jsonl"),
        include_str!("../data/llm/seconds.jsonl"),
    ];
    let mut places = 0;
    for line in files.iter().flat_map(|file| file.lines()) {
        let case: Value = serde_json::from_str(line).unwrap();
        let body = case["body"].as_str().map_or_else(|| case["body"].to_string(), str::to_owned);
        let phase = match case["phase"].as_str() {
            Some("transport") => Phase::Connect,
            Some("sse_mid") => Phase::Content,
            _ => Phase::Response,
        };
        let reply = Reply::new(body.as_bytes()).with_phase(phase);
        let status = case["status"].as_u64().map(|status| u16::try_from(status).unwrap());
        let reply = status.map_or(reply, |status| reply.with_status(status));
        let explained = reply.explain(NOW);
        let failure = reply.classify(NOW);
        assert_eq!(explained.failure(), &failure, "{line}");
        let decisive = explained.decisive();
        assert_eq!((decisive.kind(), decisive.rule()), (failure.kind(), failure.rule()), "{line}");
        assert!(explained.lost().iter().all(|reason| reason.kind() != failure.kind()), "{line}");
        assert_eq!(explained.certainty() == Certainty::Unsure, failure.is_by_status_alone());
        let is_by_words = matches!(decisive.rule(), Rule::Phrase(_) | Rule::Grammar(_));
        assert!(!is_by_words || decisive.text().is_some(), "{line}");
        for reason in explained.lost().iter().chain([decisive]) {
            if let Some(span) = reason.span() {
                let message = failure.message().unwrap();
                assert_eq!(message.get(span.clone()), reason.text(), "{line}");
                let next = message[span.end..].chars().next();
                assert!(!next.is_some_and(|next| next.is_ascii_alphabetic()), "{reason} in {line}");
                places += 1;
            }
        }
    }
    assert!(places > 300, "{places}");
}

#[test]
fn the_words_that_decided_have_a_place() {
    let body = "Sorry: your credit balance is too low to go on";
    let explained = explain(400, body);
    let decisive = explained.decisive();
    assert_eq!(explained.failure().kind(), Kind::QuotaExhausted);
    assert!(body[decisive.span().unwrap()].starts_with("credit balance"), "{decisive}");
    assert_eq!(explained.certainty(), Certainty::Likely);
    assert_eq!(lost(&explained), [(Kind::InvalidRequest, "status: 400".to_owned())]);
}

#[test]
fn a_code_that_decided_is_sure_unless_words_say_the_contrary() {
    let sure = explain(429, r#"{"error":{"code":"rate_limit_exceeded","message":"zzz"}}"#);
    assert_eq!(sure.decisive().text(), Some("rate_limit_exceeded"));
    assert_eq!((sure.decisive().span(), lost(&sure)), (None, Vec::new()));
    assert_eq!(sure.certainty(), Certainty::Sure);

    // Both kinds pass, so the verdict on a retry stays the same.
    let crowd = r#"{"error":{"code":"rate_limit_exceeded","message":"The server is busy."}}"#;
    assert_eq!(explain(429, crowd).certainty(), Certainty::Sure);
    assert_eq!(explain(429, crowd).lost()[0].kind(), Kind::Overloaded);

    let doubted = r#"{"error":{"code":"model_not_found","message":"rate limit reached"}}"#;
    let doubted = explain(429, doubted);
    assert_eq!(doubted.failure().kind(), Kind::NotFound);
    assert_eq!(doubted.certainty(), Certainty::Likely);
    let rules: Vec<_> = doubted.lost().iter().map(Reason::rule).collect();
    assert!(rules.contains(&Rule::Phrase("rate limit")), "{rules:?}");
    assert_eq!(rules.last(), Some(&Rule::Status(429)));
}

/// The words of a code's own page and the names of exceptions do not put the code in doubt.
#[test]
fn an_exact_code_is_sure_beside_its_own_words() {
    let message = "You exceeded your current quota, please check your plan and billing details.";
    let text = format!(
        "openai.RateLimitError: Error code: 429 - {{'error': {{'message': '{message}', 'type': \
         'insufficient_quota', 'param': None, 'code': 'insufficient_quota'}}}}"
    );
    let quota = Reply::new(text.as_bytes()).explain(NOW);
    assert_eq!(quota.decisive().text(), Some("insufficient_quota"));
    assert_eq!(quota.certainty(), Certainty::Sure, "{quota}");
    // The words mean a quota of a month or of a minute, so they speak against neither.
    let against =
        |explained: &Explanation| explained.to_string().contains("against phrase: exceeded");
    assert!(!against(&quota), "{quota}");
    let minute = format!(
        "429 {message} violations {{ quota_id: \"GenerateRequestsPerMinutePerProjectPerModel-FreeTier\" }}"
    );
    let minute = Reply::new(minute.as_bytes()).explain(NOW);
    assert_eq!(minute.failure().kind(), Kind::RateLimit);
    assert!(!against(&minute), "{minute}");
    assert_eq!(minute.certainty(), Certainty::Sure, "{minute}");

    let numbers = r#"{"error":{"message":"Request too large on tokens per min (TPM): Limit 30000, Requested 48213.","type":"tokens","code":"rate_limit_exceeded"}}"#;
    let numbers = explain(429, numbers);
    assert_eq!(
        (numbers.decisive().rule(), numbers.certainty()),
        (Rule::Arithmetic, Certainty::Sure)
    );
    // A generic code says less than an exact one.
    let generic = r#"{"error":{"type":"server_error","code":"invalid_api_key","message":"zzz"}}"#;
    assert_eq!(explain(401, generic).certainty(), Certainty::Sure);
}

#[test]
fn a_part_of_a_code_is_likely_and_a_status_alone_is_unsure() {
    let stem = explain(429, r#"{"error":{"code":"zzz_overload_zzz"}}"#);
    assert_eq!(stem.certainty(), Certainty::Likely);
    let status = explain(429, "zzz");
    assert_eq!(status.certainty(), Certainty::Unsure);
    assert_eq!(status.decisive().rule(), Rule::Status(429));
    assert!(Certainty::Unsure < Certainty::Likely && Certainty::Likely < Certainty::Sure);
    let words = [Certainty::Unsure, Certainty::Likely, Certainty::Sure];
    assert_eq!(words.map(|certainty| certainty.to_string()), ["unsure", "likely", "sure"]);
}

#[test]
fn arithmetic_details_and_endings_are_reasons() {
    let large = explain(429, "tokens per min: Limit 50, Requested 90");
    assert_eq!(large.decisive().rule(), Rule::Arithmetic);
    assert!(lost(&large).iter().any(|(kind, _)| *kind == Kind::RateLimit), "{large}");
    let body = r#"{"error":{"code":429,"message":"no","details":[{"violations":[
        {"quotaId":"RequestsPerDay"}]}]}}"#;
    assert_eq!(explain(429, body).decisive().rule(), Rule::Google("quota per day"));
    let body = r#"{"choices":[{"finish_reason":"content_filter"}]}"#;
    let ending = Reply::new(body.as_bytes()).with_status(200).explain(NOW);
    assert_eq!(ending.decisive().text(), Some("content_filter"));
}

#[test]
fn an_explanation_is_written_for_people() {
    let body = r#"{"error":{"code":"rate_limit_exceeded","message":"The daily limit is reached"}}"#;
    let written = explain(429, body).to_string();
    let lines: Vec<_> = written.lines().collect();
    assert!(lines[0].ends_with("(likely)") && lines[0].contains("daily limit"), "{written}");
    assert_eq!(
        lines[1..],
        [
            r#"against code: ratelimitexceeded (rate_limit): "rate_limit_exceeded""#,
            "against status: 429 (rate_limit)"
        ],
        "{written}"
    );
}

#[test]
fn a_mere_text_is_read_with_more_words_than_one_of_any_origin() {
    for (text, kind) in [
        ("The server is busy", Kind::Overloaded),
        ("zzz: 503 zzz", Kind::Unknown),
        ("", Kind::Unknown),
    ] {
        let failure = Failure::from_error_text(text);
        assert_eq!((failure.kind(), failure.phase()), (kind, Phase::Response), "{text}");
        assert!(Failure::find_in_text(text).is_none(), "{text}");
    }
}

#[test]
fn a_transport_that_nothing_explains_is_unsure() {
    let unknown = Failure::from_transport(&*Box::<dyn std::error::Error>::from("zzz"));
    assert_eq!((unknown.kind(), unknown.is_by_status_alone()), (Kind::Network, true));
    let known = Failure::from_transport(&*Box::<dyn std::error::Error>::from("connection reset"));
    assert_eq!((known.kind(), known.is_by_status_alone()), (Kind::Network, false));
}

#[test]
fn the_words_that_decided_end_with_a_whole_word_and_bracket() {
    let text = "httpx.RemoteProtocolError: peer closed connection without sending complete message \
                body (incomplete chunked read)";
    let explained = Reply::new(text.as_bytes()).explain(NOW);
    let found = explained.decisive().text().unwrap();
    assert!(found.ends_with("(incomplete chunked read)"), "{found}");
}

/// A bracket that ends far away or never is not a part of the words.
#[test]
fn the_words_that_decided_leave_out_a_long_bracket() {
    for rest in [" read", " and then (again) read)", &format!(" {})", "x".repeat(50)), " (read)"] {
        let text =
            format!("peer closed connection without sending a body (incomplete chunked{rest}");
        let explained = Reply::new(text.as_bytes()).explain(NOW);
        let found = explained.decisive().text().unwrap();
        assert!(found.ends_with("(incomplete chunked"), "{found}");
    }
}
