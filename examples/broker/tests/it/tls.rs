//! The broker through TLS by rustls.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::client::{Client, TestBroker, batch};

/// A certificate for `localhost`, with the files that the broker reads it from.
pub(crate) struct Certificate {
    der: CertificateDer<'static>,
    pub(crate) files: [PathBuf; 2],
}

impl Certificate {
    pub(crate) fn new(folder: &Path) -> Self {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let files = ["cert.pem", "key.pem"].map(|name| folder.join(name));
        fs::write(&files[0], made.cert.pem()).unwrap();
        fs::write(&files[1], made.signing_key.serialize_pem()).unwrap();
        Self { der: made.cert.der().clone(), files }
    }

    /// A connection of a client that trusts it.
    pub(crate) fn connect(&self, addr: SocketAddr) -> StreamOwned<ClientConnection, TcpStream> {
        let mut roots = RootCertStore::empty();
        roots.add(self.der.clone()).unwrap();
        let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        let name = ServerName::try_from("localhost").unwrap();
        let connection = ClientConnection::new(Arc::new(config), name).unwrap();
        let socket = TcpStream::connect(addr).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        StreamOwned::new(connection, socket)
    }
}

#[test]
fn a_client_produces_and_fetches_through_tls_and_one_without_it_is_hung_up_on() {
    let disk = tempfile::tempdir().unwrap();
    let certificate = Certificate::new(disk.path());
    let [cert, key] = certificate.files.clone();
    let data = disk.path().join("data");
    fs::create_dir(&data).unwrap();
    let broker = TestBroker::start_with(&data, |settings| settings.tls = Some((cert, key)));
    let mut plain = Client::connect(broker.addr);
    plain.socket.write_all(&[0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 1, 0xff, 0xff]).unwrap();

    let mut client = Client::over(certificate.connect(broker.addr));
    client.create("t", 1);
    let value = "v".repeat(100_000);
    let sent = batch(&[&*value; 8]);
    assert_eq!(client.append("t", &["a"]), 0);
    let appended = client.produce("t", sent.clone());
    assert_eq!((appended.error_code, appended.base_offset), (0, 1));
    let read = client.fetch("t", 1);
    assert_eq!((read.error_code, read.high_watermark), (0, 9));
    let records = read.records.unwrap();
    // The base offset in front and the epoch behind the length are the broker's.
    assert!(records.len() == sent.len() && records[16..] == sent[16..]);

    let mut answer = Vec::new();
    // At most the alert of TLS comes, then the end, or a reset.
    plain.socket.read_to_end(&mut answer).ok();
    assert!(answer.len() < 10, "{answer:?}");
    assert!(broker.stop());
}
