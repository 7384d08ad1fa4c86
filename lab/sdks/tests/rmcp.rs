//! The program of the guide with `rmcp`, against a local server that refuses.

use std::time::Duration;

use resile_llm::Kind;
use resile_sdks::{answer, refusing, start_with};

include!("../programs/rmcp.rs");

async fn failure_at(url: &str) -> Failure {
    let error = tools(url).await.unwrap_err();
    failure(&error).unwrap_or_else(|| panic!("{error:?}"))
}

#[tokio::test]
async fn a_refusal_keeps_its_status_and_its_hint() {
    for (status, headers, kind, wait) in [
        ("429 X", &["retry-after: 20"][..], Kind::RateLimit, Some(Duration::from_secs(20))),
        ("503 X", &["retry-after: 3"], Kind::Overloaded, Some(Duration::from_secs(3))),
        ("500 X", &[], Kind::Server, None),
        ("401 X", &["www-authenticate: Bearer"], Kind::Auth, None),
        (
            "403 X",
            &["www-authenticate: Bearer error=\"insufficient_scope\""],
            Kind::Permission,
            None,
        ),
    ] {
        let failure = failure_at(&start_with(answer(status, headers, "no")).await).await;
        assert_eq!((failure.kind(), failure.wait()), (kind, wait), "{status}: {failure:?}");
    }
}

#[tokio::test]
async fn a_refused_connection_is_one_of_the_network() {
    let (_socket, address) = refusing();
    assert_eq!(failure_at(&format!("http://{address}/mcp")).await.kind(), Kind::Network);
}

#[test]
fn an_error_without_knowledge_has_no_failure() {
    assert!(failure(&anyhow::anyhow!("429")).is_none());
}
