//! The wallet and its master key.

use crate::console::parse::Command;
use crate::console::{Console, Failure};
use process::{CheckpointFile, HomeLock, KeyStatus, KeyVersion, MASTER_KEY_NAME, Wallet, WalletError, clock};
use std::collections::BTreeSet;
use std::path::PathBuf;
use trail::storage::Directory;

/// CREATE WALLET
pub fn create(console: &mut Console<'_>, _: &Command) -> Result<(), Failure> {
    let (wallet, lock) = locked(console)?;
    wallet.create(&lock).map_err(|error| match error {
        WalletError::Exists { .. } => {
            Failure::new(error.to_string()).with_next_step("use it: ADD MASTERKEY, INFO MASTERKEY")
        }
        error => error.into(),
    })?;
    writeln!(console.output, "Wallet {} created.", wallet.path().display())?;
    Ok(())
}

/// OPEN WALLET
pub fn open(console: &mut Console<'_>, _: &Command) -> Result<(), Failure> {
    let wallet = Wallet::of(&console.home);
    wallet.check()?;
    writeln!(console.output, "Wallet {} opened.", wallet.path().display())?;
    Ok(())
}

/// ADD MASTERKEY
pub fn add(console: &mut Console<'_>, _: &Command) -> Result<(), Failure> {
    let (wallet, lock) = locked(console)?;
    let version = wallet.add(&lock).map_err(|error| refused(error, "RENEW MASTERKEY makes another version"))?;
    writeln!(console.output, "Masterkey {MASTER_KEY_NAME} version {version} added.")?;
    Ok(())
}

/// RENEW MASTERKEY
pub fn renew(console: &mut Console<'_>, _: &Command) -> Result<(), Failure> {
    let (wallet, lock) = locked(console)?;
    let version = wallet.renew(&lock).map_err(|error| refused(error, "ADD MASTERKEY makes the first one"))?;
    writeln!(console.output, "Masterkey {MASTER_KEY_NAME} renewed: version {version} is current.")?;
    Ok(())
}

/// INFO MASTERKEY
pub fn info(console: &mut Console<'_>, command: &Command) -> Result<(), Failure> {
    let versions = Wallet::of(&console.home).versions()?;
    let output = &mut *console.output;
    if let Some(number) = number(command, "VERSION") {
        let version = versions.iter().find(|version| version.version == number).ok_or_else(|| {
            Failure::new(format!("the wallet has no version {number} of the master key"))
                .with_next_step("INFO MASTERKEY lists them")
        })?;
        writeln!(output, "{:<22} {MASTER_KEY_NAME}", "Masterkey Name:")?;
        writeln!(output, "{:<22} {}", "Version:", version.version)?;
        writeln!(output, "{:<22} {}", "Creation Date:", clock::to_second(version.created))?;
        writeln!(output, "{:<22} {}", "Status:", status(version))?;
        writeln!(output, "{:<22} {}", "Key Hash (SHA-256):", version.hash)?;
        return Ok(());
    }
    writeln!(output, "Masterkey Name: {MASTER_KEY_NAME}\n")?;
    writeln!(output, "{:<10} {:<20} {:<10} Key Hash (SHA-256)", "Version", "Creation Date", "Status")?;
    for version in &versions {
        let created = clock::to_second(version.created);
        writeln!(output, "{:<10} {created:<20} {:<10} {}", version.version, status(version), version.hash)?;
    }
    Ok(())
}

/// DELETE MASTERKEY
pub fn delete(console: &mut Console<'_>, command: &Command) -> Result<(), Failure> {
    let is_given = |keyword: &str| command.options.iter().any(|(name, _)| *name == keyword);
    let range = (number(command, "FROM"), number(command, "TO"));
    let versions = match (number(command, "VERSION"), is_given("RANGE"), range, is_given("ALL")) {
        (Some(version), false, (None, None), false) => Some(version..=version),
        (None, true, (Some(from), Some(to)), false) => Some(from..=to),
        (None, false, (None, None), true) => None,
        _ => {
            return Err(Failure::new("which versions of the master key to delete is not clear")
                .with_next_step("write one of: VERSION n, RANGE FROM n TO m, ALL"));
        }
    };
    let (wallet, lock) = locked(console)?;
    let deleted = wallet.delete(&lock, versions).map_err(|error| refused(error, "INFO MASTERKEY lists them"))?;
    let step = "UNDELETE MASTERKEY takes it back, PURGE WALLET makes it final";
    writeln!(console.output, "{deleted} versions of masterkey {MASTER_KEY_NAME} deleted; {step}.")?;
    Ok(())
}

