//! Histories: which writes a server of Redis has taken, its own or another's, and how many.

use super::RedisServer;

/// What a server's data has come from, as its replication tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct History {
    /// The name of the history that it goes on with. A server that is made a primary begins a new one.
    pub id: String,
    /// How far it is, in bytes of replicated commands.
    pub offset: u64,
    /// The history that it went on with before, and how far that was when the new one began; none after a full copy.
    pub before: Option<(String, u64)>,
}

impl RedisServer {
    /// What the server's data has come from.
    ///
    /// # Panics
    ///
    /// When the server cannot be reached, or answers with an error.
    pub fn history(&self) -> History {
        let said = self.info("replication");
        let number = |name: &str| said[name].parse::<i64>().expect("an offset");
        let offset = match said["role"].as_str() {
            "master" => number("master_repl_offset"),
            _ => number("slave_repl_offset"),
        };
        // It names the offset that comes next; -1 is none.
        let before = u64::try_from(number("second_repl_offset") - 1).ok();
        History {
            id: said["master_replid"].clone(),
            offset: u64::try_from(offset).unwrap_or_default(),
            before: before.map(|offset| (said["master_replid2"].clone(), offset)),
        }
    }
}
