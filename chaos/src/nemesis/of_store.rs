//! What is done to the store.

use std::sync::mpsc::Receiver;
use std::time::Duration;

use super::{Planned, Schedule};
use crate::history::Target;
use crate::recorder::Recorder;
use crate::victim::Victim;

/// Breaks a store until its channel is closed, and gives it back in good order. Its thread waits.
pub fn break_store(
    mut victim: Victim,
    schedule: Schedule,
    recorder: &Recorder,
    stop: &Receiver<()>,
) -> Victim {
    for planned in schedule {
        if is_told_within(stop, planned.quiet) {
            break;
        }
        let Planned { kind, lasts, pick, .. } = planned;
        let fault = recorder.begin(kind.name(), Target::Store, victim.may_forget());
        victim.harm(kind, pick);
        is_told_within(stop, lasts);
        victim.heal(kind);
        recorder.heal(fault);
    }
    victim
}

/// Waits, and whether it was told to stop meanwhile.
fn is_told_within(stop: &Receiver<()>, time: Duration) -> bool {
    use std::sync::mpsc::RecvTimeoutError;
    stop.recv_timeout(time) != Err(RecvTimeoutError::Timeout)
}
