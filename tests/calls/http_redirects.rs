//! `http::error_for_status` and redirects: what the caller of a `POST` is told, over real sockets.

use std::sync::{Arc, Mutex};

use resile::http::{Classifier, Failure, error_for_status};
use resile::{Backoff, Classify, GaveUp, Never, RetryPolicy, StopReason, retry};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

const POST: Classifier = Classifier::non_idempotent();

/// A shop that takes each order, answers it with a redirect to the order and refuses to show it.
struct Shop {
    url: String,
    /// The methods of the requests, in order.
    requests: Arc<Mutex<Vec<String>>>,
}

impl Shop {
    /// Starts a shop that answers a `POST` with the status `first` and a `GET` with `second`.
    async fn start(first: u16, second: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/orders", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = requests.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = Vec::new();
                while !request.windows(4).any(|end| end == b"\r\n\r\n") {
                    if stream.read_buf(&mut request).await.unwrap_or(0) == 0 {
                        break;
                    }
                }
                let text = String::from_utf8_lossy(&request);
                let method = text.split(' ').next().unwrap_or_default().to_owned();
                let status = if method == "POST" { first } else { second };
                seen.lock().unwrap().push(method);
                let head = format!("HTTP/1.1 {status} On\r\nlocation: /orders/1\r\n");
                let end = "connection: close\r\ncontent-length: 0\r\n\r\n";
                let _ = stream.write_all((head + end).as_bytes()).await;
            }
        });
        Self { url, requests }
    }

    fn orders(&self) -> usize {
        self.requests.lock().unwrap().iter().filter(|method| *method == "POST").count()
    }

    async fn order(&self, follows: bool) -> Result<u16, GaveUp<Failure>> {
        let client = reqwest::Client::builder().no_proxy().retry(reqwest::retry::never());
        let none = reqwest::redirect::Policy::none();
        let client = if follows { client } else { client.redirect(none) }.build().unwrap();
        let policy = RetryPolicy::new().with_backoff(Backoff::none()).with_classifier(POST);
        let send = async |_| {
            let answer = error_for_status(client.post(&self.url).send().await?).await?;
            Ok::<_, Failure>(answer.status().as_u16())
        };
        retry(send, policy, Never).await
    }
}

/// A 303 tells of an order that was taken. A client that follows it reports the answer of the target, so
/// the order is sent again. One that follows no redirects sends one order and says that it came.
#[tokio::test]
async fn a_client_without_redirects_sends_one_order() {
    for second in [404, 409, 429] {
        let shop = Shop::start(303, second).await;
        assert_eq!(shop.order(false).await.unwrap(), 303);
        assert_eq!(*shop.requests.lock().unwrap(), ["POST"]);
    }
    let shop = Shop::start(303, 429).await;
    shop.order(true).await.unwrap_err();
    assert_eq!(shop.orders(), 3, "the crate cannot see a redirect that the client followed");
    let shop = Shop::start(303, 404).await;
    let gave_up = shop.order(true).await.unwrap_err();
    assert_eq!((shop.orders(), gave_up.is_without_effect()), (1, true), "nor here");
}

/// A 307 and a 308 tell that the order was not taken here. A 301 and a 302 do not tell it. None of them
/// is a success, and none is followed by a repetition.
#[tokio::test]
async fn a_redirect_that_is_not_followed_is_no_success() {
    for (status, in_doubt) in [(301, true), (302, true), (307, false), (308, false)] {
        let shop = Shop::start(status, 200).await;
        let gave_up = shop.order(false).await.unwrap_err();
        assert_eq!((gave_up.reason(), shop.orders()), (StopReason::Fatal, 1), "{status}");
        assert_eq!(gave_up.is_in_doubt(), in_doubt, "{status}: {gave_up}");
        assert_eq!(gave_up.is_without_effect(), !in_doubt, "{status}: {gave_up}");
        let failure = gave_up.into_last().unwrap();
        assert_eq!(failure.status().unwrap().as_u16(), status);
        assert_eq!(failure.headers()["location"], "/orders/1");
        assert_eq!(POST.error_type(&failure).unwrap(), status.to_string());
    }
}

/// A 303 that nobody follows has no content: a read succeeds with nothing, and an order whose answer is
/// read as JSON is in doubt although the server has taken it.
#[tokio::test]
async fn a_303_that_is_not_followed_has_no_content() {
    let shop = Shop::start(303, 303).await;
    let client = reqwest::Client::builder().no_proxy().retry(reqwest::retry::never());
    let client = client.redirect(reqwest::redirect::Policy::none()).build().unwrap();
    let policy = RetryPolicy::new().with_backoff(Backoff::none());
    let read = async |_| {
        let answer = error_for_status(client.get(&shop.url).send().await?).await?;
        Ok::<_, Failure>(answer.text().await?)
    };
    let get = policy.with_classifier(Classifier::idempotent());
    assert_eq!(retry(read, get, Never).await.unwrap(), "");
    let order = async |_| {
        let answer = error_for_status(client.post(&shop.url).send().await?).await?;
        Ok::<String, Failure>(answer.json().await?)
    };
    let gave_up = retry(order, policy.with_classifier(POST), Never).await.unwrap_err();
    assert_eq!((shop.orders(), gave_up.is_in_doubt()), (1, true), "{gave_up}");
}

/// [`Failure::check`] agrees with `error_for_status`.
#[test]
fn check_takes_the_same_redirects_for_failures() {
    for status in 200..400_u16 {
        let answer = ::http::Response::builder().status(status).body("").unwrap();
        let is_failure = matches!(status, 301 | 302 | 307 | 308);
        assert_eq!(Failure::check(answer).is_err(), is_failure, "{status}");
    }
}
