//! Several processes on one server. The others are this test program again, led over their standard input.

use idem_redis::RedisStore;
use idem_testkit::play::{Process, play, runtime};
use idem_testkit::stores::claims::{claim, granted, id};
use idem_testkit::stores::clocks;
use idem_testkit::stores::killed::{killed_when_it_has_written, write_for_ever};
use idem_testkit::stores::race::{race, race_rounds, rounds};
use idem_testkit::stores::writers::full_text;
use idem_testkit::{RedisCluster, RedisServer, redis_namespace};

/// A sweep finds nothing: the server deletes by itself.
const SWEPT: u64 = 0;

/// A server, or the nodes of a cluster, and a prefix.
fn place(urls: &[String]) -> String {
    format!("{} {}", redis_namespace(), urls.join(" "))
}

fn server() -> String {
    place(&[RedisServer::shared().url().to_owned()])
}

async fn store_at(place: &str) -> RedisStore {
    let mut words = place.split(' ');
    let prefix = words.next().unwrap();
    let urls: Vec<_> = words.collect();
    let store = if let [url] = urls[..] { RedisStore::builder().url(url) } else { RedisStore::cluster(urls) };
    store.prefix(prefix).open().await.unwrap_or_else(|error| panic!("{}", full_text(&error)))
}

/// Not a test by itself: what the other processes do.
#[test]
#[ignore = "started by other tests"]
fn the_other_process() {
    let Some((play, place)) = play() else { return };
    runtime().block_on(async {
        let store = store_at(&place).await;
        match &*play {
            "race" => race(&store).await,
            "steps" => clocks::take_steps(&store).await,
            "write" => write_for_ever(&store).await,
            other => panic!("no such play: {other}"),
        }
        store.close().await;
    });
}

fn race_at(place: &str, rounds: usize) {
    let mut processes = [0; 4].map(|_| Process::start("race", place));
    race_rounds(&mut processes, rounds);
    processes.into_iter().for_each(Process::end);
}

#[test]
fn four_processes_racing_for_neighbouring_keys_run_each_once() {
    race_at(&server(), rounds());
}

#[test]
fn four_processes_racing_for_keys_of_a_cluster_run_each_once() {
    race_at(&place(&RedisCluster::shared().urls()), rounds());
}

#[test]
fn what_was_acknowledged_survives_a_killed_process() {
    let place = server();
    for kill in 1..=3 {
        let written = killed_when_it_has_written(400 * kill, &place, &format!("run-{kill}"));
        runtime().block_on(async {
            let store = store_at(&place).await;
            assert_eq!(written.answers_missing_in(&store).await, [""; 0]);
            granted(&store, &id(&format!("after {kill}")), &claim("payload")).await;
        });
    }
}

#[test]
fn programs_whose_clocks_are_an_hour_off_decide_as_ever() {
    clocks::programs_whose_clocks_are_an_hour_off_decide_as_ever(&server(), SWEPT);
}

#[test]
fn programs_whose_clocks_are_an_hour_off_race_as_ever() {
    clocks::programs_whose_clocks_are_an_hour_off_race_as_ever(&server());
}
