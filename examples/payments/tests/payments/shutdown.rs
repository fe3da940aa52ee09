//! SIGTERM while requests run.

use crate::home::{Home, on_each_shared_store};
use crate::http::until;
use crate::service::Service;

on_each_shared_store! {
    async fn requests_under_way_finish_and_are_stored_before_the_service_ends(home) {
        let mut service = Service::start(&home, &[]).await;
        let alice = service.caller("alice");
        let mut running = Vec::new();
        for request in 0..10 {
            running.push(alice.begin("/charges", &format!("k{request}"), "tok_slow_1500").await);
        }
        // One that has lost its caller is under way as well.
        let bob = service.caller("bob");
        let lonely = bob.begin("/charges", "lonely", "tok_slowafter_1500").await;
        until("its row", || async { (!bob.rows("/charges").await.is_empty()).then_some(()) }).await;
        lonely.hang_up().await;

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
        for (request, first) in first.iter().enumerate() {
            alice.charge(&format!("k{request}"), "tok_slow_1500").await.assert_replays(first);
        }
        let bob = service.caller("bob");
        let replay = bob.charge("lonely", "tok_slowafter_1500").await;
        assert!(replay.status == 201 && replay.is_replay(), "{replay:?}");
        assert_eq!((alice.rows("/charges").await.len(), bob.rows("/charges").await.len()), (10, 1));
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
