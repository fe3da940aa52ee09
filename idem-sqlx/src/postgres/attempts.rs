//! Attempts: how often a step is tried that met another transaction, or whose connection broke off.

use idem_core::store::StoreError;

use super::lines::Lines;
use crate::fault::Fault;
use crate::pauses::Pauses;

/// How often a step is tried.
pub(super) struct Attempts<'a> {
    lines: &'a Lines,
    /// How many connections may still break off.
    left: u32,
    pauses: Pauses,
}

impl<'a> Attempts<'a> {
    pub(super) fn new(lines: &'a Lines, may_repeat: bool) -> Self {
        let left = if may_repeat { lines.broken_at_most() } else { 0 };
        Self { lines, left, pauses: Pauses::default() }
    }

    /// Returns if it can be tried again, after a pause if that may help.
    pub(super) async fn after(&mut self, fault: Fault) -> Result<(), StoreError> {
        match fault {
            Fault::Undone(_) => self.pauses.pause().await,
            Fault::Broken(_) if self.left > 0 => {
                self.left -= 1;
                self.lines.forget_idle();
            }
            fault => return Err(fault.into_error()),
        }
        Ok(())
    }
}
