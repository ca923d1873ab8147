//! Keys in the form that Linux takes: `struct tls12_crypto_info_*` of `linux/tls.h`.

use rustls::ConnectionTrafficSecrets;

/// The versions that Linux knows.
#[derive(Clone, Copy, Debug)]
pub(super) enum Version {
    V1_2,
    V1_3,
}

/// `TLS_CIPHER_AES_GCM_128` and its like.
const AES_GCM_128: u16 = 51;
const AES_GCM_256: u16 = 52;
const CHACHA20_POLY1305: u16 = 54;

/// Bytes of an initialisation vector that the kernel calls the salt.
const SALT_BYTES: usize = 4;

/// The keys of one direction; `None` for a cipher that the kernel lacks.
pub(super) fn crypto_info(
    version: Version,
    sequence: u64,
    secrets: &ConnectionTrafficSecrets,
) -> Option<Vec<u8>> {
    let (cipher, key, iv, has_salt) = match secrets {
        ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (AES_GCM_128, key, iv, true),
        ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (AES_GCM_256, key, iv, true),
        ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => {
            (CHACHA20_POLY1305, key, iv, false)
        }
        _ => return None,
    };
    let (salt, iv) = iv.as_ref().split_at(if has_salt { SALT_BYTES } else { 0 });
    let version: u16 = match version {
        Version::V1_2 => 0x0303,
        Version::V1_3 => 0x0304,
    };
    #[expect(clippy::host_endian_bytes, reason = "fields of a struct that the kernel reads")]
    let [version, cipher] = [version.to_ne_bytes(), cipher.to_ne_bytes()];
    // The record number is bytes on the wire.
    Some([&version, &cipher, iv, key.as_ref(), salt, &sequence.to_be_bytes()].concat())
}

#[cfg(test)]
mod tests {
    use rustls::crypto::cipher::{AeadKey, Iv};

    use super::*;

    fn key() -> AeadKey {
        AeadKey::from([7; 32])
    }

    fn iv() -> Iv {
        Iv::copy(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12])
    }

    #[test]
    fn keys_have_the_layout_of_the_kernels_structs() {
        let aes = ConnectionTrafficSecrets::Aes256Gcm { key: key(), iv: iv() };
        let aes = crypto_info(Version::V1_3, 5, &aes).unwrap();
        assert_eq!(aes.len(), 56);
        assert_eq!(aes[4..12], [5, 6, 7, 8, 9, 10, 11, 12]);
        assert_eq!(aes[12..44], [7; 32]);
        assert_eq!(aes[44..], [1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 5]);
        let chacha = ConnectionTrafficSecrets::Chacha20Poly1305 { key: key(), iv: iv() };
        let chacha = crypto_info(Version::V1_2, 5, &chacha).unwrap();
        assert_eq!(chacha.len(), 56);
        assert_eq!(chacha[4..16], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn version_and_cipher_come_first() {
        let aes = ConnectionTrafficSecrets::Aes256Gcm { key: key(), iv: iv() };
        assert_eq!(crypto_info(Version::V1_3, 0, &aes).unwrap()[..4], [0x04, 0x03, 52, 0]);
    }
}
