//! RMTHOST, RMTTRAIL and RMTFILE: another home that records are sent to.

use crate::cursor::{Cursor, Written};
use crate::define::{check_file, check_trail, unknown_option};
use crate::diagnostic::Diagnostic;
use crate::file::Raw;
use crate::trail_format::{self, TrailFormat};
use std::ops::Range;

/// Port that RMTHOST has without PORT.
pub const PORT_DEFAULT: u16 = 7820;

/// COMPRESSTHRESHOLD when it is absent, as in GoldenGate.
const COMPRESS_FROM: u32 = 1000;

/// Bounds of TIMEOUT in seconds: a shorter one takes a busy machine for a dead one.
const SILENCE: std::ops::RangeInclusive<u32> = 3..=3600;

/// RMTHOST.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteHost {
    /// Name or address.
    pub host: String,
    /// Port of its receiver.
    pub port: u16,
    /// Name of the certificate in dircrd that is shown.
    pub certificate: Option<String>,
    /// COMPRESS: records of so many bytes and more are compressed on their way.
    pub compress_from: Option<u32>,
    /// BANDWIDTH: most bytes a second.
    pub bandwidth: Option<u64>,
    /// TIMEOUT: seconds of silence after which the other side is taken for dead.
    pub silence: Option<u32>,
}

pub(crate) const HOST_HELP: &str = "\
`drover receiver` listens there. The connection is encrypted by TLS 1.3, and both sides show a certificate: the Pump that in \
`dircrd/<name>.crt` with its key in `dircrd/<name>.key`. Each side must believe the other's, see ADD CERTIFICATE and ADD PEER.\n\n\
- `PORT`, also written MGRPORT, or `host:port`: 7820 by default.\n\
- `CERTIFICATE`: the name; `drover` by default.\n\
- `COMPRESS`: records are compressed with zstd on their way.\n\
- `COMPRESSTHRESHOLD`: with COMPRESS, batches of fewer bytes go as they are; 1000 by default.\n\
- `BANDWIDTH`: most bytes a second, with K, M or G for 1024, 1024² and 1024³ of them.\n\
- `TIMEOUT`: seconds of silence after which the other side is taken for dead, 3 to 3600; 30 by default.";

const OPTIONS: [&str; 7] = ["PORT", "MGRPORT", "CERTIFICATE", "COMPRESS", "COMPRESSTHRESHOLD", "BANDWIDTH", "TIMEOUT"];

/// What RMTHOST has in other products, and why not here.
const REFUSED: [(&str, &str); 5] = [
    ("ENCRYPT", "connections are always encrypted by TLS 1.3"),
    ("TCPBUFSIZE", "the operating system chooses the buffers of a connection"),
    ("TCPFLUSHBYTES", "records leave as soon as they are there"),
    ("STREAMING", "records are always sent on before the earlier ones are answered for"),
    ("NOSTREAMING", "records are always sent on before the earlier ones are answered for"),
];

