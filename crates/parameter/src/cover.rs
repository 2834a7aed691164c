//! ENCRYPTTRAIL, COMPRESSTRAIL and their like: what is laid over the data of a trail.

use crate::cursor::Cursor;
use crate::define::unknown_option;
use crate::diagnostic::Diagnostic;
use crate::file::Raw;
use std::ops::Range;

/// How the data of a trail is encrypted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EncryptParameter {
    /// AES128.
    Aes128,
    /// AES192.
    Aes192,
    /// AES256, the default.
    #[default]
    Aes256,
}

const ALGORITHMS: [&str; 3] = ["AES128", "AES192", "AES256"];

pub(crate) const ENCRYPT_HELP: &str = "\
Stands before EXTTRAIL; behind it, it would have no effect and is refused. AES256 without an algorithm; AES is used in \
Galois/Counter Mode, which also notices any change. Each trail file gets a random key of its own, which stands in the file's \
header, encrypted by the current master key of the home's wallet: CREATE WALLET and ADD MASTERKEY make it, and RENEW MASTERKEY \
another version, which the next file uses. Without a wallet or a current master key the Extract does not start.\n\n\
Rows, table definitions, statements and user tokens are encrypted. In clear stay what positions and recovery need: lengths, \
operations, times, table names, transaction numbers.";

pub(crate) const DECRYPT_HELP: &str = "\
Encrypted trail files are always decrypted, by the master key of the home's wallet that their headers name: the parameter is \
not needed for that. With it the Replicat looks for the wallet when it starts, and does not start without one, rather than \
stopping at the first encrypted file. No algorithm is written: it stands in each file.";

pub(crate) const COMPRESS_HELP: &str = "\
Stands before EXTTRAIL; behind it, it would have no effect and is refused. Data of a record is compressed with zstd where that \
makes the record shorter; with ENCRYPTTRAIL, before it is encrypted. It pays for long rows and texts; short rows hardly \
shrink. Readers need no parameter.";

fn before_trail(cursor: &Cursor<'_>, raw: &Raw, place: Range<usize>, name: &str) -> Result<(), Diagnostic> {
    match raw.trail {
        None => Ok(()),
        Some(_) => {
            let message = format!("{name} stands behind EXTTRAIL, where it has no effect");
            Err(cursor.error(place, message, "put it before the EXTTRAIL line"))
        }
    }
}

pub(crate) fn read_encrypt(cursor: &mut Cursor<'_>, raw: &mut Raw, place: Range<usize>) -> Result<(), Diagnostic> {
    before_trail(cursor, raw, place, "ENCRYPTTRAIL")?;
    raw.encrypt = Some(match cursor.word() {
        None => EncryptParameter::default(),
        Some(word) => match word.value.to_ascii_uppercase().as_str() {
            "AES128" => EncryptParameter::Aes128,
            "AES192" => EncryptParameter::Aes192,
            "AES256" => EncryptParameter::Aes256,
            _ => return Err(unknown_option(cursor, word, "ENCRYPTTRAIL", &ALGORITHMS)),
        },
    });
    Ok(())
}

pub(crate) fn read_no_encrypt(cursor: &mut Cursor<'_>, raw: &mut Raw, place: Range<usize>) -> Result<(), Diagnostic> {
    before_trail(cursor, raw, place.clone(), "NOENCRYPTTRAIL")?;
    if raw.encrypt.is_some() {
        let message = "NOENCRYPTTRAIL takes back what ENCRYPTTRAIL says";
        return Err(cursor.error(place, message, "keep one of the two"));
    }
    Ok(())
}

pub(crate) fn read_compress(cursor: &mut Cursor<'_>, raw: &mut Raw, place: Range<usize>) -> Result<(), Diagnostic> {
    before_trail(cursor, raw, place, "COMPRESSTRAIL")?;
    raw.compress = true;
    Ok(())
}

pub(crate) fn read_decrypt(cursor: &mut Cursor<'_>, raw: &mut Raw, _: Range<usize>) -> Result<(), Diagnostic> {
    if let Some(word) = cursor.word() {
        let message = format!("DECRYPTTRAIL takes no algorithm, found `{}`", word.value);
        return Err(cursor.error(word.place, message, "remove it: each file says how it is encrypted"));
    }
    raw.decrypt = true;
    Ok(())
}
