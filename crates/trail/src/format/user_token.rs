//! The user's tokens: names and values that an operator lets travel with a row.
//!
//! The content of `U` is a name, a NUL, a value and a NUL for each. (Public is only how they are shown.)

use crate::Damage;

/// Most bytes of all tokens of a record, names and values together.
pub const BYTES_MAX: usize = 16_000;

/// One token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserToken {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// Why these tokens can't be written, if they can't.
pub fn refusal(tokens: &[UserToken]) -> Option<String> {
    let unfit = |text: &str| text.contains('\0');
    if let Some(token) = tokens.iter().find(|token| unfit(&token.name) || unfit(&token.value) || token.name.is_empty())
    {
        let name = token.name.replace('\0', "?");
        return Some(format!("the user token {name:?} has no name, or a zero character in its name or value"));
    }
    let bytes = length(tokens);
    (bytes > BYTES_MAX).then(|| format!("its user tokens have {bytes} bytes, a record takes at most {BYTES_MAX}"))
}

/// Bytes of the content of `U`.
pub fn length(tokens: &[UserToken]) -> usize {
    let bytes = |token: &UserToken| token.name.len().saturating_add(token.value.len()).saturating_add(2);
    tokens.iter().map(bytes).fold(0, usize::saturating_add)
}

/// Appends the content of `U`.
pub fn put(buffer: &mut Vec<u8>, tokens: &[UserToken]) {
    for text in tokens.iter().flat_map(|token| [&token.name, &token.value]) {
        buffer.extend_from_slice(text.as_bytes());
        buffer.push(0);
    }
}

/// Reads the content of `U`.
///
/// # Errors
/// [`Damage`] when a name has no value, or the last value no end.
pub fn read(content: &[u8]) -> Result<Vec<UserToken>, Damage> {
    let Some((0, inner)) = content.split_last() else {
        return if content.is_empty() { Ok(Vec::new()) } else { Err(Damage::Content("the user tokens do not end")) };
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut texts = inner.split(|byte| *byte == 0);
    let mut tokens = Vec::new();
    while let Some(name) = texts.next() {
        let value = texts.next().ok_or(Damage::Content("a user token has no value"))?;
        tokens.push(UserToken { name: text(name), value: text(value) });
    }
    Ok(tokens)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_come_back_and_half_ones_are_damage() {
        let token = |name: &str, value: &str| UserToken { name: name.to_owned(), value: value.to_owned() };
        let tokens = vec![token("TKN-HOST", "syshq"), token("TKN-EMPTY", "")];
        let mut bytes = Vec::new();
        put(&mut bytes, &tokens);
        assert_eq!((bytes.as_slice(), length(&tokens)), (&b"TKN-HOST\0syshq\0TKN-EMPTY\0\0"[..], bytes.len()));
        assert_eq!(read(&bytes), Ok(tokens));
        assert_eq!(read(b""), Ok(Vec::new()));
        assert!(read(b"a\0b").is_err() && read(b"a\0").is_err());
        assert!(refusal(&[token("a\0", "")]).is_some() && refusal(&[token("", "x")]).is_some());
        assert!(refusal(&[token("a", &"x".repeat(BYTES_MAX))]).is_some() && refusal(&[]).is_none());
    }
}
