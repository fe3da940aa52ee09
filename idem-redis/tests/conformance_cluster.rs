//! The store contract on a cluster.

mod common;

use common::{DAY, completed, id};
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

#[tokio::test]
async fn a_user_of_a_cluster_needs_no_more_rights_than_the_documentation_says() {
    let cluster = RedisCluster::shared();
    for number in 0..cluster.urls().len() {
        common::let_in(cluster.node(number));
    }
    let urls = cluster.urls().into_iter().map(|url| url.replace("redis://", "redis://app:password@"));
    let store = RedisStore::cluster(urls).wait_replicas(1).open().await;
    let store = store.unwrap_or_else(|error| panic!("{}", common::told(&error)));
    for n in 0..6 {
        completed(&store, &id(&n.to_string()), DAY).await;
    }
    for primary in cluster.primaries() {
        let denied = cluster.node(primary).command(&["ACL", "LOG"]);
        assert!(denied.list().is_empty(), "{denied:?}");
    }
}
