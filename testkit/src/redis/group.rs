//! Groups: servers that know each other, of which some may be away.

use std::ops::Index;
use std::thread;
use std::time::{Duration, Instant};

use super::{RedisServer, setting};

/// How long a group may take to agree, on a machine that does a lot else.
const PATIENCE: Duration = Duration::from_mins(1);

/// Servers by their number, which they keep.
#[derive(Debug)]
pub(crate) struct Group {
    servers: Vec<RedisServer>,
    /// Those that were killed or paused.
    away: Vec<bool>,
}

impl Group {
    /// Starts them at the same time; their settings are made anew for each port that is tried.
    pub(crate) fn start(count: usize, settings: impl Fn() -> Vec<String> + Sync) -> Self {
        let servers = thread::scope(|scope| {
            let starting: Vec<_> =
                (0..count).map(|_| scope.spawn(|| RedisServer::start_with(&settings))).collect();
            starting.into_iter().map(|server| server.join().expect("a server that starts")).collect()
        });
        Self { servers, away: vec![false; count] }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &RedisServer> {
        self.servers.iter()
    }

    /// Those that are not away, with their numbers.
    pub(crate) fn present(&self) -> impl Iterator<Item = (usize, &RedisServer)> {
        self.servers.iter().enumerate().filter(|(number, _)| !self.away[*number])
    }

    /// The number of the one with a port.
    pub(crate) fn with_port(&self, port: u16) -> Option<usize> {
        self.servers.iter().position(|server| server.port() == port)
    }

    pub(crate) fn pause(&mut self, number: usize) {
        self.servers[number].pause();
        self.away[number] = true;
    }

    pub(crate) fn resume(&mut self, number: usize) {
        self.servers[number].resume();
        self.away[number] = false;
    }

    pub(crate) fn kill(&mut self, number: usize) {
        self.servers[number].kill();
        self.away[number] = true;
    }

    pub(crate) fn restart(&mut self, number: usize) {
        self.servers[number].restart();
        self.away[number] = false;
    }
}

impl Index<usize> for Group {
    type Output = RedisServer;

    fn index(&self, number: usize) -> &RedisServer {
        &self.servers[number]
    }
}

/// Whether a server has all that its primary had when they met, or is a primary.
pub(crate) fn is_attached(server: &RedisServer) -> bool {
    let Ok(reply) = server.ask(&["INFO", "replication"]) else { return false };
    let said = reply.fields();
    let says = |name: &str, value: &str| said.get(name).is_some_and(|found| found == value);
    says("role", "master") || says("master_link_status", "up") && says("master_sync_in_progress", "0")
}

/// What a server needs to follow one with the same password.
pub(crate) fn with_password_of_primary(mut settings: Vec<String>) -> Vec<String> {
    let password = setting(&settings, "requirepass").map(|password| format!("masterauth {password}"));
    settings.extend(password);
    settings
}

/// Asks until there is an answer.
pub(crate) fn eventually<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(started.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        // Servers tell nobody what they have heard of each other.
        thread::sleep(Duration::from_millis(10));
    }
}
