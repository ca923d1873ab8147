//! TLS by rustls: certificate and key from PEM files.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use alluvium_zerocopy_net::kernel_tls::{KernelTls, handshake_async};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection};
use tokio::net::TcpStream;

use super::stream::Stream;

/// Accepts TLS connections.
#[derive(Clone)]
pub(crate) struct TlsAcceptor(Arc<ServerConfig>);

impl std::fmt::Debug for TlsAcceptor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TlsAcceptor")
    }
}

impl TlsAcceptor {
    /// Shakes hands with a client. Encryption is the kernel's where it can, so that logs are sent
    /// from the page cache; else rustls's.
    pub(crate) async fn accept(&self, mut socket: TcpStream) -> io::Result<Stream> {
        let Ok(kernel) = KernelTls::attach(&socket) else {
            let acceptor = tokio_rustls::TlsAcceptor::from(Arc::clone(&self.0));
            return Ok(Stream::Tls(Box::new(acceptor.accept(socket).await?)));
        };
        let connection = ServerConnection::new(Arc::clone(&self.0)).map_err(io::Error::other);
        let mut connection = connection?;
        handshake_async(&mut socket, &mut connection).await?;
        kernel.take_over(&socket, connection).map_err(io::Error::other)?;
        Ok(Stream::Plain(socket))
    }
}

/// Why TLS cannot be spoken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TlsError {
    #[error("cannot read {} as PEM", path.display())]
    Pem { path: PathBuf, source: pem::Error },
    #[error("the certificate in {} cannot be used with the key", path.display())]
    Unusable { path: PathBuf, source: rustls::Error },
}

/// Reads certificate and key.
pub(crate) fn tls_acceptor(cert: &Path, key: &Path) -> Result<TlsAcceptor, TlsError> {
    let bad = |path: &Path| {
        let path = path.to_path_buf();
        move |source| TlsError::Pem { path, source }
    };
    let chain = CertificateDer::pem_file_iter(cert)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(bad(cert))?;
    let private = PrivateKeyDer::from_pem_file(key).map_err(bad(key))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map(rustls::ConfigBuilder::<ServerConfig, rustls::WantsVerifier>::with_no_client_auth)
        .and_then(|builder| builder.with_single_cert(chain, private))
        .map_err(|source| TlsError::Unusable { path: cert.to_path_buf(), source })?;
    // For the kernel, which encrypts in our place where it can.
    config.enable_secret_extraction = true;
    Ok(TlsAcceptor(Arc::new(config)))
}
