//! What the tests of the Redis store share.
#![allow(dead_code, unused_macros, unused_imports)]

use idem_core::store::StoreError;
use idem_redis::{RedisBuilder, RedisStore};
use idem_testkit::RedisServer;

/// Claims, answers and grants, as the tests of SQL stores have them.
#[path = "../../../idem-sqlx/tests/common/mod.rs"]
pub(crate) mod records;

pub(crate) use records::*;

/// A store of a server, under the default prefix.
pub(crate) fn at(server: &RedisServer) -> RedisBuilder {
    RedisStore::builder().url(server.url())
}

/// All that an error says.
pub(crate) fn told(error: &StoreError) -> String {
    let source = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
    format!("{error}: {source}")
}

/// The key of a record under the default prefix.
pub(crate) fn key(id: &idem_core::record::RecordId) -> String {
    format!("idem:{{{}}}", id.digest().map(|byte| format!("{byte:02x}")).concat())
}

/// Makes the user of REDIS.md, for every place and option.
pub(crate) fn let_in(server: &RedisServer) {
    for line in include_str!("../../REDIS.md").lines().filter(|line| line.starts_with("ACL SETUSER")) {
        let rights = line.split('#').next().unwrap_or_default();
        server.command(&rights.split_whitespace().collect::<Vec<_>>());
    }
}

/// A kind of store for the conformance suite.
///
/// The clock of Redis cannot be wound, so its time is waited for: a little more, since spans are rounded up.
macro_rules! subject {
    ($name:ident, $store:ty, $fresh:expr) => {
        struct $name;

        impl Subject for $name {
            type Store = $store;

            async fn fresh(&self) -> $store {
                $fresh
            }

            async fn pass(&self, span: std::time::Duration) {
                tokio::time::sleep(span + std::time::Duration::from_millis(5)).await;
            }
        }
    };
}
pub(crate) use subject;
