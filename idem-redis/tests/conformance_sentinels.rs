//! The store contract on a primary that Sentinels watch over.

mod common;

use common::{DAY, completed, id};
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

#[tokio::test]
async fn a_sentinel_that_is_silent_does_not_keep_the_others_from_being_asked() {
    let sentinels = RedisSentinels::shared();
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let mut urls = vec![format!("redis://{}", silent.local_addr().expect("an address"))];
    urls.extend(sentinels.urls());
    let begun = std::time::Instant::now();
    let store = RedisStore::sentinel(sentinels.name(), urls).prefix(&redis_namespace()).open().await;
    store.unwrap_or_else(|error| panic!("{}", common::told(&error)));
    println!("opened after {:?}", begun.elapsed());
}

#[tokio::test]
async fn a_user_behind_sentinels_needs_no_more_rights_than_the_documentation_says() {
    let sentinels = RedisSentinels::shared();
    for number in 0..3 {
        common::let_in(sentinels.server(number));
        let few = ["ACL", "SETUSER", "few", "on", ">password", "~*", "+@all", "-role"];
        sentinels.server(number).command(&few);
    }
    let as_user = |user: &str| {
        RedisStore::sentinel(sentinels.name(), sentinels.urls())
            .primary_like(&format!("redis://{user}:password@primary"))
            .wait_replicas(1)
    };
    let error = as_user("few").open().await.expect_err("who may not ask for the role is told so at once");
    assert!(common::told(&error).contains("'role'"), "{}", common::told(&error));
    sentinels.server(sentinels.primary()).command(&["ACL", "LOG", "RESET"]);
    let store = as_user("app").open().await;
    let store = store.unwrap_or_else(|error| panic!("{}", common::told(&error)));
    completed(&store, &id("done"), DAY).await;
    let denied = sentinels.server(sentinels.primary()).command(&["ACL", "LOG"]);
    assert!(denied.list().is_empty(), "{denied:?}");
}
