//! Name and value pairs of queries and forms, compared by what they say.

use std::borrow::Cow;

/// A name and its value.
pub(super) type Pair<'a> = (Cow<'a, [u8]>, Cow<'a, [u8]>);

/// Splits `a=1&b=2` into decoded pairs, sorted by name; pairs of one name keep their order.
///
/// `+` is a blank and `%xx` an octet. What is not valid UTF-8 stays as its octets, so that two different ones never
/// become the same replacement character.
pub(super) fn sorted(input: &[u8]) -> Vec<Pair<'_>> {
    let mut pairs: Vec<_> = input
        .split(|byte| *byte == b'&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let at = pair.iter().position(|byte| *byte == b'=').unwrap_or(pair.len());
            (decode(&pair[..at]), decode(pair.get(at + 1..).unwrap_or_default()))
        })
        .collect();
    pairs.sort_by(|a, b| a.0.cmp(&b.0));
    pairs
}

fn decode(input: &[u8]) -> Cow<'_, [u8]> {
    if !input.iter().any(|byte| matches!(byte, b'+' | b'%')) {
        return Cow::Borrowed(input);
    }
    let mut decoded = Vec::with_capacity(input.len());
    let mut rest = input;
    while let Some((&first, tail)) = rest.split_first() {
        rest = tail;
        match (first, tail) {
            (b'+', _) => decoded.push(b' '),
            (b'%', [high, low, tail @ ..]) => match (hex(*high), hex(*low)) {
                (Some(high), Some(low)) => {
                    decoded.push(high << 4 | low);
                    rest = tail;
                }
                _ => decoded.push(first),
            },
            _ => decoded.push(first),
        }
    }
    Cow::Owned(decoded)
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| value as u8)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn same(a: &str, b: &str) -> bool {
        sorted(a.as_bytes()) == sorted(b.as_bytes())
    }

    #[test]
    fn the_order_of_names_does_not_count_but_that_of_repeated_ones_does() {
        assert!(same("a=1&b=2", "b=2&a=1"));
        assert!(same("a=1&b=2&a=3", "b=2&a=1&a=3"));
        assert!(!same("a=1&a=2", "a=2&a=1"));
    }

    #[test]
    fn escapes_are_resolved() {
        assert!(same("a=x+y", "a=x%20y"));
        assert!(same("%61=1", "a=1"));
        assert!(same("a=%c3%A9", "a=é"));
        assert!(same("a&&b=", "a=&b"));
        assert!(same("a=%2", "a=%252"));
        assert!(same("a=%zz", "a=%25zz"));
    }

    #[test]
    fn what_differs_is_kept_apart() {
        assert!(!same("a=%ff", "a=%fe"));
        assert!(!same("a=1%26b=2", "a=1&b=2"));
        assert!(!same("a=b=c", "a%3Db=c"));
        assert!(!same("dry=1", "dry=0"));
        assert!(!same("a=1", ""));
    }

    proptest! {
        #[test]
        fn no_input_panics(input in proptest::collection::vec(any::<u8>(), 0..200)) {
            sorted(&input);
        }
    }
}
