//! Handlers that say when they have begun, and end when they may.

use std::sync::Arc;

use tokio::sync::{Semaphore, watch};

use crate::server::Visit;

/// A gate in front of the end of a handler.
#[derive(Clone)]
pub(crate) struct Gate {
    begun: watch::Sender<u32>,
    dropped: watch::Sender<u32>,
    may_end: Arc<Semaphore>,
}

impl Gate {
    pub(crate) fn new() -> Self {
        let may_end = Arc::new(Semaphore::new(0));
        Self { begun: watch::Sender::new(0), dropped: watch::Sender::new(0), may_end }
    }

    /// The work of a handler: begins, waits, and answers `charged in run N`.
    pub(crate) fn work(&self) -> impl Fn(Visit) -> futures_util::future::BoxFuture<'static, String> + use<> {
        let gate = self.clone();
        move |visit| {
            let gate = gate.clone();
            Box::pin(async move {
                gate.pass().await;
                format!("charged in run {}", visit.run)
            })
        }
    }

    /// Says that a handler has begun, and waits until it may end.
    pub(crate) async fn pass(&self) {
        let mut guard = Dropped(Some(self.dropped.clone()));
        self.begun.send_modify(|begun| *begun += 1);
        self.may_end.acquire().await.unwrap().forget();
        guard.0 = None;
    }

    /// Waits until so many handlers have begun.
    pub(crate) async fn begun(&self, times: u32) {
        self.begun.subscribe().wait_for(|begun| *begun >= times).await.unwrap();
    }

    /// Waits until so many handlers were dropped before they had ended.
    pub(crate) async fn dropped(&self, times: u32) {
        self.dropped.subscribe().wait_for(|dropped| *dropped >= times).await.unwrap();
    }

    /// Lets one handler end.
    pub(crate) fn open(&self) {
        self.may_end.add_permits(1);
    }
}

struct Dropped(Option<watch::Sender<u32>>);

impl Drop for Dropped {
    fn drop(&mut self) {
        if let Some(dropped) = &self.0 {
            dropped.send_modify(|dropped| *dropped += 1);
        }
    }
}
