use std::time::Duration;

use resile_tower::deadline::{DeadlineLayer, until_deadline};
use resile_tower::resile::{Never, retry};
use resile_tower::resile_clients::grpc::{request, to_status_of_only_call};
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Error, Server};
use tonic::{Response, Status};

use crate::weather::weather_client::WeatherClient;
use crate::weather::weather_server::WeatherServer;
use crate::weather::{City, Report};
use crate::{Front, NEXT, ORDERS};

/// Serves with a deadline for each request: the time that its caller gives it, and 30 s at most.
pub async fn serve(front: WeatherServer<Front>, incoming: TcpIncoming) -> Result<(), Error> {
    let deadlines = DeadlineLayer::new(Duration::from_secs(30));
    Server::builder().layer(deadlines).add_service(front).serve_with_incoming(incoming).await
}

/// Handles an order in `Front` by a call of the next server and nothing else. It ends at the deadline of the order.
pub async fn order(next: &WeatherClient<Channel>, city: City) -> Result<Response<Report>, Status> {
    let call = async |attempt| next.clone().order(request(city.clone(), attempt)).await;
    retry(call, until_deadline(ORDERS), Never).on(&NEXT).await.map_err(to_status_of_only_call)
}
