//! Streams that are wrapped by rustls: the bytes arrive, by the other way.

use std::io::{Read, Write};
use std::sync::Arc;
use std::thread;

use alluvium_zerocopy_net::{CopyReason, Response, SendPath, SocketSender};
use rustls::pki_types::{PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};

use crate::support::{file_of, pattern, slice, tcp_pair};

/// A certificate for `localhost` made for this test, and its key.
pub(crate) fn made_certificate() -> (Vec<u8>, Vec<u8>) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    (made.cert.der().to_vec(), made.signing_key.serialize_der())
}

pub(crate) fn server_config(certificate: Vec<u8>, key: Vec<u8>) -> Arc<ServerConfig> {
    let config = ServerConfig::builder().with_no_client_auth();
    let key = PrivatePkcs8KeyDer::from(key);
    Arc::new(config.with_single_cert(vec![certificate.into()], key.into()).unwrap())
}

pub(crate) fn client_config(certificate: &[u8]) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(certificate.into()).unwrap();
    Arc::new(ClientConfig::builder().with_root_certificates(roots).with_no_client_auth())
}

fn configs() -> (Arc<ServerConfig>, Arc<ClientConfig>) {
    let (certificate, key) = made_certificate();
    (server_config(certificate.clone(), key), client_config(&certificate))
}

#[test]
fn a_blocking_tls_stream_carries_headers_and_slices() {
    let bytes = pattern(900_000);
    let file = file_of(&bytes);
    let (server_config, client_config) = configs();
    let (server, client) = tcp_pair();
    let received = thread::spawn(move || {
        let name = ServerName::try_from("localhost").unwrap();
        let connection = ClientConnection::new(client_config, name).unwrap();
        let mut stream = rustls::StreamOwned::new(connection, client);
        let mut received = vec![0; 900_004];
        stream.read_exact(&mut received).unwrap();
        received
    });
    let connection = ServerConnection::new(server_config).unwrap();
    let mut stream = rustls::StreamOwned::new(connection, server);
    let mut sender = SocketSender::new();
    let mut response = Response::new().bytes(*b"head").slice(slice(&file, 0, 900_000));
    sender.send_wrapped(&mut stream, &mut response).unwrap();
    assert_eq!(sender.path(), SendPath::Copy(CopyReason::Wrapped));
    assert!(received.join().unwrap() == [b"head", &bytes[..]].concat());
    stream.flush().unwrap();
}

#[cfg(feature = "tokio")]
#[tokio::test]
async fn a_tls_stream_of_tokio_carries_headers_and_slices() {
    use tokio::io::AsyncReadExt;
    use tokio::net::UnixStream;
    use tokio_rustls::{TlsAcceptor, TlsConnector};

    let bytes = pattern(900_000);
    let file = file_of(&bytes);
    let (server_config, client_config) = configs();
    let (server, client) = UnixStream::pair().unwrap();
    let receive = async {
        let name = ServerName::try_from("localhost").unwrap();
        let mut stream = TlsConnector::from(client_config).connect(name, client).await.unwrap();
        let mut received = vec![0; 900_004];
        stream.read_exact(&mut received).await.unwrap();
        received
    };
    let send = async {
        let mut stream = TlsAcceptor::from(server_config).accept(server).await.unwrap();
        let mut sender = SocketSender::new();
        let mut response = Response::new().bytes(*b"head").slice(slice(&file, 0, 900_000));
        sender.send_wrapped_async(&mut stream, &mut response).await.unwrap();
        stream
    };
    let (received, _stream) = tokio::join!(receive, send);
    assert!(received == [b"head", &bytes[..]].concat());
}
