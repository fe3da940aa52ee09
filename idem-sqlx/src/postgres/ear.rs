//! The ear on PostgreSQL: a connection that listens.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, stream};
use idem_core::stored::ear;
use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions};

use crate::waiters::Waiters;

/// How long a connection may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// Hears what is told on a channel, from the first time that somebody waits.
pub(super) struct Ear {
    options: PgConnectOptions,
    channel: String,
    hearing: ear::Ear,
}

/// The options have a password.
impl fmt::Debug for Ear {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ear").field("channel", &self.channel).finish_non_exhaustive()
    }
}

impl Ear {
    pub(super) fn new(options: PgConnectOptions, channel: &str) -> Self {
        Self { options, channel: channel.to_owned(), hearing: ear::Ear::default() }
    }

    /// Whether it hears; tries to if it did not.
    pub(super) async fn hears(&self, waiters: &Arc<Waiters>) -> bool {
        self.hearing.hears(waiters, async { self.listen().await.ok() }).await
    }

    async fn listen(&self) -> Result<impl Stream<Item = String> + Send + use<>, sqlx::Error> {
        // A pool of its own, since it keeps the connection.
        let pool = PgPoolOptions::new()
            .max_connections(1)
            .acquire_timeout(PATIENCE)
            .idle_timeout(None)
            .max_lifetime(None)
            .connect_lazy_with(self.options.clone());
        let mut listener = PgListener::connect_with(&pool).await?;
        listener.listen(&self.channel).await?;
        Ok(stream::unfold(listener, |mut listener| async {
            let told = listener.try_recv().await.ok().flatten()?;
            Some((told.payload().to_owned(), listener))
        }))
    }

    pub(super) async fn close(&self) {
        self.hearing.close().await;
    }
}
