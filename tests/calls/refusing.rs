//! An address that refuses connections.

use std::net::SocketAddr;

use tokio::net::TcpSocket;

/// Returns an address that refuses connections as long as the socket lives: the port is bound but does not listen, so
/// nothing else can take it.
pub(crate) fn refusing() -> (TcpSocket, SocketAddr) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}
