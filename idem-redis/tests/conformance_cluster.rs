//! The store contract on a cluster.

mod common;

use idem_core::conformance::Subject;
use idem_core::conformance_tests;
use idem_redis::RedisStore;
use idem_testkit::{RedisCluster, redis_namespace};

common::subject!(
    Cluster,
    RedisStore,
    RedisStore::cluster(RedisCluster::shared().urls())
        .prefix(&redis_namespace())
        .open()
        .await
        .expect("a store")
);
common::subject!(
    Replicated,
    RedisStore,
    RedisStore::cluster(RedisCluster::shared().urls().split_at(1).0)
        .prefix(&redis_namespace())
        .connections(2)
        .answers_within(0)
        .wait_replicas(1)
        .open()
        .await
        .expect("a store")
);

conformance_tests!(mod cluster, Cluster);
conformance_tests!(mod replicated, Replicated);
