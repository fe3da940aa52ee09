//! Durations as they are written: `24h`, `1h30m`, `250ms`.

use std::time::Duration;

/// Lengths of time as they are written.
pub(crate) const EXAMPLES: &str = "\"24h\", \"90s\", \"250ms\", \"7d\" or \"1h30m\"";

/// The units, the longest first, in milliseconds.
const UNITS: [(&str, u64); 6] =
    [("w", 7 * 86_400_000), ("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];

/// Reads `24h`, `1h30m`, `250ms`: whole numbers with units, each unit smaller than the one before it.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let unreadable = || format!("cannot read \"{text}\"; expected a length of time such as {EXAMPLES}");
    let mut rest = text;
    let mut last_unit = u64::MAX;
    let mut millis = 0_u64;
    if text.is_empty() {
        return Err(unreadable());
    }
    while !rest.is_empty() {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, after) = rest.split_at(digits);
        if number.is_empty() {
            return Err(unreadable());
        }
        let letters = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let (unit, after) = after.split_at(letters);
        if unit.is_empty() {
            let dot = if after.is_empty() { "" } else { "; numbers are whole, as in \"1h30m\"" };
            return Err(format!(
                "\"{text}\" has a number without a unit (`ms`, `s`, `m`, `h`, `d`, `w`){dot}"
            ));
        }
        let Some((_, factor)) = UNITS.iter().find(|(name, _)| *name == unit) else {
            return Err(format!(
                "unknown unit `{unit}` in \"{text}\"; the units are `ms`, `s`, `m`, `h`, `d`, `w`"
            ));
        };
        if *factor >= last_unit {
            return Err(format!("\"{text}\" must go from the longest unit to the shortest, as in \"1h30m\""));
        }
        last_unit = *factor;
        millis = number
            .parse::<u64>()
            .ok()
            .and_then(|number| number.checked_mul(*factor))
            .and_then(|part| millis.checked_add(part))
            .ok_or_else(|| format!("\"{text}\" is too long to be counted in milliseconds"))?;
        rest = after;
    }
    if millis == 0 {
        return Err(format!("\"{text}\" is no time at all; it must be longer than zero"));
    }
    Ok(Duration::from_millis(millis))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_is_read() {
        for (text, millis) in [
            ("1ms", 1),
            ("90s", 90_000),
            ("5m", 300_000),
            ("24h", 86_400_000),
            ("7d", 604_800_000),
            ("400d", 34_560_000_000),
            ("2w", 1_209_600_000),
            ("1h30m", 5_400_000),
            ("1d12h30m15s250ms", 131_415_250),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn what_is_no_length_of_time_is_refused() {
        for (text, why) in [
            ("", "cannot read"),
            ("h", "cannot read"),
            ("-5s", "cannot read"),
            ("24", "without a unit"),
            ("1.5h", "numbers are whole"),
            ("24 h", "without a unit"),
            ("3 fortnights", "without a unit"),
            ("3fortnights", "unknown unit `fortnights`"),
            ("30m1h", "longest unit to the shortest"),
            ("1h1h", "longest unit to the shortest"),
            ("0s", "no time at all"),
            ("0h0m", "no time at all"),
            ("99999999999999999999s", "too long"),
            ("99999999999999d", "too long"),
        ] {
            let error = parse_duration(text).expect_err(text);
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
