//! The known word that was probably meant.

/// `did you mean …?` for the word of `known` nearest to `word`, if one is near.
pub fn hint(word: &str, known: &[&str]) -> Option<String> {
    parameter::nearest(word, known.iter().copied()).map(|candidate| format!("did you mean {candidate}?"))
}
