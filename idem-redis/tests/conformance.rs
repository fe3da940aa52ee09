//! The store contract on Redis: on one connection and on four, with answers apart from their records, and as `dyn`.

mod common;

use std::sync::Arc;

use idem_core::conformance::Subject;
use idem_core::conformance_tests;
use idem_core::store::Store;
use idem_redis::{RedisBuilder, RedisStore};
use idem_testkit::{RedisServer, redis_namespace};

/// A store of the server that all cases share, under a prefix of its own.
fn store() -> RedisBuilder {
    RedisStore::builder().url(RedisServer::shared().url()).prefix(&redis_namespace())
}

common::subject!(One, RedisStore, store().open().await.expect("a store"));
common::subject!(Four, RedisStore, store().connections(4).listen(false).open().await.expect("a store"));
common::subject!(Apart, RedisStore, store().answers_within(0).open().await.expect("a store"));
common::subject!(Dyn, Arc<dyn Store>, Arc::new(store().open().await.expect("a store")));

conformance_tests!(mod one, One);
conformance_tests!(mod four, Four);
conformance_tests!(mod apart, Apart);
conformance_tests!(mod dynamic, Dyn);
