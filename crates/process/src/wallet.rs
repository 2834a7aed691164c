//! The wallet of a home: its master keys, in versions.
//!
//! The file `dirwlt/drover.wallet` may be read by its owner only; it is refused otherwise. It is small, and is replaced as a
//! whole whenever something changes, so that a crash leaves the old or the new one. Running groups look keys up when they
//! need one, and so follow a renewal with their next trail file.

use crate::{Home, HomeLock, clock};
use aws_lc_rs::{digest, rand};
use change::Timestamp;
use serde::{Deserialize, Serialize};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::ops::RangeInclusive;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use trail::cipher::{KeyError, MASTER_KEY_BYTES, MasterKey, MasterKeys};
use zeroize::{Zeroize, Zeroizing};

/// Name of the one master key that a wallet has.
pub const MASTER_KEY_NAME: &str = "DROVER_MASTERKEY";

const FORM: u32 = 1;

/// A wallet that can't be used, or a request that it refuses.
#[derive(Debug, thiserror::Error)]
pub enum WalletError {
    /// There is none.
    #[error("this home has no wallet: there is no file {}", path.display())]
    Missing {
        /// The file that is expected.
        path: PathBuf,
    },
    /// There is one already.
    #[error("this home has a wallet: {}", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// Others than its owner may read it, or it is not what a wallet looks like.
    #[error("wallet {} can't be used: {reason}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// What was asked for does not fit what the wallet holds.
    #[error("{reason}")]
    Refused {
        /// Why not.
        reason: String,
    },
    /// The operating system refused.
    #[error("could not {action} {}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The operating system's answer.
        source: io::Error,
    },
}

/// What can be done with a version of a master key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KeyStatus {
    /// New files use it.
    Current,
    /// Files that were written with it are read by it.
    Available,
    /// Nothing uses it; it can be taken back until the wallet is purged.
    Deleted,
}

/// A version of the master key, without the key itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyVersion {
    /// Its number, from 1.
    pub version: u32,
    /// When it was made.
    pub created: Timestamp,
    /// What can be done with it.
    pub status: KeyStatus,
    /// Begin of a hash of the key, to compare wallets by.
    pub hash: String,
}

#[derive(Serialize, Deserialize)]
struct Content {
    form: u32,
    name: String,
    /// Numbers never come again, not even those of purged versions.
    last_version: u32,
    keys: Vec<Entry>,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    version: u32,
    created_unix_micros: i64,
    status: KeyStatus,
    /// The key in hexadecimal.
    key: String,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.key.zeroize();
    }
}

/// The wallet of a home.
#[derive(Clone, Debug)]
pub struct Wallet {
    path: PathBuf,
}

