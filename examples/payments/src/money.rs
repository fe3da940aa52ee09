//! Money: amounts and currencies.

use std::fmt;

use serde::de::{Deserializer, Error, Unexpected, Visitor};
use serde::{Deserialize, Serialize};

/// A positive amount in the smallest unit of its currency: 1 to 9223372036854775807.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, sqlx::Type)]
#[sqlx(transparent)]
pub struct Amount(i64);

/// A currency by its three letters (ISO 4217).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, sqlx::Type)]
#[serde(try_from = "String")]
#[sqlx(transparent)]
pub struct Currency(String);

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Positive;

        impl Visitor<'_> for Positive {
            type Value = Amount;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a positive integer of at most {}", i64::MAX)
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Amount, E> {
                Amount::try_from(number).map_err(|_| E::invalid_value(Unexpected::Unsigned(number), &self))
            }
        }

        deserializer.deserialize_u64(Positive)
    }
}

impl TryFrom<u64> for Amount {
    type Error = &'static str;

    fn try_from(number: u64) -> Result<Self, &'static str> {
        match i64::try_from(number) {
            Ok(number @ 1..) => Ok(Self(number)),
            _ => Err("an amount is a positive integer of at most 9223372036854775807"),
        }
    }
}

impl TryFrom<String> for Currency {
    type Error = &'static str;

    fn try_from(letters: String) -> Result<Self, &'static str> {
        if letters.len() == 3 && letters.bytes().all(|letter| letter.is_ascii_alphabetic()) {
            Ok(Self(letters))
        } else {
            Err("a currency has three letters, for example `vnd`")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_is_any_positive_64_bit_integer() {
        for amount in ["1", "9007199254740993", "9223372036854775807"] {
            let read: Amount = serde_json::from_str(amount).unwrap();
            assert_eq!(serde_json::to_string(&read).unwrap(), amount);
        }
        for amount in
            ["0", "-1", "1.5", "1e3", "\"1\"", "null", "9223372036854775808", "18446744073709551616"]
        {
            let error = serde_json::from_str::<Amount>(amount).unwrap_err().to_string();
            assert!(error.contains("a positive integer of at most 9223372036854775807"), "{amount}: {error}");
        }
    }

    #[test]
    fn a_currency_has_three_letters() {
        assert!(serde_json::from_str::<Currency>("\"vnd\"").is_ok());
        for currency in ["\"\"", "\"vn\"", "\"vnd1\"", "\"v1d\"", "\"₫₫₫\"", "7"] {
            assert!(serde_json::from_str::<Currency>(currency).is_err(), "{currency}");
        }
    }
}
