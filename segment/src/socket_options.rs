//! Socket options that `rustix` lacks: TLS in the kernel. They stand in this crate because system
//! calls of our own do.

use std::io;
use std::os::fd::AsFd;

use crate::sys;

/// Options of level `SOL_TLS`, from `linux/tls.h`.
const TLS_TX: libc::c_int = 1;
const TLS_RX: libc::c_int = 2;

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TlsDirection {
    /// What is written is encrypted.
    Send,
    /// What is read is decrypted.
    Receive,
}

/// Puts the kernel's TLS between a connected TCP socket and its user. Until it has keys
/// ([`set_tls_keys`]) bytes pass unchanged.
///
/// # Errors
///
/// `NotFound` where the kernel has no TLS; as `setsockopt`.
pub fn use_tls(socket: impl AsFd) -> io::Result<()> {
    sys::set_socket_option(socket.as_fd(), libc::IPPROTO_TCP, libc::TCP_ULP, b"tls")
}

/// Gives the kernel the keys of one direction, as a `struct tls12_crypto_info_*` of `linux/tls.h`.
///
/// # Errors
///
/// As `setsockopt`.
pub fn set_tls_keys(
    socket: impl AsFd,
    direction: TlsDirection,
    crypto_info: &[u8],
) -> io::Result<()> {
    let option = match direction {
        TlsDirection::Send => TLS_TX,
        TlsDirection::Receive => TLS_RX,
    };
    sys::set_socket_option(socket.as_fd(), libc::SOL_TLS, option, crypto_info)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_socket_that_is_not_tcp_takes_neither_tls_nor_keys() {
        let (socket, _peer) = UnixStream::pair().unwrap();
        use_tls(&socket).unwrap_err();
        set_tls_keys(&socket, TlsDirection::Send, &[0; 40]).unwrap_err();
    }
}