impl Wallet {
    /// The wallet of `home`, which need not exist.
    pub fn of(home: &Home) -> Wallet {
        Wallet { path: home.dirwlt().join("drover.wallet") }
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes an empty wallet. The lock shows that the caller may change the home.
    ///
    /// # Errors
    /// [`WalletError::Exists`]; [`WalletError::Io`].
    pub fn create(&self, _lock: &HomeLock) -> Result<(), WalletError> {
        if self.path.exists() {
            return Err(WalletError::Exists { path: self.path.clone() });
        }
        let directory = self.directory();
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(|source| WalletError::Io {
            action: "create",
            path: directory.to_owned(),
            source,
        })?;
        let name = MASTER_KEY_NAME.to_owned();
        self.write(&Content { form: FORM, name, last_version: 0, keys: Vec::new() })
    }

    /// Makes the first version of the master key.
    ///
    /// # Errors
    /// [`WalletError::Refused`] when there is a current one.
    pub fn add(&self, lock: &HomeLock) -> Result<u32, WalletError> {
        self.new_version(lock, false)
    }

    /// Makes another version the current one. Earlier ones stay for the files that were written with them.
    ///
    /// # Errors
    /// [`WalletError::Refused`] when there is no current one.
    pub fn renew(&self, lock: &HomeLock) -> Result<u32, WalletError> {
        self.new_version(lock, true)
    }

    fn new_version(&self, _lock: &HomeLock, is_renewal: bool) -> Result<u32, WalletError> {
        let mut content = self.read()?;
        let has_current = content.keys.iter().any(|key| key.status == KeyStatus::Current);
        if has_current != is_renewal {
            let reason = match is_renewal {
                true => "the wallet has no master key to renew",
                false => "the wallet has a master key",
            };
            return Err(WalletError::Refused { reason: reason.to_owned() });
        }
        let mut secret = Zeroizing::new([0; MASTER_KEY_BYTES]);
        rand::fill(&mut secret[..]).map_err(|_| self.unusable("the source of randomness refused"))?;
        content
            .keys
            .iter_mut()
            .filter(|key| key.status == KeyStatus::Current)
            .for_each(|key| key.status = KeyStatus::Available);
        content.last_version += 1;
        let version = content.last_version;
        let created_unix_micros = clock::now().unix_micros;
        let key = secret.iter().map(|byte| format!("{byte:02x}")).collect();
        content.keys.push(Entry { version, created_unix_micros, status: KeyStatus::Current, key });
        self.write(&content)?;
        Ok(version)
    }

    /// All versions, by number.
    ///
    /// # Errors
    /// [`WalletError`].
    pub fn versions(&self) -> Result<Vec<KeyVersion>, WalletError> {
        let content = self.read()?;
        content
            .keys
            .iter()
            .map(|entry| {
                Ok(KeyVersion {
                    version: entry.version,
                    created: Timestamp::from_unix_micros(entry.created_unix_micros),
                    status: entry.status,
                    hash: hash(&*self.secret(entry)?),
                })
            })
            .collect()
    }

    /// Marks versions as deleted, all of them without a range. Returns how many there were.
    ///
    /// # Errors
    /// [`WalletError::Refused`] when there is none in the range, or or when the current one is in it.
    pub fn delete(&self, _lock: &HomeLock, versions: Option<RangeInclusive<u32>>) -> Result<usize, WalletError> {
        let mut content = self.read()?;
        let is_chosen = |version: u32| versions.as_ref().is_none_or(|versions| versions.contains(&version));
        let chosen = |key: &&mut Entry| is_chosen(key.version) && key.status != KeyStatus::Deleted;
        if versions.is_some()
            && content.keys.iter().any(|key| is_chosen(key.version) && key.status == KeyStatus::Current)
        {
            let reason = "the current version of the master key can't be deleted alone: renew it first, or delete ALL";
            return Err(WalletError::Refused { reason: reason.to_owned() });
        }
        let deleted = content.keys.iter_mut().filter(chosen).map(|key| key.status = KeyStatus::Deleted).count();
        if deleted == 0 {
            return Err(WalletError::Refused { reason: "the wallet has no such version of the master key".to_owned() });
        }
        self.write(&content)?;
        Ok(deleted)
    }

    /// Takes a deletion back.
    ///
    /// # Errors
    /// [`WalletError::Refused`] when the version is not deleted.
    pub fn undelete(&self, _lock: &HomeLock, version: u32) -> Result<(), WalletError> {
        let mut content = self.read()?;
        let found = content.keys.iter_mut().find(|key| key.version == version && key.status == KeyStatus::Deleted);
        let Some(key) = found else {
            return Err(WalletError::Refused { reason: format!("the wallet has no deleted version {version}") });
        };
        key.status = KeyStatus::Available;
        self.write(&content)
    }

    /// Removes deleted versions for ever. Returns their numbers.
    ///
    /// # Errors
    /// [`WalletError`].
    pub fn purge(&self, _lock: &HomeLock) -> Result<Vec<u32>, WalletError> {
        let mut content = self.read()?;
        let is_deleted = |key: &Entry| key.status == KeyStatus::Deleted;
        let purged = content.keys.iter().filter(|key| is_deleted(key)).map(|key| key.version).collect();
        content.keys.retain(|key| !is_deleted(key));
        self.write(&content)?;
        Ok(purged)
    }

    /// Whether the wallet can be read.
    ///
    /// # Errors
    /// [`WalletError`].
    pub fn check(&self) -> Result<(), WalletError> {
        self.read().map(|_| ())
    }

    fn directory(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("."))
    }

