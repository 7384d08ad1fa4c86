use std::time::Duration;

use resile_tower::deadline::{Deadline, DeadlineLayer};
use resile_tower::resile::RetryPolicy;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Error, Server};

use crate::Front;
use crate::weather::weather_server::WeatherServer;

/// Serves with a deadline for each request: the time that its caller gives it, and 30 s at most.
pub async fn serve(front: WeatherServer<Front>, incoming: TcpIncoming) -> Result<(), Error> {
    let deadlines = DeadlineLayer::new(Duration::from_secs(30));
    Server::builder().layer(deadlines).add_service(front).serve_with_incoming(incoming).await
}

/// Returns the policy for a `resile::retry` in a handler: the call ends at the deadline of the request.
pub fn until_deadline<C: Copy>(policy: RetryPolicy<C>) -> RetryPolicy<C> {
    Deadline::current().map_or(policy, |deadline| policy.shortened_to(deadline.left()))
}
