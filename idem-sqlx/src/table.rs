//! Table names: text that may stand in a statement.

use std::fmt;

/// The name of the table that holds the records: lower-case letters, digits and underscores.
///
/// A name is put into statements as it is, so nothing else is accepted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TableName(String);

impl TableName {
    /// The name in the migrations' text, and the default.
    pub const DEFAULT: &'static str = "idem_records";
    /// The longest name that every dialect takes, in bytes.
    pub const MAX_LEN: usize = 63;

    /// Takes a name.
    ///
    /// # Errors
    ///
    /// When it is empty, too long, starts with a digit, has any character but `a` to `z`, `0` to `9` and `_`, or is
    /// one that the database or idem itself uses.
    pub fn new(name: &str) -> Result<Self, TableNameError> {
        let starts_well = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
        let plain = name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
        if !starts_well || !plain || name.len() > Self::MAX_LEN {
            return Err(TableNameError::Malformed);
        }
        if name == "idem_migrations" || name.starts_with("sqlite_") || name.starts_with("pg_") {
            return Err(TableNameError::Reserved);
        }
        Ok(Self(name.to_owned()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Puts the name in the place of the default one.
    pub(crate) fn put_into(&self, sql: &str) -> String {
        sql.replace(Self::DEFAULT, &self.0)
    }
}

impl Default for TableName {
    fn default() -> Self {
        Self(Self::DEFAULT.to_owned())
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why a table name was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TableNameError {
    /// It is not made of 1 to 63 lower-case letters, digits and underscores, or starts with a digit.
    Malformed,
    /// The database or idem itself uses it.
    Reserved,
}

impl fmt::Display for TableNameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed => {
                "a table name is 1 to 63 lower-case letters, digits and underscores, and starts with no digit"
            }
            Self::Reserved => "this table name is reserved by the database or by idem",
        })
    }
}

impl std::error::Error for TableNameError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_lower_case_names_are_taken() {
        let longest = "t".repeat(63);
        for name in ["idem_records", "a", "_9", "order", &longest] {
            assert_eq!(TableName::new(name).unwrap().as_str(), name);
        }
        let too_long = "t".repeat(64);
        for name in ["", "9a", "A", "a b", "a\"; DROP TABLE users; --", "a'", "a.b", "ä", "a\0", &too_long] {
            assert_eq!(TableName::new(name), Err(TableNameError::Malformed), "{name:?}");
        }
        for name in ["idem_migrations", "sqlite_master", "pg_class"] {
            assert_eq!(TableName::new(name), Err(TableNameError::Reserved), "{name:?}");
        }
    }
}