    fn read(&self) -> Result<Content, WalletError> {
        let io = |action| move |source| WalletError::Io { action, path: self.path.clone(), source };
        let metadata = match fs::metadata(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(WalletError::Missing { path: self.path.clone() });
            }
            other => other.map_err(io("read"))?,
        };
        if metadata.permissions().mode() & 0o077 != 0 {
            return Err(self.unusable("others than its owner may read it: give it mode 0600"));
        }
        let text = Zeroizing::new(fs::read(&self.path).map_err(io("read"))?);
        // What the library says of a wrong file may quote it.
        let content: Content = serde_json::from_slice(&text).map_err(|_| self.unusable("it is not a wallet"))?;
        if content.form != FORM {
            return Err(self.unusable(&format!("it is in form {}, and this version knows form {FORM}", content.form)));
        }
        for entry in &content.keys {
            self.secret(entry)?;
        }
        Ok(content)
    }

    fn write(&self, content: &Content) -> Result<(), WalletError> {
        let new = self.path.with_extension("new");
        let text = serde_json::to_vec_pretty(content).map_err(|error| self.unusable(&error.to_string()))?;
        let text = Zeroizing::new(text);
        let write = || -> io::Result<()> {
            match fs::remove_file(&new) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
            file.write_all(&text)?;
            file.sync_all()?;
            fs::rename(&new, &self.path)?;
            fs::File::open(self.directory())?.sync_all()
        };
        write().map_err(|source| WalletError::Io { action: "write", path: self.path.clone(), source })
    }

    fn secret(&self, entry: &Entry) -> Result<Zeroizing<[u8; MASTER_KEY_BYTES]>, WalletError> {
        let mut secret = Zeroizing::new([0; MASTER_KEY_BYTES]);
        let digits = entry.key.as_bytes();
        let is_whole = digits.len() == 2 * MASTER_KEY_BYTES
            && secret.iter_mut().zip(digits.chunks(2)).all(|(byte, pair)| {
                let parsed = std::str::from_utf8(pair).ok().and_then(|pair| u8::from_str_radix(pair, 16).ok());
                parsed.map(|parsed| *byte = parsed).is_some()
            });
        if is_whole { Ok(secret) } else { Err(self.unusable(&format!("its version {} is not a key", entry.version))) }
    }

    fn unusable(&self, reason: &str) -> WalletError {
        WalletError::Unusable { path: self.path.clone(), reason: reason.to_owned() }
    }

    fn key(&self, wanted: impl Fn(&str, &Entry) -> bool) -> Result<MasterKey, KeyError> {
        let content = match self.read() {
            Ok(content) => content,
            Err(WalletError::Missing { .. }) => return Err(KeyError::NoKeys),
            Err(error) => return Err(KeyError::Unavailable { reason: with_cause(&error) }),
        };
        let entry = content.keys.iter().find(|entry| wanted(&content.name, entry)).ok_or(KeyError::Missing)?;
        let secret = self.secret(entry).map_err(|error| KeyError::Unavailable { reason: with_cause(&error) })?;
        Ok(MasterKey { name: content.name.clone(), version: entry.version, secret })
    }
}

fn with_cause(error: &WalletError) -> String {
    match error {
        WalletError::Io { source, .. } => format!("{error}: {source}"),
        _ => error.to_string(),
    }
}

fn hash(secret: &[u8]) -> String {
    let digest = digest::digest(&digest::SHA256, &[b"drover master key", secret].concat());
    digest.as_ref().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

impl MasterKeys for Wallet {
    fn current(&self) -> Result<MasterKey, KeyError> {
        self.key(|_, entry| entry.status == KeyStatus::Current)
    }

    fn find(&self, name: &str, version: u32) -> Result<MasterKey, KeyError> {
        self.key(|known, entry| known == name && entry.version == version && entry.status != KeyStatus::Deleted)
    }
}
