//! Attempts: how often a step is tried that met another transaction, or whose connection broke off.

use idem_core::store::{StoreError, StoreErrorKind};

use crate::fault::{Fault, Told};
use crate::pauses::Pauses;

/// The tries of one step.
///
/// A try whose connection broke off may have been taken. What a later one meets then says nothing about the step, and no error
/// says otherwise: the caller would take for refused what holds a key.
pub(crate) struct Attempts {
    /// How many connections may still break off.
    left: u32,
    unanswered: bool,
    pauses: Pauses,
}

impl Attempts {
    /// With so many connections that may break off; 0 for a step that may be taken once only.
    pub(crate) fn new(broken_at_most: u32) -> Self {
        Self { left: broken_at_most, unanswered: false, pauses: Pauses::default() }
    }

    /// Returns if it can be tried again, after a pause if that may help; `forget_idle` closes idle connections.
    pub(crate) async fn after(&mut self, fault: Fault, forget_idle: impl FnOnce()) -> Result<(), Fault> {
        match fault {
            Fault::Undone(_) => self.pauses.pause().await,
            Fault::Broken(_) if self.left > 0 => {
                self.left -= 1;
                self.note(&fault);
                forget_idle();
            }
            fault => return Err(self.told(fault)),
        }
        Ok(())
    }

    /// What a fault is, after these attempts.
    ///
    /// A lock, and a record that is there, are answers and no failures: what they mean is the caller's to know.
    pub(crate) fn told(&self, fault: Fault) -> Fault {
        match fault {
            Fault::Locked(_) | Fault::Taken(_) => fault,
            fault if self.unanswered => Fault::Refused(fate_unknown(fault.into_error())),
            fault => fault,
        }
    }

    /// What an error says, after these attempts.
    pub(crate) fn tell(&self, error: StoreError) -> StoreError {
        if self.unanswered { fate_unknown(error) } else { error }
    }

    /// Remembers a try that came before these.
    pub(crate) fn note(&mut self, fault: &Fault) {
        // Whoever was told why is not set up was answered.
        self.unanswered |= matches!(fault, Fault::Broken(error) if error.is_retryable());
    }
}

/// What an error says of a step of which a try before has been taken, or may have been.
pub(crate) fn fate_unknown(error: StoreError) -> StoreError {
    if error.is_retryable() {
        return error;
    }
    let why = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
    let told = format!("a try may have been taken, and the next was refused: {why}");
    StoreError::with_source(StoreErrorKind::Unavailable, Told(told))
}
