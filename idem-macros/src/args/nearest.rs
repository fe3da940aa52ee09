//! Finds the word that somebody meant.

/// The candidate that is nearest to the word, if one is near enough to be a slip of the finger.
pub(crate) fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let allowed = (word.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| (distance(word, candidate), candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .min()
        .map(|(_, candidate)| candidate)
}

/// How many letters are to be inserted, removed, replaced or swapped with their neighbour.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for (i, row) in rows.iter_mut().enumerate() {
        row[0] = i;
    }
    for (j, cell) in rows[0].iter_mut().enumerate() {
        *cell = j;
    }
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replaced.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = best;
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::{distance, nearest};

    #[test]
    fn a_slip_of_the_finger_finds_its_word() {
        let words = ["key", "ttl", "in_flight", "on_crash"];
        assert_eq!(nearest("tll", words), Some("ttl"));
        assert_eq!(nearest("ky", words), Some("key"));
        assert_eq!(nearest("inflight", words), Some("in_flight"));
        assert_eq!(nearest("on_crahs", words), Some("on_crash"));
        assert_eq!(nearest("kye", words), Some("key"));
        assert_eq!(nearest("tmbston_tl", ["ttl", "tombstone_ttl"]), Some("tombstone_ttl"));
    }

    #[test]
    fn letters_are_inserted_removed_replaced_or_swapped() {
        for (a, b, expected) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "", 3),
            ("abc", "abc", 0),
            ("abc", "axc", 1),
            ("abcd", "acd", 1),
            ("ab", "ba", 1),
            ("abcd", "acbd", 1),
            ("abcd", "badc", 2),
            ("abcde", "xbced", 2),
            ("ab", "bc", 2),
            ("ab", "ca", 2),
            ("ab", "cd", 2),
            ("abcb", "abdc", 2),
        ] {
            assert_eq!(distance(a, b), expected, "{a} {b}");
        }
    }

    #[test]
    fn a_word_like_no_other_finds_none() {
        assert_eq!(nearest("colour", ["key", "ttl", "in_flight"]), None);
        assert_eq!(nearest("", ["key"]), None);
    }
}
