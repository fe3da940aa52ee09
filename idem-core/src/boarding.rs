//! How a call gets its claim, or is told why not.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use crate::background;
use crate::error::{Error, ErrorKind};
use crate::fingerprint::Comparison;
use crate::flight::Flight;
use crate::new_keys::Token;
use crate::record::{Record, State};
use crate::store::{Claimed, StoreError, StoreErrorKind};
use crate::sync::Instant;
use crate::tracker::Active;
use crate::within::{UNANSWERED, repeated};

/// A granted claim.
pub(crate) struct Grant {
    pub(crate) attempt: u32,
    /// Before the claim was sent.
    pub(crate) since: Instant,
    pub(crate) active: Active,
}

/// The answer to a claim, as the call sees it.
pub(crate) enum Boarding {
    Granted(Grant),
    Refused(Claimed),
}

impl Flight {
    /// Whether fewer handlers run than may.
    pub(crate) fn has_room(&self) -> bool {
        self.engine().0.tracker.has_room(self.config().max_in_flight)
    }

    /// Claims the record, or tells why it cannot be had.
    ///
    /// What a try that was not answered may come to hold is given back in the background.
    pub(crate) async fn claim(self: &Arc<Self>) -> Result<Boarding, Error> {
        if !self.has_room() {
            return self.look().await;
        }
        let token = self.admit().await?;
        let mut active = self.enter();
        match self.ask().await {
            Ok((Claimed::Granted { attempt }, since)) => {
                spend(token, attempt);
                let has_room = active.take_room(self.config().max_in_flight);
                let grant = Grant { attempt, since, active };
                if has_room {
                    return Ok(Boarding::Granted(grant));
                }
                // Others that were asking, too, were faster.
                self.undo(grant).await;
                Err(Error::new(ErrorKind::Overloaded).at(self.id()))
            }
            Ok((refused, _)) => {
                // An answer that outlives any claim under way refuses that, too.
                let is_done = matches!(&refused, Claimed::Completed { expires_in, .. } if *expires_in > background::LATEST);
                if !is_done {
                    self.settle_doubt();
                }
                Ok(Boarding::Refused(refused))
            }
            Err(error) => {
                // The last try may have been given up while it was under way.
                self.doubt(&error);
                self.settle_doubt();
                Err(Error::from_store(error).at(self.id()))
            }
        }
    }

    /// Takes one of the new keys that the scope has left. Without one left only a key that has a record may be claimed.
    ///
    /// `None` where nothing is counted.
    pub(crate) async fn admit(&self) -> Result<Option<Token<'_>>, Error> {
        let left = match self.take_token() {
            Ok(token) => return Ok(token),
            Err(left) => left,
        };
        match self.try_look_up().await {
            Ok(Some(_)) => Ok(None),
            Ok(None) => Err(self.too_many_keys(left)),
            Err(error) => Err(Error::from_store(error).at(self.id())),
        }
    }

    /// Takes one of the new keys that the scope has left, or tells when there will be one.
    ///
    /// `None` where nothing is counted.
    pub(crate) fn take_token(&self) -> Result<Option<Token<'_>>, Duration> {
        match (&self.engine().0.new_keys, self.slot()) {
            (Some(keys), Some(slot)) => keys.take(slot).map(Some),
            _ => Ok(None),
        }
    }

    /// The error for a new key where the scope has none left.
    pub(crate) fn too_many_keys(&self, left: Duration) -> Error {
        Error::new(ErrorKind::TooManyKeys).retry_in(left).at(self.id())
    }

    /// Asks for the claim, and asks again where the connection broke, or where the grant came so late that less than a
    /// third of its lease may be left: nothing begins on that. The owner makes it safe.
    async fn ask(&self) -> Result<(Claimed, Instant), StoreError> {
        repeated(self.store_timeout(), UNANSWERED, || async {
            let asked = self.ask_once().await;
            asked.inspect_err(|error| self.doubt(error))
        })
        .await
    }

    async fn ask_once(&self) -> Result<(Claimed, Instant), StoreError> {
        let since = Instant::now();
        let mut step = self.engine().0.store.claim(self.id(), self.asked());
        let mut was_pending = false;
        let claimed = poll_fn(|cx| {
            let polled = step.as_mut().poll(cx);
            was_pending |= polled.is_pending();
            polled
        })
        .await?;
        // What was granted at once is not nearly over; no need to ask the clock.
        if was_pending
            && matches!(claimed, Claimed::Granted { .. })
            && since.elapsed() >= self.lease() / 3 * 2
        {
            return Err(StoreError::with_source(
                StoreErrorKind::TimedOut,
                "the claim was granted, and took most of its lease",
            ));
        }
        Ok((claimed, since))
    }

    /// Answers a live key while there is no room for a new one.
    pub(crate) async fn look(&self) -> Result<Boarding, Error> {
        let record = self.try_look_up().await.map_err(|error| Error::from_store(error).at(self.id()))?;
        record
            .and_then(|record| self.judge(record))
            .map(Boarding::Refused)
            .ok_or_else(|| Error::new(ErrorKind::Overloaded).at(self.id()))
    }

    /// What a claim would be told of this record, if it were not granted; the order is the contract's.
    pub(crate) fn judge(&self, record: Record) -> Option<Claimed> {
        if record.state == State::Expired {
            return Some(Claimed::Expired);
        }
        match self.asked().fingerprints.compare(&record.fingerprint) {
            Comparison::Same => {}
            Comparison::Different => return Some(Claimed::Mismatch),
            Comparison::Incomparable => return Some(Claimed::Incomparable),
        }
        match (record.state, record.answer) {
            (State::Completed, Some(answer)) => {
                Some(Claimed::Completed { answer, expires_in: record.expires_in.unwrap_or_default() })
            }
            (State::InFlight, _) => {
                Some(Claimed::InFlight { lease_left: record.lease_left.unwrap_or_default() })
            }
            (State::Unknown, _) => Some(Claimed::Unknown),
            _ => None,
        }
    }
}

/// Counts a granted key, if it is new: an attempt that is not the first has a record already.
pub(crate) fn spend(token: Option<Token<'_>>, attempt: u32) {
    if let (Some(token), 1) = (token, attempt) {
        token.spend();
    }
}
