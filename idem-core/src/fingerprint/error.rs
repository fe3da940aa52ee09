//! Why a value has no fingerprint.

use std::fmt;

use super::json::MAX_DEPTH;

/// A value could not be fingerprinted.
///
/// Says which argument, of which type, and what kind of thing went wrong; never what the value was, nor the text of
/// an error made by a `Serialize` implementation, which may quote it. Nothing has been claimed when it occurs.
#[derive(Clone, PartialEq, Eq)]
pub struct FingerprintError {
    label: Option<Box<str>>,
    type_name: &'static str,
    reason: Reason,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    TooDeep,
    Refused,
}

impl FingerprintError {
    pub(super) fn new(type_name: &'static str, reason: Reason) -> Self {
        Self { label: None, type_name, reason }
    }

    pub(super) fn at(mut self, label: &str) -> Self {
        self.label = Some(label.into());
        self
    }
}

impl fmt::Display for FingerprintError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("could not fingerprint ")?;
        if let Some(label) = &self.label {
            write!(f, "`{label}`, ")?;
        }
        write!(f, "a value of type `{}`: ", self.type_name)?;
        match self.reason {
            Reason::TooDeep => write!(f, "it is nested more than {MAX_DEPTH} levels deep"),
            Reason::Refused => f.write_str("its `Serialize` implementation reported an error"),
        }
    }
}

impl fmt::Debug for FingerprintError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FingerprintError")
            .field("label", &self.label)
            .field("type", &self.type_name)
            .field("reason", &self.reason)
            .finish()
    }
}

impl std::error::Error for FingerprintError {}
