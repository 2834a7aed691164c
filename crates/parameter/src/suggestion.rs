//! "Did you mean …": the known word that is nearest to an unknown one.

/// The word of `known` that is nearest to `word`, if it is near enough to be meant. Case does not count.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_ascii_uppercase();
    // One slip in three characters: short words must not be taken for quite different short words.
    let slips_max = (word.chars().count() / 3).max(1);
    known
        .into_iter()
        .map(|candidate| (distance(&word, &candidate.to_ascii_uppercase()), candidate))
        .filter(|(slips, _)| *slips <= slips_max)
        .min_by_key(|(slips, _)| *slips)
        .map(|(_, candidate)| candidate)
}

/// Number of characters to insert, remove, replace or swap with their neighbour to turn one word into the other
/// (optimal string alignment).
fn distance(one: &str, other: &str) -> usize {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=other.len()).collect();
    for (row, left) in one.iter().enumerate() {
        let mut current = vec![row + 1];
        for (column, right) in other.iter().enumerate() {
            let replace = above[column] + usize::from(left != right);
            let mut least = replace.min(above[column + 1] + 1).min(current[column] + 1);
            let swapped = row > 0 && column > 0 && one[row - 1] == *right && *left == other[column - 1];
            if swapped {
                least = least.min(before[column - 1] + 1);
            }
            current.push(least);
        }
        before = std::mem::replace(&mut above, current);
    }
    above[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_finds_its_word_and_another_word_does_not() {
        let known = ["TABLE", "TABLEEXCLUDE", "MAP", "SOURCEDB"];
        assert_eq!(nearest("TABEL", known), Some("TABLE"));
        assert_eq!(nearest("sourcdb", known), Some("SOURCEDB"));
        assert_eq!(nearest("MPA", known), Some("MAP"));
        assert_eq!(nearest("TABLEEXCLUDES", known), Some("TABLEEXCLUDE"));
        assert_eq!(nearest("RMTHOST", known), None);
        assert_eq!(nearest("", known), None);
    }
}
