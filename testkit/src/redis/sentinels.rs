//! Sentinels: servers that watch a primary of Redis and its replicas, and name another primary when it is away.

use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;
use std::thread;

use super::group::{Group, eventually, is_attached, with_password_of_primary};
use super::reply::Reply;
use super::{RedisProduct, RedisServer, add, make_configuration, program, setting};
use crate::account::Account;
use crate::server::{Product, Server};

/// What the Sentinels call the primary and its replicas.
const NAME: &str = "idem";
const SERVERS: usize = 3;
const SENTINELS: usize = 3;
/// How long a server may be silent. A Sentinel connects at most once a second, and anew to each primary that is named: with
/// less than a few seconds a machine that does a lot else has it take a healthy primary for down.
const DOWN_AFTER_MILLIS: &str = "3000";

/// A Sentinel, which is a server of Redis that has been told to be one.
#[derive(Debug, Clone, Copy)]
pub struct Sentinel;

impl RedisProduct for Sentinel {}

impl Product for Sentinel {
    const NAME: &str = "a Sentinel";
    const ACCOUNT: &str = "redis";
    const READY: &str = "Sentinel ID is";
    const PORT_TAKEN: &str = "Failed listening on port";

    fn make_data(account: Account, folder: &Path) {
        make_configuration(account, folder);
    }

    fn program(account: Account, folder: &Path, port: u16, settings: &[String]) -> Command {
        let mut command = program(account, folder, port);
        command.arg("--sentinel");
        add(&mut command, settings);
        command
    }

    fn address(port: u16, _: &[String]) -> String {
        format!("redis://127.0.0.1:{port}")
    }
}

/// A primary and two replicas, watched by three Sentinels. The servers have numbers: at first 0 is the primary.
///
/// A server that says nothing for three seconds is taken for down. What is done to a server is waited for, what the
/// others make of it is not: [`settle`](Self::settle) does that.
#[derive(Debug)]
pub struct RedisSentinels {
    // Dropped first: they are to see nobody go.
    sentinels: Vec<Server<Sentinel>>,
    servers: Group,
}

