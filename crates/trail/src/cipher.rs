//! Keys of encrypted files.
//!
//! Each file has a random key of its own, which stands in the file's header, wrapped by a *master key* that the home keeps.
//! Whoever has the master key reads the file; the trail alone tells nobody anything.
//!
//! A file key encrypts records of one file by one process, numbered from 0: a number is the nonce, and none comes twice. A
//! process that goes on with a trail makes a new file with a new key, so that a repaired tail is never written over under
//! the same key.

use aws_lc_rs::aead::{self, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::rand;
use std::fmt;
use zeroize::Zeroizing;

/// Bytes that an encrypted part is longer than its clear text.
pub const TAG_BYTES: usize = 16;

/// Bytes of a nonce.
pub const NONCE_BYTES: usize = 12;

/// Bytes of a master key.
pub const MASTER_KEY_BYTES: usize = 32;

/// Bytes of the random name of a file, which binds a wrapped key to its file.
pub const FILE_ID_BYTES: usize = 16;

/// How the data of a file is encrypted: AES in Galois/Counter Mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Algorithm {
    /// With 128-bit keys.
    Aes128,
    /// With 192-bit keys.
    Aes192,
    /// With 256-bit keys.
    #[default]
    Aes256,
}

impl Algorithm {
    /// The number in a file header: bits of the key.
    pub fn bits(self) -> u16 {
        match self {
            Algorithm::Aes128 => 128,
            Algorithm::Aes192 => 192,
            Algorithm::Aes256 => 256,
        }
    }

    /// The algorithm with keys of so many bits.
    pub fn of_bits(bits: u16) -> Option<Algorithm> {
        [Algorithm::Aes128, Algorithm::Aes192, Algorithm::Aes256].into_iter().find(|algorithm| algorithm.bits() == bits)
    }

    fn aead(self) -> &'static aead::Algorithm {
        match self {
            Algorithm::Aes128 => &aead::AES_128_GCM,
            Algorithm::Aes192 => &aead::AES_192_GCM,
            Algorithm::Aes256 => &aead::AES_256_GCM,
        }
    }

    fn key_bytes(self) -> usize {
        usize::from(self.bits()) / 8
    }
}

/// Writes `AES256`, as the parameter does.
impl fmt::Display for Algorithm {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&format!("AES{}", self.bits()))
    }
}

/// A key that wraps file keys. Wiped from memory when it goes.
#[derive(Clone)]
pub struct MasterKey {
    /// Its name.
    pub name: String,
    /// Its version, from 1: each renewal makes another key of the same name.
    pub version: u32,
    /// The key itself.
    pub secret: Zeroizing<[u8; MASTER_KEY_BYTES]>,
}

/// Shows no secret.
impl fmt::Debug for MasterKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "MasterKey({} version {})", self.name, self.version)
    }
}

/// Where master keys are kept.
pub trait MasterKeys: Send + Sync {
    /// The version that new files use.
    ///
    /// # Errors
    /// [`KeyError::Unavailable`]; [`KeyError::Missing`] when there is none.
    fn current(&self) -> Result<MasterKey, KeyError>;

    /// Version `version` of the key called `name`.
    ///
    /// # Errors
    /// [`KeyError::Unavailable`]; [`KeyError::Missing`].
    fn find(&self, name: &str, version: u32) -> Result<MasterKey, KeyError>;
}

/// Why a file can't be encrypted or decrypted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// Nobody gave a place where master keys are kept.
    #[error("no wallet with master keys is at hand")]
    NoKeys,
    /// There is no such key.
    #[error("the wallet has no such master key")]
    Missing,
    /// There is one, but it is not the one that the file was written with.
    #[error("the wallet has a key of that name and version, but it is another one: the file comes from another wallet")]
    Wrong,
    /// Keys can't be looked up.
    #[error("the wallet can't be used: {reason}")]
    Unavailable {
        /// Why not.
        reason: String,
    },
    /// The cipher or the source of randomness refused.
    #[error("the cryptographic library refused")]
    Library,
}

/// What a file header says about the key of its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrappedKey {
    /// How the data is encrypted.
    pub algorithm: Algorithm,
    /// Name of the master key.
    pub name: String,
    /// Version of the master key.
    pub version: u32,
    /// Random name of the file.
    pub file_id: [u8; FILE_ID_BYTES],
    /// Nonce of the wrapping.
    pub nonce: [u8; NONCE_BYTES],
    /// The file key, encrypted by AES256 under the master key.
    pub wrapped: Vec<u8>,
}

/// The key of one file.
pub struct FileKey {
    key: LessSafeKey,
}

impl FileKey {
    /// Makes a new key, and wraps it by the current master key.
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn generate(algorithm: Algorithm, keys: &dyn MasterKeys) -> Result<(FileKey, WrappedKey), KeyError> {
        let master = keys.current()?;
        let mut secret = Zeroizing::new(vec![0; algorithm.key_bytes()]);
        let mut described = WrappedKey {
            algorithm,
            name: master.name.clone(),
            version: master.version,
            file_id: [0; FILE_ID_BYTES],
            nonce: [0; NONCE_BYTES],
            wrapped: Vec::new(),
        };
        for random in [&mut secret[..], &mut described.file_id, &mut described.nonce] {
            rand::fill(random).map_err(|_| KeyError::Library)?;
        }
        let mut wrapped = secret.to_vec();
        let nonce = Nonce::assume_unique_for_key(described.nonce);
        master_key(&master)?
            .seal_in_place_append_tag(nonce, Aad::from(described.bound()), &mut wrapped)
            .map_err(|_| KeyError::Library)?;
        described.wrapped = wrapped;
        Ok((FileKey { key: file_key(algorithm, &secret)? }, described))
    }

