//! Migrations: a slot of a cluster on its way from one primary to another.

use super::cluster::RedisCluster;
use super::reply::Reply;
use super::setting;

/// How many keys are moved at once.
const SOME: &str = "100";

/// A slot on its way: what is still at its old place is served there, and a client that asks there for anything else is
/// sent to the new one.
#[derive(Debug)]
#[must_use = "the cluster is in between until it has ended"]
pub struct Migration<'a> {
    cluster: &'a RedisCluster,
    slot: String,
    from: usize,
    to: usize,
}

impl<'a> Migration<'a> {
    pub(super) fn begin(cluster: &'a RedisCluster, slot: usize, from: usize, to: usize) -> Self {
        assert_ne!(from, to, "the slot is there already");
        let slot = slot.to_string();
        cluster.node(to).command(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", cluster.id(from)]);
        cluster.node(from).command(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", cluster.id(to)]);
        Self { cluster, slot, from, to }
    }

    /// Moves all keys that are in the slot now, and says how many they were.
    ///
    /// # Panics
    ///
    /// When a primary is away.
    pub fn move_keys(&self) -> usize {
        let (from, to) = (self.cluster.node(self.from), self.cluster.node(self.to));
        let port = to.port().to_string();
        let mut moved = 0;
        loop {
            let keys = from.command(&["CLUSTER", "GETKEYSINSLOT", &self.slot, SOME]);
            let keys: Vec<_> = keys.list().iter().map(Reply::bytes).collect();
            if keys.is_empty() {
                return moved;
            }
            let mut command: Vec<&[u8]> = vec![b"MIGRATE", b"127.0.0.1", port.as_bytes(), b"", b"0", b"5000"];
            if let Some(password) = setting(to.settings(), "requirepass") {
                command.extend([b"AUTH", password.as_bytes()]);
            }
            command.push(b"KEYS");
            command.extend(&keys);
            from.command(&command);
            moved += keys.len();
        }
    }

    /// Gives the slot to its new primary, and waits until all nodes know.
    ///
    /// # Panics
    ///
    /// When keys were left behind.
    pub fn end(self) {
        // The new one first: nobody is to be sent there before it knows that the slot is its own.
        let others = self.cluster.primaries().into_iter().filter(|node| ![self.from, self.to].contains(node));
        for node in [self.to, self.from].into_iter().chain(others) {
            let id = self.cluster.id(self.to);
            self.cluster.node(node).command(&["CLUSTER", "SETSLOT", &self.slot, "NODE", id]);
        }
        self.cluster.settle();
    }
}
