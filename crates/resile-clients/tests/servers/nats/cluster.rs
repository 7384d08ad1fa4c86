//! A cluster of three servers whose leader dies.

use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;

use async_nats::jetstream::Context;
use async_nats::jetstream::context::PublishErrorKind;
use async_nats::jetstream::stream::Config;
use server::Server;

use super::start::{Nats, connect, context, hasty, seen, start, stored, stream};
use crate::row::{row, within};

/// Starts three servers that know each other.
fn three() -> Vec<Server<Nats>> {
    let listeners = [(); 3].map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
    let ports = listeners.each_ref().map(|it| it.local_addr().unwrap().port());
    let routes = ports.map(|port| format!("nats://127.0.0.1:{port}")).join(", ");
    drop(listeners);
    let configuration = |(number, port): (usize, &u16)| {
        format!(
            "server_name: server{number}
             cluster {{ name: three, listen: \"127.0.0.1:{port}\", routes: [{routes}] }}"
        )
    };
    ports.iter().enumerate().map(configuration).map(|text| start(&text)).collect()
}

/// Creates a stream with three copies, as soon as the cluster has a leader.
async fn create(context: &Context) -> String {
    let copies = Config { num_replicas: 3, ..stream("s") };
    loop {
        match context.create_stream(copies.clone()).await {
            Ok(stream) => {
                let cluster = stream.cached_info().cluster.clone();
                if let Some(leader) = cluster.and_then(|cluster| cluster.leader) {
                    return leader;
                }
            }
            Err(error) => {
                let (again, ..) = seen(&error).unwrap_or_else(|| panic!("no verdict: {error}"));
                assert!(again, "{error}"); // the election of the cluster passes
            }
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// async-nats says `StreamNotFound` while the stream has no leader. The stream comes back.
#[tokio::test]
async fn a_stream_without_a_leader_is_not_found_for_a_while() {
    within(async {
        let mut servers = three();
        let leader = create(&context(&connect(servers[0].port()).await)).await;
        let leader: usize = leader.strip_prefix("server").unwrap().parse().unwrap();
        let follower = servers[(leader + 1) % 3].port();
        let context = hasty(&connect(follower).await);
        context.publish("s", "before".into()).await.unwrap().await.unwrap();
        servers[leader].kill();

        let mut not_found = 0;
        loop {
            let Err(error) = context.publish("s", "after".into()).await.unwrap().await else {
                break;
            };
            let (again, not_idempotent, ..) = seen(&error).unwrap();
            assert!(again && !not_idempotent, "{error}");
            if error.kind() == PublishErrorKind::StreamNotFound {
                assert_eq!(seen(&error), row("nats", "StreamNotFound"), "{error}");
                not_found += 1;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert!(not_found > 0, "the client told the election from a stream that does not exist");
        assert!(stored(&context, "s").await >= 2);
    })
    .await;
}
