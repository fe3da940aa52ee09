//! What is done to the processes of the service.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;

use super::{Kind, Schedule};
use crate::history::Target;
use crate::processes::Processes;
use crate::recorder::Recorder;

/// Breaks processes until it is told to stop; then all of them run.
pub async fn break_services(
    processes: &mut Processes,
    schedule: Schedule,
    recorder: &Recorder,
    mut stop: watch::Receiver<bool>,
) {
    for planned in schedule {
        if is_told_within(&mut stop, planned.quiet).await {
            break;
        }
        let process = (planned.pick % processes.count() as u64) as usize;
        let fault = recorder.begin(planned.kind.name(), Target::Process(process), false);
        match planned.kind {
            Kind::Pause => {
                processes.pause(process);
                is_told_within(&mut stop, planned.lasts).await;
                processes.resume(process);
            }
            Kind::Restart => {
                processes.end(process).await;
                processes.start(process);
            }
            _ => {
                processes.kill(process).await;
                is_told_within(&mut stop, planned.lasts).await;
                processes.start(process);
            }
        }
        recorder.heal(fault);
    }
    processes.wait_until_all_listen().await;
}

/// Waits, and whether it was told to stop meanwhile.
async fn is_told_within(stop: &mut watch::Receiver<bool>, time: Duration) -> bool {
    tokio::select! {
        () = sleep(time) => false,
        _ = stop.wait_for(|stop| *stop) => true,
    }
}
