//! Commands that say what a number stands for.

use super::at_end;
use crate::error::Error;
use crate::hex;
use crate::session::{Done, Flow, Request, Session};
use crate::time::duration_text;
use change::Timestamp;
use trail::format::bytes::{from_julian_micros, julian_micros};

/// A number in decimal, or in hexadecimal behind `0x` or `x`.
fn number(request: &mut Request<'_, '_>) -> Result<u64, Error> {
    let name = request.form.name;
    let word = request.words.next_word().ok_or_else(|| Error::refused(format!("{name} needs a number")))?;
    let lower = word.to_ascii_lowercase();
    let read = match lower.strip_prefix("0x").or(lower.strip_prefix('x')) {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => lower.parse(),
    };
    read.map_err(|_| Error::refused(format!("{word} is no number of 64 bits")))
}

/// INTERPRETTIMESTAMP.
pub fn interpret_time_stamp(session: &mut Session, request: &mut Request<'_, '_>) -> Done {
    let value = number(request)?;
    at_end(request)?;
    let text = session.time_text(from_julian_micros(value));
    request.output.line(text);
    Ok(Flow::Go)
}

/// INTERPRETINTERVAL.
pub fn interpret_interval(_session: &mut Session, request: &mut Request<'_, '_>) -> Done {
    let value = number(request)?;
    at_end(request)?;
    request.output.line(duration_text(value.cast_signed()));
    Ok(Flow::Go)
}

/// COMPUTETIMESTAMP.
pub fn compute_time_stamp(session: &mut Session, request: &mut Request<'_, '_>) -> Done {
    let instant = session.instant(request.words.take_rest())?;
    let julian = julian_micros(instant);
    request.output.line(format_args!("{julian} (x{julian:016X})"));
    Ok(Flow::Go)
}

/// CTIME.
pub fn c_time(session: &mut Session, request: &mut Request<'_, '_>) -> Done {
    let seconds = number(request)?.cast_signed();
    at_end(request)?;
    let instant = Timestamp::from_unix_micros(seconds.saturating_mul(1_000_000));
    let text = session.time_text(instant);
    request.output.line(text);
    Ok(Flow::Go)
}

/// FLOAT.
pub fn float(_session: &mut Session, request: &mut Request<'_, '_>) -> Done {
    let word = request.words.next_word().ok_or_else(|| Error::refused("FLOAT needs a value"))?;
    let spec = if request.words.take_keyword("FORMAT") { request.words.next_word() } else { None };
    at_end(request)?;
    let from_bytes = || {
        let bytes = hex::parse(word.trim_start_matches("0x").trim_start_matches('x'))?;
        match bytes.as_slice() {
            [a, b, c, d] => Some(f64::from(f32::from_bits(
                [*a, *b, *c, *d].iter().fold(0, |bits: u32, byte| bits << 8 | u32::from(*byte)),
            ))),
            bytes => {
                let bytes: &[u8; 8] = bytes.try_into().ok()?;
                Some(f64::from_bits(bytes.iter().fold(0, |bits, byte| bits << 8 | u64::from(*byte))))
            }
        }
    };
    let is_hexadecimal = word.starts_with(['x', 'X']) || word.starts_with("0x");
    let value = if is_hexadecimal { from_bytes() } else { word.parse().ok().or_else(from_bytes) };
    let value: f64 =
        value.ok_or_else(|| Error::refused(format!("{word} is neither a number nor four or eight bytes")))?;
    let text = match spec {
        None => value.to_string(),
        Some(spec) => formatted(value, &spec).ok_or_else(|| Error::refused(format!("{spec} is no format: %w.df")))?,
    };
    request.output.line(text);
    Ok(Flow::Go)
}

/// The number in a format of C: `%[width][.digits]f`, `e` or `g`.
fn formatted(value: f64, spec: &str) -> Option<String> {
    let inside = spec.strip_prefix('%')?;
    let kind = inside.chars().last()?;
    let measures = inside.strip_suffix(kind)?;
    let (width, digits) = measures.split_once('.').unwrap_or((measures, "6"));
    let width: usize = if width.is_empty() { 0 } else { width.parse().ok()? };
    let digits: usize = digits.parse().ok()?;
    if width > 100 || digits > 100 {
        return None;
    }
    match kind {
        'f' => Some(format!("{value:>width$.digits$}")),
        'e' => Some(format!("{:>width$}", format!("{value:.digits$e}"))),
        'g' => Some(format!("{value:>width$}")),
        _ => None,
    }
}