impl RedisSentinels {
    /// Those of this program's tests. Nobody is to be paused or killed there; in return the Sentinels are patient on a
    /// machine that does a lot else.
    ///
    /// # Panics
    ///
    /// When they cannot be started; says what to do.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<RedisSentinels> = OnceLock::new();
        SHARED.get_or_init(|| {
            let all = Self::start(&[]);
            for sentinel in &all.sentinels {
                sentinel.command(&["SENTINEL", "SET", NAME, "down-after-milliseconds", "60000"]);
            }
            all
        })
    }

    /// Starts them for one test, the servers with these settings, and waits until all know each other.
    ///
    /// # Panics
    ///
    /// When they cannot be started; says what to do.
    pub fn start(settings: &[&str]) -> Self {
        let sentinels = thread::scope(|scope| {
            let starting: Vec<_> = (0..SENTINELS).map(|_| scope.spawn(|| Server::start(&[]))).collect();
            starting.into_iter().map(|server| server.join().expect("a Sentinel that starts")).collect()
        });
        let servers = Group::start(SERVERS, || {
            let mut all = vec!["repl-diskless-sync-delay 0".to_owned()];
            all.extend(settings.iter().map(|setting| (*setting).to_owned()));
            with_password_of_primary(all)
        });
        let all = Self { sentinels, servers };
        all.form();
        all
    }

    fn form(&self) {
        let primary = self.servers[0].port().to_string();
        for replica in self.servers.iter().skip(1) {
            replica.command(&["REPLICAOF", "127.0.0.1", &primary]);
            // After a restart it is one still.
            replica.command(&["CONFIG", "REWRITE"]);
        }
        eventually("the replicas follow", || self.servers.iter().all(is_attached).then_some(()));
        let quorum = (SENTINELS / 2 + 1).to_string();
        for sentinel in &self.sentinels {
            // How often they look and tell each other, in milliseconds; unasked it is seconds. How often they ping stays
            // as it is: what they know of a replica counts for five times that, and is asked for once a second.
            let often = ["INFO-PERIOD", "200", "PUBLISH-PERIOD", "200", "ASK-PERIOD", "100"];
            sentinel.command(&[["SENTINEL", "DEBUG"].as_slice(), &often].concat());
            sentinel.command(&["SENTINEL", "MONITOR", NAME, "127.0.0.1", &primary, &quorum]);
            let mut policy = vec!["SENTINEL", "SET", NAME, "down-after-milliseconds", DOWN_AFTER_MILLIS];
            policy.extend(["failover-timeout", "3000", "parallel-syncs", "2"]);
            if let Some(password) = setting(self.servers[0].settings(), "requirepass") {
                policy.extend(["auth-pass", password]);
            }
            sentinel.command(&policy);
        }
        self.settle();
    }

    /// Waits until all Sentinels name the same primary, which is neither killed nor paused and takes writes, know each
    /// other and its replicas, and those replicas that are not away follow it.
    ///
    /// # Panics
    ///
    /// When that takes more than a minute.
    pub fn settle(&self) {
        eventually("all know each other", || self.is_settled()?.then_some(()));
    }

    /// What the Sentinels call the primary and its replicas.
    pub fn name(&self) -> &'static str {
        NAME
    }

    /// Where the Sentinels are.
    pub fn urls(&self) -> Vec<String> {
        self.sentinels.iter().map(|sentinel| format!("redis://127.0.0.1:{}", sentinel.port())).collect()
    }

    /// A server by its number.
    ///
    /// # Panics
    ///
    /// When there is none.
    pub fn server(&self, number: usize) -> &RedisServer {
        &self.servers[number]
    }

    /// Which server all Sentinels name as the primary. Waits while they do not agree.
    pub fn primary(&self) -> usize {
        eventually("the Sentinels agree", || self.named())
    }

    /// Has another server made the primary while all run, waits until all know it and gives its number. What the old
    /// primary has taken meanwhile may be lost.
    pub fn fail_over(&self) -> usize {
        let old = self.primary();
        eventually("a Sentinel begins a failover", || {
            let reply = self.sentinels[0].ask(&["SENTINEL", "FAILOVER", NAME]).ok()?;
            (!matches!(reply, Reply::Error(_))).then_some(())
        });
        eventually("another primary is named", || self.named().filter(|named| *named != old));
        self.settle();
        self.primary()
    }

    /// Stops a server where it is.
    pub fn pause(&mut self, server: usize) {
        self.servers.pause(server);
    }

    /// Lets a paused server go on.
    pub fn resume(&mut self, server: usize) {
        self.servers.resume(server);
    }

    /// Kills a server.
    pub fn kill(&mut self, server: usize) {
        self.servers.kill(server);
    }

    /// Starts a killed server again. An old primary is one until the Sentinels make it a replica of the new one.
    pub fn restart(&mut self, server: usize) {
        self.servers.restart(server);
    }

    fn named(&self) -> Option<usize> {
        let mut ports = self.sentinels.iter().map(|sentinel| {
            let reply = sentinel.ask(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME]).ok()?;
            let [_, port] = reply.list() else { return None };
            port.text().parse::<u16>().ok()
        });
        let first = ports.next()??;
        ports.all(|port| port == Some(first)).then(|| self.servers.with_port(first))?
    }

    fn is_settled(&self) -> Option<bool> {
        let primary = self.named()?;
        if !self.servers.present().any(|(number, _)| number == primary) {
            return Some(false);
        }
        for (number, server) in self.servers.present() {
            let said = server.ask(&["INFO", "replication"]).ok()?.fields();
            let follows = said.get("master_port").map(String::as_str);
            let expected = self.servers[primary].port().to_string();
            if follows != (number != primary).then_some(&*expected) || !is_attached(server) {
                return Some(false);
            }
        }
        let agree = self.sentinels.iter().map(|sentinel| self.is_content(sentinel, primary));
        Some(agree.collect::<Option<Vec<_>>>()?.into_iter().all(|content| content))
    }

    /// Whether a Sentinel finds that all are in their place.
    fn is_content(&self, sentinel: &Server<Sentinel>, primary: usize) -> Option<bool> {
        let said = sentinel.ask(&["SENTINEL", "MASTER", NAME]).ok()?.fields();
        let replicas = sentinel.ask(&["SENTINEL", "REPLICAS", NAME]).ok()?;
        let replicas: Vec<_> = replicas.list().iter().map(Reply::fields).collect();
        let found = self.servers.present().filter(|(number, _)| *number != primary).all(|(_, server)| {
            let port = server.port().to_string();
            replicas.iter().any(|replica| {
                replica["port"] == port
                    && replica["flags"] == "slave"
                    && replica["master-link-status"] == "ok"
            })
        });
        let known = said["flags"] == "master" && said["num-slaves"] == (SERVERS - 1).to_string();
        Some(known && found && said["num-other-sentinels"] == (SENTINELS - 1).to_string())
    }
}
