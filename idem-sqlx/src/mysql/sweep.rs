//! Sweeping: around the table in the order of its ids, a page at a time.

use std::sync::atomic::Ordering;

use idem_core::store::StoreError;
use sqlx::Row as _;

use super::{MySqlServer, fault};
use crate::database::Round;
use crate::fault::Fault;
use crate::lines::Order;
use crate::step::{Value, Verb};

/// How many records a sweep looks at in one statement.
const LOOK: i64 = 1_000;

/// What one statement saw of the table.
struct Page {
    /// Those that are gone, in their order.
    gone: Vec<Vec<u8>>,
    /// The last one; `None` if there was none.
    last: Option<Vec<u8>>,
    /// Whether there may be more behind it.
    is_full: bool,
}

impl MySqlServer {
    /// Looks at the next page of a round, and deletes what of it is gone.
    pub(super) async fn sweep_page(&self, round: &mut Round, limit: u32) -> Result<u64, StoreError> {
        let start = *round.start.get_or_insert_with(|| {
            round.at = self.swept.load(Ordering::Relaxed);
            round.at
        });
        let mut page = self.page(round.at).await.map_err(Fault::into_error)?;
        if page.gone.len() > limit as usize {
            page.gone.truncate(limit as usize);
            page.last = page.gone.last().cloned();
            page.is_full = true;
        }
        let deleted = self.delete(&page.gone).await?;
        match page.last {
            Some(last) if page.is_full => {
                round.at = place(&last).max(round.at);
                round.over = round.wrapped && round.at >= start;
            }
            _ => {
                round.over = round.wrapped || start == 0;
                round.wrapped = true;
                round.at = 0;
            }
        }
        self.swept.store(round.at, Ordering::Relaxed);
        Ok(deleted)
    }

    async fn page(&self, after: i64) -> Result<Page, Fault> {
        let values = [Value::Bytes(end_of(after).to_vec().into()), Value::Int(LOOK)];
        let rows = self.execute(&self.texts.find_gone, &values, &mut self.attempts()).await?.rows;
        let mut page = Page { gone: Vec::new(), last: None, is_full: false };
        for row in rows {
            let id: Vec<u8> = row.try_get(0).map_err(fault::of)?;
            let is_gone: i64 = row.try_get(1).map_err(fault::of)?;
            page.is_full = row.try_get::<i64, _>(2).map_err(fault::of)? >= LOOK;
            if is_gone != 0 {
                page.gone.push(id.clone());
            }
            page.last = Some(id);
        }
        Ok(page)
    }

    /// Deletes records that are still gone. Those that somebody else is at are left to him.
    async fn delete(&self, ids: &[Vec<u8>]) -> Result<u64, StoreError> {
        let mut deleted = 0;
        let mut parts = if ids.is_empty() { vec![] } else { vec![ids] };
        while let Some(part) = parts.pop() {
            let text = self.texts.step(Verb::Sweep).with_list(part);
            match self.once(Order::Simple(text)).await {
                Ok(done) => deleted += done.changed,
                // Somebody is at one of them: at which?
                Err(Fault::Locked(_) | Fault::Undone(_)) if part.len() > 1 => {
                    let (first, second) = part.split_at(part.len() / 2);
                    parts.extend([second, first]);
                }
                Err(Fault::Locked(_) | Fault::Undone(_)) => {}
                Err(fault) => return Err(fault.into_error()),
            }
        }
        Ok(deleted)
    }
}

/// Where an id is in the table: ids are digests, and no two have their first 63 bits in common.
fn place(id: &[u8]) -> i64 {
    let first = id.first_chunk().map_or(0, |first| u64::from_be_bytes(*first));
    i64::try_from(first >> 1).unwrap_or(i64::MAX)
}

/// The last id that is at a place; before all others if it is the first place.
fn end_of(place: i64) -> [u8; 32] {
    if place == 0 {
        return [0; 32];
    }
    let mut id = [0xff; 32];
    id[..8].copy_from_slice(&(u64::try_from(place).unwrap_or(0) << 1 | 1).to_be_bytes());
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_begins_after_the_place_where_the_last_one_ended() {
        for first in [2, 3, 0x1234_5678_9abc_def0, u64::MAX - 2, u64::MAX] {
            let mut id = [0x5a; 32];
            id[..8].copy_from_slice(&first.to_be_bytes());
            let end = end_of(place(&id));
            assert!(end >= id && end[..7] == id[..7], "{first:x}");
            assert_eq!(place(&end), place(&id));
        }
        assert_eq!(end_of(0), [0; 32]);
    }
}
