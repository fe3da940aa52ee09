//! The ear on Redis: a connection that is subscribed to the channel of those who wait.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, StreamExt as _};
use idem_core::stored::ear;
use idem_core::stored::waiters::Waiters;

use crate::place::Place;

/// How long a connection may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// Hears which records have changed, from the first time that somebody waits.
#[derive(Debug)]
pub(crate) struct Ear {
    place: Arc<Place>,
    channel: String,
    /// What stands before and after the digest in a record's key.
    around: (usize, usize),
    hearing: ear::Ear,
}

impl Ear {
    pub(crate) fn new(place: &Arc<Place>, channel: &str, around: (usize, usize)) -> Self {
        Self { place: Arc::clone(place), channel: channel.to_owned(), around, hearing: ear::Ear::default() }
    }

    /// Whether it hears; tries to if it did not.
    pub(crate) async fn hears(&self, waiters: &Arc<Waiters>) -> bool {
        self.hearing.hears(waiters, self.listen()).await
    }

    async fn listen(&self) -> Option<impl Stream<Item = Vec<u8>> + Send + use<>> {
        let server = self.place.listening(PATIENCE).await.ok()?;
        let mut listening = server.get_async_pubsub().await.ok()?;
        listening.subscribe(&self.channel).await.ok()?;
        let (before, after) = self.around;
        Some(listening.into_on_message().map(move |told| {
            let key = told.get_payload_bytes();
            let end = key.len().saturating_sub(after);
            key.get(before..end).unwrap_or_default().to_vec()
        }))
    }

    pub(crate) async fn close(&self) {
        self.hearing.close().await;
    }
}