/// UNDELETE MASTERKEY
pub fn undelete(console: &mut Console<'_>, command: &Command) -> Result<(), Failure> {
    let version = number(command, "VERSION").unwrap_or(0);
    let (wallet, lock) = locked(console)?;
    wallet.undelete(&lock, version).map_err(|error| refused(error, "INFO MASTERKEY lists them"))?;
    writeln!(console.output, "Masterkey {MASTER_KEY_NAME} version {version} is available again.")?;
    Ok(())
}

/// PURGE WALLET
pub fn purge(console: &mut Console<'_>, command: &Command) -> Result<(), Failure> {
    let (wallet, lock) = locked(console)?;
    if !command.force {
        let step = "PURGE WALLET !";
        if let Some((file, version)) = needed(console, &wallet)? {
            let what = format!(
                "trail file {} can be read with version {version} of masterkey {MASTER_KEY_NAME} only, which is deleted and would \
                 be lost for ever",
                file.display()
            );
            return Err(Failure::new(what).with_next_step(format!(
                "UNDELETE MASTERKEY, VERSION {version}; or remove the file, once nobody reads it; or {step}"
            )));
        }
        return Err(Failure::new(
            "deleted versions of the master key are not removed for ever without being asked twice",
        )
        .with_next_step(step));
    }
    let purged = wallet.purge(&lock)?;
    writeln!(console.output, "{} deleted versions of masterkey {MASTER_KEY_NAME} removed.", purged.len())?;
    Ok(())
}

/// A trail file of the home that needs a deleted version of the master key, and the version. Looked at are all files in dirdat
/// and in the directories of all trails that groups write or read.
fn needed(console: &Console<'_>, wallet: &Wallet) -> Result<Option<(PathBuf, u32)>, Failure> {
    let deleted: Vec<u32> = wallet
        .versions()?
        .into_iter()
        .filter(|version| version.status == KeyStatus::Deleted)
        .map(|version| version.version)
        .collect();
    let mut directories = BTreeSet::from([console.home.dirdat()]);
    for (kind, group) in console.home.groups()? {
        for checkpoint in CheckpointFile::read(&*console.checkpoint_storage(), kind, &group, 1)? {
            let written = checkpoint.extract().map(|body| body.trails.iter().map(|trail| trail.name.clone()).collect());
            let read = checkpoint.replicat().map(|body| vec![body.trail.clone()]);
            for name in written.into_iter().chain(read).flat_map(|names: Vec<String>| names) {
                directories.insert(console.trail_place(&name)?.directory);
            }
        }
    }
    for directory in directories {
        let keys = trail::keys_of_files(&Directory::new(&directory)).map_err(|error| process::Failure::from(&error))?;
        let key = keys.into_iter().find(|key| key.name == MASTER_KEY_NAME && deleted.contains(&key.version));
        if let Some(key) = key {
            return Ok(Some((directory.join(key.file), key.version)));
        }
    }
    Ok(None)
}

fn locked(console: &Console<'_>) -> Result<(Wallet, HomeLock), Failure> {
    Ok((Wallet::of(&console.home), HomeLock::acquire(&console.home)?))
}

fn refused(error: WalletError, next_step: &str) -> Failure {
    match error {
        WalletError::Refused { .. } => Failure::new(error.to_string()).with_next_step(next_step),
        error => error.into(),
    }
}

fn number(command: &Command, keyword: &str) -> Option<u32> {
    command.option(keyword).and_then(|text| text.parse().ok())
}

fn status(version: &KeyVersion) -> &'static str {
    match version.status {
        KeyStatus::Current => "Current",
        KeyStatus::Available => "Available",
        KeyStatus::Deleted => "Deleted",
    }
}