    /// The key that a file header speaks of.
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn unwrap(described: &WrappedKey, keys: &dyn MasterKeys) -> Result<FileKey, KeyError> {
        let master = keys.find(&described.name, described.version)?;
        let mut wrapped = Zeroizing::new(described.wrapped.clone());
        let nonce = Nonce::assume_unique_for_key(described.nonce);
        let secret = master_key(&master)?
            .open_in_place(nonce, Aad::from(described.bound()), &mut wrapped)
            .map_err(|_| KeyError::Wrong)?;
        Ok(FileKey { key: file_key(described.algorithm, secret)? })
    }

    /// Encrypts `bytes` in place and returns the tag that belongs behind them. `nonce` must not have been used with this key.
    ///
    /// # Errors
    /// [`KeyError::Library`].
    #[inline]
    pub fn seal(&self, nonce: [u8; NONCE_BYTES], about: &[u8], bytes: &mut [u8]) -> Result<[u8; TAG_BYTES], KeyError> {
        let nonce = Nonce::assume_unique_for_key(nonce);
        let tag = self.key.seal_in_place_separate_tag(nonce, Aad::from(about), bytes).map_err(|_| KeyError::Library)?;
        tag.as_ref().try_into().map_err(|_| KeyError::Library)
    }

    /// Decrypts `bytes`, at whose end the tag stands, in place, and returns how many bytes of clear text there are; `None`
    /// when they are not what was encrypted with this `nonce` and `about`.
    #[inline]
    pub fn open(&self, nonce: [u8; NONCE_BYTES], about: &[u8], bytes: &mut [u8]) -> Option<usize> {
        let nonce = Nonce::assume_unique_for_key(nonce);
        self.key.open_in_place(nonce, Aad::from(about), bytes).ok().map(|clear| clear.len())
    }
}

impl WrappedKey {
    /// What the wrapping is bound to: nothing of it can be exchanged for another file's.
    fn bound(&self) -> Vec<u8> {
        let mut bound = Vec::with_capacity(64);
        bound.extend_from_slice(b"drover trail key 1");
        bound.extend_from_slice(&self.algorithm.bits().to_be_bytes());
        bound.extend_from_slice(&self.version.to_be_bytes());
        bound.extend_from_slice(&self.file_id);
        bound.extend_from_slice(self.name.as_bytes());
        bound
    }
}

fn master_key(master: &MasterKey) -> Result<LessSafeKey, KeyError> {
    file_key(Algorithm::Aes256, &master.secret[..])
}

fn file_key(algorithm: Algorithm, secret: &[u8]) -> Result<LessSafeKey, KeyError> {
    UnboundKey::new(algorithm.aead(), secret).map(LessSafeKey::new).map_err(|_| KeyError::Library)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct One(MasterKey);

    impl MasterKeys for One {
        fn current(&self) -> Result<MasterKey, KeyError> {
            Ok(self.0.clone())
        }

        fn find(&self, name: &str, version: u32) -> Result<MasterKey, KeyError> {
            if (name, version) == (&*self.0.name, self.0.version) { Ok(self.0.clone()) } else { Err(KeyError::Missing) }
        }
    }

    fn keys(secret: u8, version: u32) -> One {
        One(MasterKey { name: "K".to_owned(), version, secret: Zeroizing::new([secret; MASTER_KEY_BYTES]) })
    }

    #[test]
    fn a_file_key_comes_back_only_with_its_own_master_key_and_header() {
        for algorithm in [Algorithm::Aes128, Algorithm::Aes192, Algorithm::Aes256] {
            let (key, described) = FileKey::generate(algorithm, &keys(1, 1)).expect("a key");
            let mut bytes = *b"clear text";
            let tag = key.seal([7; 12], b"about", &mut bytes).expect("is encrypted");
            assert_ne!(&bytes, b"clear text");
            let whole = [&bytes[..], &tag[..]].concat();
            let key = FileKey::unwrap(&described, &keys(1, 1)).expect("the same key");
            let mut copy = whole.clone();
            assert_eq!(key.open([7; 12], b"about", &mut copy), Some(10));
            assert_eq!(&copy[..10], b"clear text");
            assert_eq!(key.open([8; 12], b"about", &mut whole.clone()), None);
            assert_eq!(key.open([7; 12], b"other", &mut whole.clone()), None);
            assert_eq!(FileKey::unwrap(&described, &keys(2, 1)).err(), Some(KeyError::Wrong));
            assert_eq!(FileKey::unwrap(&described, &keys(1, 2)).err(), Some(KeyError::Missing));
            let other_file = WrappedKey { file_id: [0; 16], ..described };
            assert_eq!(FileKey::unwrap(&other_file, &keys(1, 1)).err(), Some(KeyError::Wrong));
        }
    }

    #[test]
    fn no_two_files_share_a_key_and_no_secret_is_shown() {
        let keys = keys(0xAB, 3);
        let (_, one) = FileKey::generate(Algorithm::Aes256, &keys).expect("a key");
        let (_, two) = FileKey::generate(Algorithm::Aes256, &keys).expect("a key");
        assert!(one.file_id != two.file_id && one.nonce != two.nonce && one.wrapped != two.wrapped);
        assert_eq!(format!("{:?}", keys.0), "MasterKey(K version 3)");
    }
}