pub(crate) fn read_host(cursor: &mut Cursor<'_>, raw: &mut Raw, name: Range<usize>) -> Result<(), Diagnostic> {
    let Written { value, place } = cursor.list_value("the host")?;
    let (host, port) = host_and_port(&value)
        .ok_or_else(|| cursor.error(place, format!("`{value}` is not a host"), "write host, or host:port"))?;
    let mut remote = RemoteHost {
        host,
        port: port.unwrap_or(PORT_DEFAULT),
        certificate: None,
        compress_from: None,
        bandwidth: None,
        silence: None,
    };
    let mut threshold = None;
    cursor.take(',');
    while let Some(word) = cursor.word() {
        match word.value.to_ascii_uppercase().as_str() {
            "PORT" | "MGRPORT" => {
                let Written { value, place } = cursor.list_value("the port")?;
                remote.port = value.parse().ok().filter(|port| *port > 0).ok_or_else(|| {
                    cursor.error(place, format!("`{value}` is not a port"), "write a number from 1 to 65535")
                })?;
            }
            "CERTIFICATE" => remote.certificate = Some(cursor.list_value("the name of the certificate")?.value),
            "COMPRESS" => remote.compress_from = Some(COMPRESS_FROM),
            "COMPRESSTHRESHOLD" => {
                let Written { value, place } = cursor.list_value("the number of bytes")?;
                let bytes = value.parse().map_err(|_| {
                    cursor.error(place.clone(), format!("`{value}` is not a number of bytes"), "write one such as 1000")
                })?;
                threshold = Some((bytes, place));
            }
            "BANDWIDTH" => {
                let Written { value, place } = cursor.list_value("the bandwidth")?;
                remote.bandwidth = Some(bytes(&value).ok_or_else(|| {
                    let next_step = "write bytes a second, such as 500K or 10M";
                    cursor.error(place, format!("`{value}` is not a bandwidth"), next_step)
                })?);
            }
            "TIMEOUT" => {
                let Written { value, place } = cursor.list_value("the seconds")?;
                remote.silence = Some(value.parse().ok().filter(|value| SILENCE.contains(value)).ok_or_else(|| {
                    let next_step = format!("write a number from {} to {}", SILENCE.start(), SILENCE.end());
                    cursor.error(place, format!("`{value}` is not a number of seconds"), next_step)
                })?);
            }
            option => {
                if let Some((name, reason)) = REFUSED.iter().find(|(name, _)| *name == option) {
                    return Err(cursor.error(word.place, format!("{name} has no effect: {reason}"), "remove it"));
                }
                return Err(unknown_option(cursor, word, "RMTHOST", &OPTIONS));
            }
        }
        cursor.take(',');
    }
    if let Some((bytes, place)) = threshold {
        if remote.compress_from.is_none() {
            let message = "COMPRESSTHRESHOLD has no effect without COMPRESS";
            return Err(cursor.error(place, message, "add COMPRESS, or remove it"));
        }
        remote.compress_from = Some(bytes);
    }
    raw.remote_host = Some(Written { value: remote, place: name });
    Ok(())
}

/// `host`, `host:port`, `[address]:port` or a bare address of IPv6.
pub fn host_and_port(text: &str) -> Option<(String, Option<u16>)> {
    let port = |text: &str| text.parse::<u16>().ok().filter(|port| *port > 0);
    let (host, port) = match (text.strip_prefix('['), text.matches(':').count()) {
        (Some(rest), _) => match rest.split_once(']')? {
            (host, "") => (host, None),
            (host, rest) => (host, Some(port(rest.strip_prefix(':')?)?)),
        },
        (None, 1) => {
            let (host, rest) = text.split_once(':')?;
            (host, Some(port(rest)?))
        }
        (None, _) => (text, None),
    };
    (!host.is_empty() && !host.contains('/')).then(|| (host.to_owned(), port))
}

/// A host as it stands in addresses: those of IPv6 in brackets.
pub fn bracketed(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}

pub(crate) fn read_trail(cursor: &mut Cursor<'_>, raw: &mut Raw, _: Range<usize>) -> Result<(), Diagnostic> {
    let Written { value, place } = cursor.list_value("the trail")?;
    check_trail(cursor, &value, place)?;
    read_options(cursor, raw, value, "RMTTRAIL")
}

pub(crate) fn read_file(cursor: &mut Cursor<'_>, raw: &mut Raw, _: Range<usize>) -> Result<(), Diagnostic> {
    let Written { value, place } = cursor.list_value("the file")?;
    check_file(cursor, &value, place)?;
    raw.is_single_file = true;
    read_options(cursor, raw, value, "RMTFILE")
}

fn read_options(cursor: &mut Cursor<'_>, raw: &mut Raw, name: String, keyword: &'static str) -> Result<(), Diagnostic> {
    raw.remote_trail = Some(name);
    let start = cursor.offset();
    trail_format::read_options(cursor, &mut raw.trail_format, keyword)?;
    raw.trail_options = Some(start..cursor.offset()).filter(|_| raw.trail_format != TrailFormat::default());
    Ok(())
}

/// A number of bytes with an optional K, M or G.
pub fn bytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|character: char| character.is_ascii_alphabetic());
    let unit = match text[digits.len()..].to_ascii_uppercase().as_str() {
        "" => 0,
        "K" | "KB" => 10,
        "M" | "MB" => 20,
        "G" | "GB" => 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << unit).filter(|bytes| *bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_of_any_kind_comes_back_as_it_stands_in_addresses() {
        for (text, host, address) in [
            ("db1.example:7820", "db1.example", "db1.example"),
            ("[::1]:7820", "::1", "[::1]"),
            ("::1", "::1", "[::1]"),
            ("127.0.0.1", "127.0.0.1", "127.0.0.1"),
        ] {
            let (found, _) = host_and_port(text).expect("a host");
            assert_eq!((found.as_str(), bracketed(&found).as_str()), (host, address), "{text}");
        }
    }
}
