//! Clusters of Redis: six nodes, each slot on one of three primaries, which have a replica each.

use std::sync::OnceLock;

use super::group::{Group, eventually, is_attached, with_password_of_primary};
use super::migration::Migration;
use super::{RedisServer, setting};
use crate::server::free_port;

const PRIMARIES: usize = 3;
const NODES: usize = 6;
const SLOTS: usize = 16_384;

/// A cluster whose nodes have numbers: at first 0 to 2 are primaries, and 3 to 5 their replicas in this order.
///
/// A node that says nothing for a second is taken for failed by the others, unless settings say otherwise. What is done to
/// a node is waited for, what the others make of it is not: [`settle`](Self::settle) does that.
#[derive(Debug)]
pub struct RedisCluster {
    nodes: Group,
    /// What nodes call each other, also after a restart.
    ids: Vec<String>,
}

/// What one node says of another, or of itself.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Seen {
    node: usize,
    flags: String,
    /// The name of its primary; `-` if it is one.
    follows: String,
    link: String,
    /// As they are written, such as `0-5460`; those on their way are left out.
    slots: Vec<String>,
}

impl RedisCluster {
    /// The cluster of this program's tests. Nobody is to be paused or killed there; in return its nodes are patient with
    /// each other on a machine that does a lot else.
    ///
    /// # Panics
    ///
    /// When it cannot be started; says what to do.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<RedisCluster> = OnceLock::new();
        SHARED.get_or_init(|| {
            let cluster = Self::start(&[]);
            for node in cluster.nodes.iter() {
                node.command(&["CONFIG", "SET", "cluster-node-timeout", "60000"]);
            }
            cluster
        })
    }

    /// Starts a cluster for one test, each of its nodes with these settings, and waits until all slots are served and
    /// all replicas follow.
    ///
    /// # Panics
    ///
    /// When it cannot be started; says what to do.
    pub fn start(settings: &[&str]) -> Self {
        let nodes = Group::start(NODES, || {
            let mut all = vec![
                "cluster-enabled yes".to_owned(),
                // Else it is the port and 10,000, which there may not be.
                format!("cluster-port {}", free_port()),
                "cluster-node-timeout 1000".to_owned(),
                // A replica stays with its primary, and takes over from it however long it was cut off.
                "cluster-allow-replica-migration no".to_owned(),
                "cluster-replica-validity-factor 0".to_owned(),
                "repl-diskless-sync-delay 0".to_owned(),
            ];
            all.extend(settings.iter().map(|setting| (*setting).to_owned()));
            with_password_of_primary(all)
        });
        let ids = nodes.iter().map(|node| node.command(&["CLUSTER", "MYID"]).text().to_owned()).collect();
        let cluster = Self { nodes, ids };
        cluster.form();
        cluster
    }

    fn form(&self) {
        for (number, node) in self.nodes.iter().enumerate() {
            node.command(&["CLUSTER", "SET-CONFIG-EPOCH", &(number + 1).to_string()]);
            if number < PRIMARIES {
                let [first, next] = [number, number + 1].map(|part| part * SLOTS / PRIMARIES);
                node.command(&["CLUSTER", "ADDSLOTSRANGE", &first.to_string(), &(next - 1).to_string()]);
            }
        }
        for (number, node) in self.nodes.iter().enumerate() {
            for other in self.nodes.iter().skip(number + 1) {
                let bus = setting(other.settings(), "cluster-port").expect("a port for the others");
                node.command(&["CLUSTER", "MEET", "127.0.0.1", &other.port().to_string(), bus]);
            }
        }
        eventually("all nodes know each other", || self.views().map(drop));
        for replica in PRIMARIES..NODES {
            self.nodes[replica].command(&["CLUSTER", "REPLICATE", &self.ids[replica - PRIMARIES]]);
        }
        self.settle();
    }

    /// Waits until all nodes that are neither killed nor paused agree on who serves which slots, and on no other nodes
    /// for them, no slot is left unserved, and all replicas follow their primary.
    ///
    /// # Panics
    ///
    /// When that takes more than a minute: a primary and its replica may both be away.
    pub fn settle(&self) {
        eventually("the cluster is in order", || self.is_settled()?.then_some(()));
    }

    /// Where its nodes are.
    pub fn urls(&self) -> Vec<String> {
        self.nodes.iter().map(|node| node.url().to_owned()).collect()
    }

    /// A node by its number.
    ///
    /// # Panics
    ///
    /// When there is none.
    pub fn node(&self, number: usize) -> &RedisServer {
        &self.nodes[number]
    }

    /// Which nodes are primaries, in order.
    pub fn primaries(&self) -> Vec<usize> {
        let seen = self.some_view().into_iter();
        seen.filter(|seen| !seen.slots.is_empty()).map(|seen| seen.node).collect()
    }

    /// Which node serves a key; if it is away, the one that did until now.
    ///
    /// # Panics
    ///
    /// When there is none.
    pub fn primary_of(&self, key: &str) -> usize {
        let slot = self.slot_of(key);
        let seen = self.some_view();
        seen.iter().find(|seen| seen.serves(slot)).expect("a slot that is served").node
    }

    /// Which node follows a primary.
    ///
    /// # Panics
    ///
    /// When there is none.
    pub fn replica_of(&self, primary: usize) -> usize {
        let seen = self.some_view();
        seen.iter().find(|seen| seen.follows == self.ids[primary]).expect("a replica").node
    }

    /// The slot of a key.
    pub(super) fn slot_of(&self, key: &str) -> usize {
        usize::try_from(self.someone().command(&["CLUSTER", "KEYSLOT", key]).integer()).expect("a slot")
    }

    /// What nodes call a node.
    pub(super) fn id(&self, node: usize) -> &str {
        &self.ids[node]
    }

    /// Lets the replica of a primary take over while both run, which loses nothing, and gives its number.
    pub fn fail_over(&self, primary: usize) -> usize {
        let replica = self.replica_of(primary);
        self.nodes[replica].command(&["CLUSTER", "FAILOVER"]);
        eventually("the replica takes over", || {
            let seen = self.view(replica)?;
            seen.iter().any(|seen| seen.node == replica && seen.follows == "-").then_some(())
        });
        self.settle();
        replica
    }

    /// Begins to take the slot of a key to another primary, step by step.
    pub fn begin_migration(&self, key: &str, to: usize) -> Migration<'_> {
        Migration::begin(self, self.slot_of(key), self.primary_of(key), to)
    }

    /// Takes the slot of a key, and all keys in it, to another primary.
    pub fn migrate(&self, key: &str, to: usize) {
        let migration = self.begin_migration(key, to);
        migration.move_keys();
        migration.end();
    }

    /// Stops a node where it is.
    pub fn pause(&mut self, node: usize) {
        self.nodes.pause(node);
    }

    /// Lets a paused node go on.
    pub fn resume(&mut self, node: usize) {
        self.nodes.resume(node);
    }

    /// Kills a node.
    pub fn kill(&mut self, node: usize) {
        self.nodes.kill(node);
    }

    /// Starts a killed node again. Without persistence it has nothing, and if nobody has taken over from it meanwhile
    /// its replica has nothing soon, too.
    pub fn restart(&mut self, node: usize) {
        self.nodes.restart(node);
    }

    fn someone(&self) -> &RedisServer {
        self.nodes.present().next().expect("a node that is there").1
    }

    fn some_view(&self) -> Vec<Seen> {
        eventually("a node that knows all", || self.nodes.present().find_map(|(node, _)| self.view(node)))
    }

    /// What a node says of all nodes, itself included, in the order of their numbers; `None` if it does not know them yet.
    fn view(&self, node: usize) -> Option<Vec<Seen>> {
        let reply = self.nodes[node].ask(&["CLUSTER", "NODES"]).ok()?;
        let mut seen: Vec<_> = reply.text().lines().map(|line| self.read(line)).collect::<Option<_>>()?;
        seen.sort();
        (seen.len() == NODES).then_some(seen)
    }

    /// What all nodes say that are not away.
    fn views(&self) -> Option<Vec<Vec<Seen>>> {
        self.nodes.present().map(|(node, _)| self.view(node)).collect()
    }

    fn read(&self, text: &str) -> Option<Seen> {
        let mut fields = text.split(' ');
        let node = self.ids.iter().position(|id| fields.clone().next() == Some(id))?;
        let flags = fields.nth(2)?;
        if flags.contains("handshake") || flags.contains("noaddr") {
            return None;
        }
        let follows = fields.next()?.to_owned();
        let link = fields.nth(3)?.to_owned();
        let slots = fields.filter(|slots| !slots.starts_with('[')).map(str::to_owned).collect();
        Some(Seen { node, flags: flags.trim_start_matches("myself,").to_owned(), follows, link, slots })
    }

    fn is_settled(&self) -> Option<bool> {
        let present: Vec<_> = self.nodes.present().map(|(node, _)| node).collect();
        let mut views = self.views()?;
        for seen in views.iter_mut().flatten() {
            let is_present = present.contains(&seen.node);
            if is_present && (seen.link != "connected" || !["master", "slave"].contains(&&*seen.flags)) {
                return Some(false);
            }
            if !is_present {
                if !seen.slots.is_empty() {
                    return Some(false);
                }
                // On who is away they need not agree.
                (seen.flags, seen.link) = (String::new(), String::new());
            }
        }
        views.dedup();
        let served = self.nodes.present().all(|(_, node)| {
            let reply = node.ask(&["CLUSTER", "INFO"]);
            reply.is_ok_and(|reply| {
                let said = reply.fields();
                said["cluster_state"] == "ok" && said["cluster_slots_ok"] == SLOTS.to_string()
            })
        });
        Some(views.len() == 1 && served && self.nodes.present().all(|(_, node)| is_attached(node)))
    }
}

impl Seen {
    fn serves(&self, slot: usize) -> bool {
        self.slots.iter().any(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let [first, last] = [first, last].map(|end| end.parse::<usize>().expect("a slot"));
            (first..=last).contains(&slot)
        })
    }
}
