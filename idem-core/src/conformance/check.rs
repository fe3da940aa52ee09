//! Checks: what a case expects, and how it says that it found something else.

use std::fmt::{self, Debug};
use std::panic::Location;

use crate::answer::Answer;
use crate::store::{Claimed, Fenced, StoreError};

/// A broken promise: what was expected and found, and where in the case.
#[derive(Debug)]
pub struct Failure {
    what: String,
    at: &'static Location<'static>,
}

pub(super) type Verdict = Result<(), Failure>;

impl Failure {
    #[track_caller]
    pub(super) fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), at: Location::caller() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}:{})", self.what, self.at.file(), self.at.line())
    }
}

impl std::error::Error for Failure {}

impl From<StoreError> for Failure {
    #[track_caller]
    fn from(error: StoreError) -> Self {
        Self::new(format!("the store could not say: {error}: {error:?}"))
    }
}

impl From<tokio::task::JoinError> for Failure {
    #[track_caller]
    fn from(error: tokio::task::JoinError) -> Self {
        Self::new(format!("a task did not end well: {error}"))
    }
}

#[track_caller]
pub(super) fn check(holds: bool, what: &str) -> Verdict {
    if holds { Ok(()) } else { Err(Failure::new(format!("expected that {what}"))) }
}

#[track_caller]
pub(super) fn equal<T: PartialEq + Debug>(found: &T, expected: &T) -> Verdict {
    if found == expected {
        Ok(())
    } else {
        Err(Failure::new(format!("expected {expected:?}, found {found:?}")))
    }
}

/// What a step answered, as the case expects it.
pub(super) trait Expect {
    fn is_held(&self) -> Verdict;
    fn is_lost(&self) -> Verdict;
}

impl Expect for Fenced {
    #[track_caller]
    fn is_held(&self) -> Verdict {
        equal(self, &Self::Held)
    }

    #[track_caller]
    fn is_lost(&self) -> Verdict {
        equal(self, &Self::Lost)
    }
}

/// What a claim answered, as the case expects it.
pub(super) struct Reply(pub(super) Claimed);

impl Reply {
    #[track_caller]
    fn other(&self, expected: &str) -> Failure {
        Failure::new(format!("expected {expected}, found {:?}", self.0))
    }

    #[track_caller]
    pub(super) fn is_granted(&self, attempt: u32) -> Verdict {
        match self.0 {
            Claimed::Granted { attempt: found } if found == attempt => Ok(()),
            _ => Err(self.other(&format!("a grant of attempt {attempt}"))),
        }
    }

    #[track_caller]
    pub(super) fn is_in_flight(&self) -> Verdict {
        match self.0 {
            Claimed::InFlight { .. } => Ok(()),
            _ => Err(self.other("in flight")),
        }
    }

    #[track_caller]
    pub(super) fn is_completed(&self, answer: &Answer) -> Verdict {
        match &self.0 {
            Claimed::Completed { answer: found, .. } if found == answer => Ok(()),
            _ => Err(self.other(&format!("a replay of {answer:?}"))),
        }
    }

    #[track_caller]
    pub(super) fn is_mismatch(&self) -> Verdict {
        match self.0 {
            Claimed::Mismatch => Ok(()),
            _ => Err(self.other("a mismatch")),
        }
    }

    #[track_caller]
    pub(super) fn is_incomparable(&self) -> Verdict {
        match self.0 {
            Claimed::Incomparable => Ok(()),
            _ => Err(self.other("an incomparable fingerprint")),
        }
    }

    #[track_caller]
    pub(super) fn is_expired(&self) -> Verdict {
        match self.0 {
            Claimed::Expired => Ok(()),
            _ => Err(self.other("an expired key")),
        }
    }

    #[track_caller]
    pub(super) fn is_unknown(&self) -> Verdict {
        match self.0 {
            Claimed::Unknown => Ok(()),
            _ => Err(self.other("an unknown outcome")),
        }
    }
}
