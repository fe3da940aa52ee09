//! Clusters and Sentinels of Redis form, and do what is asked of them.

mod killed;

use idem_testkit::{RedisCluster, RedisSentinels, Reply};

/// Keys of each of the primaries at first: 0, 1 and 2.
const KEYS: [&str; 3] = ["b", "c", "a"];

#[test]
fn a_cluster_has_three_primaries_with_a_replica_each() {
    let cluster = RedisCluster::shared();
    assert_eq!(cluster.primaries(), [0, 1, 2]);
    for primary in 0..3 {
        assert_eq!(cluster.replica_of(primary), primary + 3);
    }
    assert_eq!(KEYS.map(|key| cluster.primary_of(key)), [0, 1, 2]);
    assert_eq!(cluster.urls().len(), 6);
    cluster.node(0).command(&["SET", KEYS[0], "here"]);
    let elsewhere = cluster.node(1).ask(&["GET", KEYS[0]]).unwrap();
    assert!(matches!(&elsewhere, Reply::Error(error) if error.starts_with("MOVED")), "{elsewhere:?}");
}

#[test]
fn a_replica_takes_over_when_it_is_told_to_and_when_its_primary_is_killed_or_paused() {
    let mut cluster = RedisCluster::start(&["requirepass s3cret", "appendonly yes"]);
    let key = KEYS[1];
    cluster.node(1).command(&["SET", key, "kept"]);
    let read = |cluster: &RedisCluster| {
        let primary = cluster.primary_of(key);
        (primary, cluster.node(primary).command(&["GET", key]).text().to_owned())
    };

    assert_eq!(cluster.fail_over(1), 4);
    assert_eq!(read(&cluster), (4, "kept".into()));
    assert_eq!(cluster.replica_of(4), 1);

    cluster.kill(4);
    cluster.settle();
    assert_eq!(read(&cluster), (1, "kept".into()));
    cluster.restart(4);
    cluster.settle();
    assert_eq!(cluster.replica_of(1), 4);

    cluster.pause(1);
    cluster.settle();
    assert_eq!(read(&cluster), (4, "kept".into()));
    cluster.resume(1);
    cluster.settle();
    assert_eq!((cluster.replica_of(4), cluster.primaries()), (1, vec![0, 2, 4]));
}

#[test]
fn a_slot_goes_from_one_primary_to_another_step_by_step() {
    let cluster = RedisCluster::start(&["requirepass s3cret"]);
    let [key, beside] = ["{a}1", "{a}2"];
    assert_eq!(cluster.primary_of(key), 2);
    cluster.node(2).command(&["SET", key, "moved"]);

    let migration = cluster.begin_migration(key, 0);
    assert_eq!(cluster.node(2).command(&["GET", key]).text(), "moved");
    let asked = cluster.node(2).ask(&["GET", beside]).unwrap();
    assert!(matches!(&asked, Reply::Error(error) if error.starts_with("ASK")), "{asked:?}");
    assert_eq!(migration.move_keys(), 1);
    assert_eq!(cluster.primary_of(key), 2);
    let asked = cluster.node(2).ask(&["GET", key]).unwrap();
    assert!(matches!(&asked, Reply::Error(error) if error.starts_with("ASK")), "{asked:?}");
    migration.end();

    assert_eq!(cluster.primary_of(key), 0);
    assert_eq!(cluster.node(0).command(&["GET", key]).text(), "moved");
    cluster.migrate(key, 1);
    assert_eq!(cluster.node(1).command(&["GET", key]).text(), "moved");
}

#[test]
fn sentinels_name_another_primary_when_they_are_told_to_and_when_it_is_killed_or_paused() {
    let mut all = RedisSentinels::start(&["requirepass s3cret", "appendonly yes"]);
    assert_eq!((all.primary(), all.name(), all.urls().len()), (0, "idem", 3));
    let first = {
        let mut connection = all.server(0).connect().unwrap();
        connection.command(&["SET", "kept", "7"]);
        assert_eq!(connection.command(&["WAIT", "2", "5000"]).integer(), 2);
        all.fail_over()
    };
    assert_ne!(first, 0);
    let role = |all: &RedisSentinels, server: usize| all.server(server).info("replication")["role"].clone();
    assert_eq!((role(&all, 0).as_str(), role(&all, first).as_str()), ("slave", "master"));

    all.kill(first);
    all.settle();
    let second = all.primary();
    assert_ne!(second, first);
    assert_eq!(all.server(second).command(&["GET", "kept"]).text(), "7");
    all.restart(first);
    all.settle();
    assert_eq!(role(&all, first), "slave");

    all.pause(second);
    all.settle();
    let third = all.primary();
    assert_ne!(third, second);
    all.resume(second);
    all.settle();
    assert_eq!((role(&all, second).as_str(), role(&all, third).as_str()), ("slave", "master"));
    assert_eq!(all.server(third).command(&["GET", "kept"]).text(), "7");
}

#[test]
fn a_killed_test_leaves_no_server_behind() {
    for what in ["cluster", "sentinels"] {
        killed::leaves_no_server_behind("the_killed_process", what);
    }
}

/// Not a test by itself: what another kills.
#[test]
#[ignore = "started by another test"]
fn the_killed_process() {
    match killed::what_to_start().as_deref() {
        None => {}
        Some("cluster") => {
            let mut cluster = RedisCluster::start(&[]);
            cluster.pause(1);
            killed::wait_with(&[0, 1, 2, 3, 4, 5].map(|node| cluster.node(node).port()));
        }
        Some(_) => {
            let all = RedisSentinels::start(&[]);
            let mut ports: Vec<u16> =
                all.urls().iter().map(|url| url.rsplit_once(':').unwrap().1.parse().unwrap()).collect();
            ports.extend([0, 1, 2].map(|server| all.server(server).port()));
            killed::wait_with(&ports);
        }
    }
}
