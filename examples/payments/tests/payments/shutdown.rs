//! SIGTERM while requests run.

use crate::home::{Home, on_each_shared_store};
use crate::http::until;
use crate::service::Service;

/// Long enough for a busy machine to have begun all of them before the first one ends.
const SOURCE: &str = "tok_slowafter_3000";

on_each_shared_store! {
    async fn of_100_requests_under_way_all_finish_and_are_stored_also_for_50_callers_that_are_gone(home) {
        const REQUESTS: usize = 100;
        let mut service = Service::start(&home, &[]).await;
        let alice = service.caller("alice");
        let mut running: Vec<_> =
            (0..REQUESTS).map(|request| alice.send("/charges", &format!("k{request}"), SOURCE)).collect();
        until("all rows", || async { (alice.rows("/charges").await.len() == REQUESTS).then_some(()) }).await;
        for gone in running.split_off(REQUESTS / 2) {
            gone.hang_up().await;
        }

        service.terminate();
        let mut first = Vec::new();
        for answer in running {
            let answer = answer.answer().await;
            answer.assert_created(1);
            first.push(answer);
        }
        assert!(service.ended().await.success());

        let service = Service::start(&home, &[]).await;
        let alice = service.caller("alice");
        for request in 0..REQUESTS {
            let replay = alice.charge(&format!("k{request}"), SOURCE).await;
            assert!(replay.status == 201 && replay.is_replay(), "{replay:?}");
            if let Some(first) = first.get(request) {
                replay.assert_replays(first);
            }
        }
        assert_eq!(alice.rows("/charges").await.len(), REQUESTS);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_ends_closes_its_database() {
    let home = Home::sqlite().await;
    let mut service = Service::start(&home, &[]).await;
    service.caller("alice").charge("k", "tok_visa").await.assert_created(1);
    assert_eq!(home.files_of_an_open_database().len(), 2, "`-wal` and `-shm`");
    service.terminate();
    assert!(service.ended().await.success());
    assert_eq!(home.files_of_an_open_database(), [""; 0], "the database was not closed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_told_to_end_takes_no_new_connections() {
    let home = Home::memory().await;
    let mut service = Service::start(&home, &[]).await;
    let alice = service.caller("alice");
    alice.charge("k", "tok_visa").await.assert_created(1);
    service.terminate();
    assert!(service.ended().await.success(), "an idle connection does not keep it");
    assert!(tokio::net::TcpStream::connect(&service.address).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_may_be_told_to_end_as_soon_as_it_listens() {
    for _ in 0..5 {
        let home = Home::memory().await;
        let mut service = Service::start(&home, &[]).await;
        service.terminate();
        assert!(service.ended().await.success(), "it was killed instead");
    }
}
