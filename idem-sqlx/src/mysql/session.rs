//! What a store must know of its sessions.

use sqlx::Row as _;
use sqlx::mysql::MySql;

use super::fault;
use crate::fault::{Fault, misconfigured};
use crate::lines::{Line, Order};

const SETTINGS: &str = "SHOW SESSION VARIABLES WHERE Variable_name IN
    ('autocommit', 'max_allowed_packet', 'transaction_isolation', 'tx_isolation')";

/// Looks at the settings of a session, and tells the most bytes that a statement may have.
///
/// Refused is what would undo the store's promises in silence: steps that are not committed, and rows that are not.
pub(super) async fn check(line: &mut Line<'_, MySql>) -> Result<usize, Fault> {
    let mut most = usize::MAX;
    for row in line.execute(Order::Simple(SETTINGS.to_owned())).await?.rows {
        let name: &str = row.try_get(0).map_err(fault::of)?;
        let value: &str = row.try_get(1).map_err(fault::of)?;
        match (name, value) {
            ("max_allowed_packet", bytes) => most = bytes.parse().unwrap_or(usize::MAX),
            ("autocommit", "OFF" | "0") => {
                let reason = "the session's `autocommit` is off, so no step would be committed; switch it on";
                return Err(Fault::Refused(misconfigured(reason)));
            }
            ("tx_isolation" | "transaction_isolation", "READ-UNCOMMITTED") => {
                let reason = "the session's isolation is READ UNCOMMITTED, so claims would see what others undo; use another";
                return Err(Fault::Refused(misconfigured(reason)));
            }
            _ => {}
        }
    }
    Ok(most)
}
