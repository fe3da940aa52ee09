//! Cancelling: a run whose caller goes away is dropped and its key freed, where the policy says so.

use std::sync::Arc;

use crate::background;
use crate::flight::Flight;
use crate::policy::OnDisconnect;
use crate::sync::Spawner;

/// Frees the key if it is dropped while the work runs.
///
/// Only then: work that has ended is done, and its end is written whether its caller hears of it or not.
pub(crate) struct CancelOnDrop(Option<(Arc<Flight>, Spawner)>);

impl CancelOnDrop {
    pub(crate) fn new(flight: &Arc<Flight>) -> Self {
        let cancels = flight.policy().on_disconnect == OnDisconnect::Cancel;
        let spawner = if cancels { Spawner::current() } else { None };
        Self(spawner.map(|spawner| (flight.clone(), spawner)))
    }

    pub(crate) fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if let Some((flight, spawner)) = self.0.take() {
            background::cancel(&spawner, flight);
        }
    }
}
