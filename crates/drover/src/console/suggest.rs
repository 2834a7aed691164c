//! The known word that was probably meant.

/// `did you mean …?` for the word of `known` nearest to `word`, if one is near.
pub fn hint(word: &str, known: &[&str]) -> Option<String> {
    let word = word.to_uppercase();
    let nearest = known.iter().map(|candidate| (distance(&word, candidate), candidate)).min()?;
    let (edits, candidate) = nearest;
    // One edit per three letters: nearer words are typing mistakes, farther ones are other words.
    (edits <= candidate.len().div_ceil(3)).then(|| format!("did you mean {candidate}?"))
}

/// Least number of letters to insert, remove, replace or swap with the next one to turn `left` into `right`.
fn distance(left: &str, right: &str) -> usize {
    let (left, right): (Vec<char>, Vec<char>) = (left.chars().collect(), right.chars().collect());
    let mut rows = vec![(0..=right.len()).collect::<Vec<usize>>()];
    for (i, from) in left.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, to) in right.iter().enumerate() {
            let mut best = (rows[i][j] + usize::from(from != to)).min(rows[i][j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *from == right[j - 1] && left[i - 1] == *to {
                best = best.min(rows[i - 1][j - 1] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[left.len()][right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typing_mistakes_find_their_word_and_other_words_find_none() {
        let known = ["EXTRACT", "EXTTRAIL", "REPLICAT", "CHECKPOINTTABLE"];
        assert_eq!(hint("extrcat", &known).as_deref(), Some("did you mean EXTRACT?"));
        assert_eq!(hint("REPLICATE", &known).as_deref(), Some("did you mean REPLICAT?"));
        assert_eq!(hint("CHECKPOINT_TABLE", &known).as_deref(), Some("did you mean CHECKPOINTTABLE?"));
        assert_eq!(hint("MANAGER", &known), None);
    }
}
