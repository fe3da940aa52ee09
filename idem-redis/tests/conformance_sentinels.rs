//! The store contract on a primary that Sentinels watch over.

mod common;

use idem_core::conformance::Subject;
use idem_core::conformance_tests;
use idem_redis::RedisStore;
use idem_testkit::{RedisSentinels, redis_namespace};

common::subject!(Sentinels, RedisStore, {
    let sentinels = RedisSentinels::shared();
    let store = RedisStore::sentinel(sentinels.name(), sentinels.urls()).prefix(&redis_namespace());
    store.open().await.expect("a store")
});

common::subject!(Replicated, RedisStore, {
    let sentinels = RedisSentinels::shared();
    let store = RedisStore::sentinel(sentinels.name(), sentinels.urls()).prefix(&redis_namespace());
    store.wait_replicas(2).answers_within(0).open().await.expect("a store")
});

conformance_tests!(mod replicated, Replicated);
conformance_tests!(mod sentinels, Sentinels);
