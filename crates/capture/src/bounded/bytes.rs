//! Numbers and texts of the files of Bounded Recovery.

/// What is wrong with bytes that end too early.
pub(super) const CUT: &str = "it is cut";

pub(super) fn put_text(bytes: &mut Vec<u8>, text: &str) {
    put_bytes(bytes, text.as_bytes());
}

pub(super) fn put_bytes(bytes: &mut Vec<u8>, content: &[u8]) {
    bytes.extend_from_slice(&(content.len() as u32).to_le_bytes());
    bytes.extend_from_slice(content);
}

pub(super) fn put_number(bytes: &mut Vec<u8>, number: u64) {
    bytes.extend_from_slice(&number.to_le_bytes());
}

/// A presence mark, and the text if there is one.
pub(super) fn put_optional_text(bytes: &mut Vec<u8>, text: Option<&str>) {
    bytes.push(u8::from(text.is_some()));
    put_text(bytes, text.unwrap_or_default());
}

/// A presence mark, and the number.
pub(super) fn put_optional_number(bytes: &mut Vec<u8>, number: Option<u64>) {
    bytes.push(u8::from(number.is_some()));
    put_number(bytes, number.unwrap_or_default());
}

/// Reads what was put.
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl<'a> Fields<'a> {
    pub(super) fn take(&mut self, length: usize) -> Result<&'a [u8], &'static str> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(CUT)?;
        self.0 = rest;
        Ok(taken)
    }

    pub(super) fn number(&mut self) -> Result<u64, &'static str> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(CUT)?;
        self.0 = rest;
        Ok(u64::from_le_bytes(*taken))
    }

    pub(super) fn short(&mut self) -> Result<u32, &'static str> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(CUT)?;
        self.0 = rest;
        Ok(u32::from_le_bytes(*taken))
    }

    pub(super) fn bytes(&mut self) -> Result<&'a [u8], &'static str> {
        let length = self.short()? as usize;
        self.take(length)
    }

    pub(super) fn text(&mut self) -> Result<&'a str, &'static str> {
        std::str::from_utf8(self.bytes()?).map_err(|_| "a text in it is not UTF-8")
    }

    pub(super) fn optional_text(&mut self) -> Result<Option<&'a str>, &'static str> {
        let is_there = self.take(1)? == [1];
        let text = self.text()?;
        Ok(is_there.then_some(text))
    }

    pub(super) fn optional_number(&mut self) -> Result<Option<u64>, &'static str> {
        let is_there = self.take(1)? == [1];
        let number = self.number()?;
        Ok(is_there.then_some(number))
    }
}
