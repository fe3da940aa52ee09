//! Servers: what is asked of one before records are trusted to it.

use idem_core::store::{StoreError, StoreErrorKind};
use redis::Value;

use crate::fault::misconfigured;

/// The oldest version that will do: from 7.0 on scripts say what they are, and may read the clock before they write.
const OLDEST: u32 = 7;

/// What a server tells of itself.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Told {
    version: Option<String>,
    maxmemory: u64,
    policy: Option<String>,
    /// Whom it follows, host and port, if it is a replica.
    follows: Option<(String, String)>,
    is_of_cluster: bool,
}

impl Told {
    /// Reads the text of `INFO`.
    fn read(info: &str) -> Self {
        let mut told = Self::default();
        let (mut host, mut port) = (None, None);
        for line in info.lines() {
            match line.split_once(':') {
                Some(("master_host", name)) => host = Some(name.trim().to_owned()),
                Some(("master_port", number)) => port = Some(number.trim().to_owned()),
                Some(("cluster_enabled", enabled)) => told.is_of_cluster = enabled.trim() == "1",
                Some(("redis_version", version)) => told.version = Some(version.trim().to_owned()),
                Some(("maxmemory", bytes)) => told.maxmemory = bytes.trim().parse().unwrap_or(0),
                Some(("maxmemory_policy", policy)) => told.policy = Some(policy.trim().to_owned()),
                _ => {}
            }
        }
        told.follows = host.zip(port);
        told
    }

    /// Refuses a server that by itself is not the place of all records: no step would ever succeed.
    fn check_alone(&self) -> Result<(), StoreError> {
        if self.is_of_cluster {
            return Err(misconfigured(
                "the server is a node of a cluster: name its nodes by `RedisStore::cluster` instead of one URL",
            ));
        }
        match &self.follows {
            None => Ok(()),
            Some((host, port)) => Err(misconfigured(format!(
                "the server is a replica of {host}:{port}: give the URL of the primary, or name its Sentinels by \
                 `RedisStore::sentinel`, so that it is found after a failover, too"
            ))),
        }
    }

    /// Refuses a server that is too old, or that may evict records.
    fn check(&self, allow_eviction: bool) -> Result<(), StoreError> {
        if let Some(version) = &self.version {
            let major: u32 = version.split('.').next().and_then(|major| major.parse().ok()).unwrap_or(OLDEST);
            if major < OLDEST {
                return Err(misconfigured(format!(
                    "the server is Redis {version}, and the store needs Redis 7.0, Valkey 7.2 or newer"
                )));
            }
        }
        match &self.policy {
            // Every record that can expire has a time to live, so `volatile-*` takes them as `allkeys-*` does.
            Some(policy) if policy != "noeviction" && self.maxmemory > 0 && !allow_eviction => {
                Err(misconfigured(format!(
                    "the server evicts keys when its memory is full (maxmemory-policy {policy}), and work whose claim \
                     or answer is evicted runs again; set `maxmemory-policy noeviction`, or say `.allow_eviction()`"
                )))
            }
            _ => Ok(()),
        }
    }
}

/// Checks what one server, or each of several, tells of itself.
pub(crate) fn check(info: &Value, allow_eviction: bool) -> Result<(), StoreError> {
    each(info, &|told| told.check(allow_eviction))
}

/// Checks what a server tells of itself that a URL names.
pub(crate) fn check_alone(info: &Value) -> Result<(), StoreError> {
    each(info, &Told::check_alone)
}

fn each(info: &Value, check: &dyn Fn(&Told) -> Result<(), StoreError>) -> Result<(), StoreError> {
    match info {
        Value::BulkString(text) => check(&Told::read(&String::from_utf8_lossy(text))),
        Value::VerbatimString { text, .. } | Value::SimpleString(text) => check(&Told::read(text)),
        Value::Map(nodes) => nodes.iter().try_for_each(|(_, info)| each(info, check)),
        Value::Array(nodes) => nodes.iter().try_for_each(|info| each(info, check)),
        _ => Ok(()),
    }
}

/// Whether it is only this question that the user may not ask.
pub(crate) fn is_forbidden(error: &StoreError) -> bool {
    let told = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
    error.kind() == StoreErrorKind::Misconfigured && told.contains("NOPERM") && told.contains("'info'")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(version: &str, maxmemory: u64, policy: &str) -> Value {
        let text = format!(
            "# Server\r\nredis_version:{version}\r\nos:Linux\r\n\r\n# Memory\r\nmaxmemory:{maxmemory}\r\n\
             maxmemory_human:0B\r\nmaxmemory_policy:{policy}\r\n"
        );
        Value::BulkString(text.into_bytes())
    }

    #[test]
    fn a_server_that_may_evict_records_is_refused_unless_that_is_allowed() {
        for policy in ["allkeys-lru", "volatile-lru", "volatile-ttl", "allkeys-random"] {
            let error = check(&info("7.0.15", 1 << 30, policy), false).expect_err(policy);
            assert!(std::error::Error::source(&error).is_some_and(|told| told.to_string().contains(policy)));
            assert!(check(&info("7.0.15", 1 << 30, policy), true).is_ok());
            assert!(check(&info("7.0.15", 0, policy), false).is_ok(), "without a limit nothing is evicted");
        }
        assert!(check(&info("7.0.15", 1 << 30, "noeviction"), false).is_ok());
    }

    #[test]
    fn a_server_that_is_too_old_is_refused() {
        assert!(check(&info("6.2.14", 0, "noeviction"), false).is_err());
        for version in ["7.0.0", "7.2.4", "8.0.1", "255.255.255"] {
            assert!(check(&info(version, 0, "noeviction"), false).is_ok());
        }
    }

    #[test]
    fn each_node_of_a_cluster_is_looked_at() {
        let node = |name: &str, info| (Value::SimpleString(name.into()), info);
        let good = || info("7.0.15", 0, "noeviction");
        let bad = Value::Map(vec![node("a", good()), node("b", info("7.0.15", 9, "allkeys-lru"))]);
        assert!(check(&bad, false).is_err());
        assert!(check(&Value::Map(vec![node("a", good()), node("b", good())]), false).is_ok());
    }
}
