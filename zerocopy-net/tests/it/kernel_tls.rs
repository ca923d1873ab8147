//! TLS in the kernel where it has it, and the way back where it has not.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use alluvium_zerocopy_net::kernel_tls::{KernelTls, KernelTlsError, handshake};
use alluvium_zerocopy_net::{CopyReason, Response, SendPath, SocketSender};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, ServerConfig, ServerConnection, StreamOwned};

use crate::support::{file_of, pattern, reader, slice, tcp_pair};
use crate::tls::{client_config, made_certificate, server_config};

const LEN: u64 = 300_000;

/// Both sides' configuration; the server's keys may be taken.
fn configs() -> (Arc<ServerConfig>, Arc<ClientConfig>) {
    let (certificate, key) = made_certificate();
    let client = client_config(&certificate);
    let mut server = (*server_config(certificate, key)).clone();
    server.enable_secret_extraction = true;
    (Arc::new(server), client)
}

/// A client that sends a request with the end of its handshake, and reads `LEN` bytes.
fn client(config: Arc<ClientConfig>, socket: TcpStream) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let name = ServerName::try_from("localhost").unwrap();
        let connection = ClientConnection::new(config, name).unwrap();
        let mut stream = StreamOwned::new(connection, socket);
        stream.write_all(b"request").unwrap();
        let mut received = vec![0; usize::try_from(LEN).unwrap()];
        stream.read_exact(&mut received).unwrap();
        received
    })
}

#[test]
fn a_tls_connection_is_sent_to_from_the_page_cache_or_copied_to_as_the_kernel_can() {
    let bytes = pattern(usize::try_from(LEN).unwrap());
    let file = file_of(&bytes);
    let (server_config, client_config) = configs();
    let (mut server, socket) = tcp_pair();
    let received = client(client_config, socket);
    let mut connection = ServerConnection::new(server_config).unwrap();
    handshake(&mut server, &mut connection).unwrap();
    let mut response = Response::new().slice(slice(&file, 0, LEN));
    let mut sender = SocketSender::new();
    let mut request = [0; 7];
    match KernelTls::attach(&server) {
        Ok(kernel) => {
            kernel.take_over(&server, connection).unwrap();
            server.read_exact(&mut request).unwrap();
            sender.send(&server, &mut response).unwrap();
            assert_eq!(sender.path(), SendPath::ZeroCopy);
        }
        Err(missing) => {
            println!("copied: {missing}");
            assert!(matches!(missing, KernelTlsError::Missing(_)), "{missing}");
            let mut stream = StreamOwned::new(connection, server);
            stream.read_exact(&mut request).unwrap();
            sender.send_wrapped(&mut stream, &mut response).unwrap();
            assert_eq!(sender.path(), SendPath::Copy(CopyReason::Wrapped));
        }
    }
    assert_eq!(&request, b"request");
    assert!(received.join().unwrap() == bytes);
}

#[test]
fn a_socket_without_keys_is_a_plain_one_whatever_the_kernel_can() {
    let (mut server, client) = tcp_pair();
    let _may_be_missing = KernelTls::attach(&server);
    let received = reader(client);
    server.write_all(b"plain").unwrap();
    drop(server);
    assert_eq!(received.join().unwrap(), b"plain");
}

#[test]
fn a_handshake_ends_in_an_error_for_a_client_that_speaks_no_tls() {
    let (server_config, _) = configs();
    let (mut server, mut client) = tcp_pair();
    client.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    client.shutdown(std::net::Shutdown::Write).unwrap();
    let mut connection = ServerConnection::new(server_config).unwrap();
    let error = handshake(&mut server, &mut connection).unwrap_err();
    let told = [ErrorKind::InvalidData, ErrorKind::UnexpectedEof].contains(&error.kind());
    assert!(told, "{error}");
}

#[cfg(feature = "tokio")]
#[tokio::test]
async fn a_handshake_from_tokio_leaves_what_follows_it_to_the_next_reader() {
    use alluvium_zerocopy_net::kernel_tls::handshake_async;

    let bytes = pattern(usize::try_from(LEN).unwrap());
    let (server_config, client_config) = configs();
    let (server, socket) = tcp_pair();
    let received = client(client_config, socket);
    server.set_nonblocking(true).unwrap();
    let mut server = tokio::net::TcpStream::from_std(server).unwrap();
    let mut connection = ServerConnection::new(server_config).unwrap();
    handshake_async(&mut server, &mut connection).await.unwrap();
    assert_eq!(connection.process_new_packets().unwrap().plaintext_bytes_to_read(), 0);
    let server = server.into_std().unwrap();
    server.set_nonblocking(false).unwrap();
    let mut stream = StreamOwned::new(connection, server);
    let mut request = [0; 7];
    stream.read_exact(&mut request).unwrap();
    assert_eq!(&request, b"request");
    stream.write_all(&bytes).unwrap();
    stream.flush().unwrap();
    assert!(received.join().unwrap() == bytes);
}
