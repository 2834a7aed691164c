//! The one fact about a server's certificate that SCRAM channel binding needs.

use sha2::{Digest, Sha256, Sha384, Sha512};

/// Object identifiers of signature algorithms, with the hash that each one uses.
const ALGORITHMS: [(&[u8], Hash); 10] = [
    // PKCS #1 (RFC 8017): MD5 and SHA-1 count as SHA-256 (RFC 5929, section 4.1).
    (&[0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x01, 0x04], Hash::Sha256),
    (&[0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x01, 0x05], Hash::Sha256),
    (&[0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x01, 0x0B], Hash::Sha256),
    (&[0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x01, 0x0C], Hash::Sha384),
    (&[0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x01, 0x0D], Hash::Sha512),
    // ECDSA (RFC 5758).
    (&[0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x04, 0x01], Hash::Sha256),
    (&[0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x04, 0x03, 0x02], Hash::Sha256),
    (&[0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x04, 0x03, 0x03], Hash::Sha384),
    (&[0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x04, 0x03, 0x04], Hash::Sha512),
    (&[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x03, 0x02], Hash::Sha256),
];

#[derive(Clone, Copy)]
enum Hash {
    Sha256,
    Sha384,
    Sha512,
}

/// The `tls-server-end-point` of a DER certificate (RFC 5929): its hash by the hash function of its signature.
///
/// `None` when the certificate does not read or its signature has no such function (Ed25519); servers can't bind then
/// either.
pub(crate) fn end_point(certificate: &[u8]) -> Option<Vec<u8>> {
    let (tag, outer, _) = element(certificate)?;
    let (_, _, after_body) = element(outer)?;
    let (_, algorithm, _) = element(after_body)?;
    let (identifier_tag, identifier, _) = element(algorithm)?;
    if tag != SEQUENCE || identifier_tag != OBJECT_IDENTIFIER {
        return None;
    }
    let (_, hash) = ALGORITHMS.iter().find(|(known, _)| *known == identifier)?;
    Some(match hash {
        Hash::Sha256 => Sha256::digest(certificate).to_vec(),
        Hash::Sha384 => Sha384::digest(certificate).to_vec(),
        Hash::Sha512 => Sha512::digest(certificate).to_vec(),
    })
}

const SEQUENCE: u8 = 0x30;
const OBJECT_IDENTIFIER: u8 = 0x06;

/// Tag, content and what follows of the DER element at the start of `bytes`.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (tag, rest) = bytes.split_first()?;
    let (first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7F => (usize::from(*first), rest),
        0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(first & 0x0F))?;
            (digits.iter().fold(0_usize, |length, digit| length << 8 | usize::from(*digit)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((*tag, content, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_point_is_the_hash_of_the_whole_certificate() {
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = rcgen::CertificateParams::new(vec!["a".to_owned()]).unwrap().self_signed(&key).unwrap();
        let bytes = certificate.der().to_vec();
        assert_eq!(end_point(&bytes), Some(Sha256::digest(&bytes).to_vec()));
    }

    #[test]
    fn bytes_that_are_no_certificate_have_none() {
        for bytes in [&[][..], &[0x30], &[0x30, 0x80], &[0x30, 0x84, 0xFF, 0xFF, 0xFF, 0xFF], &[0x30, 2, 0x30, 0]] {
            assert_eq!(end_point(bytes), None);
        }
    }
}
