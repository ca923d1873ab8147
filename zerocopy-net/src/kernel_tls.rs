//! TLS in the kernel: `sendfile` goes on working under encryption.
//!
//! The handshake is rustls's. Then its keys go to the socket, and what is written there, or sent by
//! `sendfile`, is encrypted by the kernel; what is read from it was decrypted.

mod keys;

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;

use alluvium_segment::socket_options::{TlsDirection, set_tls_keys, use_tls};
use rustls::{ProtocolVersion, ServerConnection};

/// Proof that the kernel will encrypt on a socket once it has the keys. Until then it is a plain
/// socket.
#[derive(Debug)]
pub struct KernelTls(());

/// Why the kernel does not encrypt for a socket.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KernelTlsError {
    /// The kernel has no TLS, or not for this kind of socket. The socket is as before: wrap it.
    #[error("the kernel has no tls for this socket")]
    Missing(#[source] io::Error),
    /// The handshake is not over, or rustls has bytes that it has not handed out. Close the socket.
    #[error("the tls connection holds bytes of its own")]
    Unready,
    /// The connection uses a version or cipher that the kernel lacks. Close the socket.
    #[error("the kernel lacks the tls version or cipher of the connection")]
    Cipher,
    /// rustls keeps the keys: `enable_secret_extraction` is not set. Close the socket.
    #[error("the tls connection does not hand out its keys")]
    Secrets(#[source] rustls::Error),
    /// The kernel refused the keys. Close the socket.
    #[error("the kernel refuses the keys of the tls connection")]
    Keys(#[source] io::Error),
}

impl KernelTls {
    /// Asks the kernel to encrypt on a connected TCP socket, before or after the handshake.
    ///
    /// This is the probe as well: where it fails, nothing has changed, and the stream is wrapped
    /// by rustls as ever. The kernel loads its `tls` module at the first call, if it has one.
    ///
    /// # Errors
    ///
    /// `Missing`.
    pub fn attach(socket: impl AsFd) -> Result<Self, KernelTlsError> {
        use_tls(socket).map_err(KernelTlsError::Missing)?;
        Ok(Self(()))
    }

    /// Gives the keys of a finished handshake to the kernel. From now on the socket is read and
    /// written in plain: send with [`SocketSender::send`](crate::SocketSender::send) and its like.
    ///
    /// The connection must not have read beyond the handshake, which [`handshake`] sees to. A
    /// read that fails with `EIO` has met a control record, most often the end of the connection.
    ///
    /// # Errors
    ///
    /// Any but `Missing`: close the socket.
    pub fn take_over(
        self,
        socket: impl AsFd,
        mut connection: ServerConnection,
    ) -> Result<(), KernelTlsError> {
        if connection.is_handshaking() || connection.wants_write() || has_plaintext(&mut connection)
        {
            return Err(KernelTlsError::Unready);
        }
        let version = match connection.protocol_version() {
            Some(ProtocolVersion::TLSv1_2) => keys::Version::V1_2,
            Some(ProtocolVersion::TLSv1_3) => keys::Version::V1_3,
            _ => return Err(KernelTlsError::Cipher),
        };
        let secrets = connection.dangerous_extract_secrets().map_err(KernelTlsError::Secrets)?;
        for (direction, (sequence, secrets)) in
            [(TlsDirection::Send, secrets.tx), (TlsDirection::Receive, secrets.rx)]
        {
            let info = keys::crypto_info(version, sequence, &secrets);
            let info = info.ok_or(KernelTlsError::Cipher)?;
            set_tls_keys(socket.as_fd(), direction, &info).map_err(KernelTlsError::Keys)?;
        }
        Ok(())
    }
}

/// Does the handshake on a blocking socket and reads not one byte beyond it, so that the kernel
/// can go on from there; so can rustls, with `rustls::StreamOwned`.
///
/// # Errors
///
/// As the socket; `InvalidData` for what is no TLS.
pub fn handshake(
    socket: &mut (impl Read + Write),
    connection: &mut ServerConnection,
) -> io::Result<()> {
    loop {
        socket.write_all(&output(connection)?)?;
        if !connection.is_handshaking() {
            return socket.flush();
        }
        let mut record = vec![0; RECORD_HEADER_BYTES];
        socket.read_exact(&mut record)?;
        record.resize(record_bytes(&record), 0);
        socket.read_exact(&mut record[RECORD_HEADER_BYTES..])?;
        if let Err(error) = feed(connection, &record) {
            // The alert that tells the client; the error is what counts.
            let _told = socket.write_all(&output(connection)?);
            return Err(error);
        }
    }
}

/// As [`handshake`], on a socket of tokio. If it is dropped before its end, the socket can only be
/// closed.
///
/// # Errors
///
/// As [`handshake`].
#[cfg(feature = "tokio")]
pub async fn handshake_async(
    socket: &mut (impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin),
    connection: &mut ServerConnection,
) -> io::Result<()> {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    loop {
        socket.write_all(&output(connection)?).await?;
        if !connection.is_handshaking() {
            return socket.flush().await;
        }
        let mut record = vec![0; RECORD_HEADER_BYTES];
        socket.read_exact(&mut record).await?;
        record.resize(record_bytes(&record), 0);
        socket.read_exact(&mut record[RECORD_HEADER_BYTES..]).await?;
        if let Err(error) = feed(connection, &record) {
            let _told = socket.write_all(&output(connection)?).await;
            return Err(error);
        }
    }
}

/// Bytes before each TLS record: its kind, version and length.
const RECORD_HEADER_BYTES: usize = 5;

/// The length of the record with this header: 64 KiB and a little at most.
fn record_bytes(header: &[u8]) -> usize {
    RECORD_HEADER_BYTES + usize::from(u16::from_be_bytes([header[3], header[4]]))
}

/// What rustls wants to send.
fn output(connection: &mut ServerConnection) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    while connection.wants_write() {
        connection.write_tls(&mut bytes)?;
    }
    Ok(bytes)
}

/// Gives one record to rustls.
fn feed(connection: &mut ServerConnection, mut record: &[u8]) -> io::Result<()> {
    while !record.is_empty() {
        connection.read_tls(&mut record)?;
        let processed = connection.process_new_packets();
        processed.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
    }
    Ok(())
}

/// Whether the client's data was decrypted already.
fn has_plaintext(connection: &mut ServerConnection) -> bool {
    connection.process_new_packets().is_ok_and(|state| state.plaintext_bytes_to_read() > 0)
}
