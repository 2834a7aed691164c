//! The fingerprint of a certificate.

use aws_lc_rs::digest::{SHA256, digest};
use std::fmt;

/// SHA-256 of a certificate's DER bytes: the number that `openssl x509 -fingerprint -sha256` shows.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// That of a certificate.
    pub fn of(certificate: &[u8]) -> Fingerprint {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest(&SHA256, certificate).as_ref());
        Fingerprint(bytes)
    }

    /// Reads 64 hexadecimal digits of either case, with or without colons between pairs.
    pub fn parse(text: &str) -> Option<Fingerprint> {
        let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b':').collect();
        let mut bytes = [0; 32];
        if digits.len() != 2 * bytes.len() {
            return None;
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |character: u8| char::from(character).to_digit(16);
            *byte = (digit(pair[0])? * 16 + digit(pair[1])?) as u8;
        }
        Some(Fingerprint(bytes))
    }
}

/// Writes 64 lower-case hexadecimal digits.
impl fmt::Display for Fingerprint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::Fingerprint;

    #[test]
    fn a_fingerprint_is_read_as_openssl_and_as_we_write_it() {
        // SHA-256 of the three bytes "abc", from FIPS 180-2, appendix B.1.
        let known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(Fingerprint::of(b"abc").to_string(), known);
        assert_eq!(Fingerprint::parse(known), Some(Fingerprint::of(b"abc")));
        let pairs: Vec<String> =
            known.to_uppercase().as_bytes().chunks(2).map(|pair| String::from_utf8_lossy(pair).into()).collect();
        assert_eq!(Fingerprint::parse(&pairs.join(":")), Some(Fingerprint::of(b"abc")));
        for wrong in ["", "ba78", &known[1..], &format!("{known}0"), &known.replace('b', "é"), &known.replace('b', "g")]
        {
            assert_eq!(Fingerprint::parse(wrong), None, "{wrong}");
        }
    }
}
