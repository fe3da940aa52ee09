//! TLS: a server is believed that an authority vouches for, and no other.
#![cfg(feature = "tls-rustls")]

mod common;

use std::process::Command;

use common::{DAY, completed, id, told};
use idem_core::store::StoreErrorKind;
use idem_redis::RedisStore;
use idem_testkit::{Certificates, Redis, RedisServer};

const URL: &str = "IDEM_TEST_TLS_URL";

/// What the other test runs in a process of its own, since whom to believe is in its environment.
#[tokio::test]
async fn in_a_process_that_believes_the_authority() {
    let Ok(url) = std::env::var(URL) else { return };
    let store = RedisStore::open(&url).await.unwrap_or_else(|error| panic!("{}", told(&error)));
    completed(&store, &id("done"), DAY).await;
}

#[tokio::test]
async fn a_server_is_believed_only_if_an_authority_vouches_for_it() {
    let certificates = Certificates::for_a::<Redis>();
    let server = RedisServer::start_with_tls(&certificates, &[]);
    let url = server.tls_url();
    let error = RedisStore::open(&url).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{}", told(&error));
    assert!(told(&error).contains("TLS"), "{}", told(&error));

    let mut believer = Command::new(std::env::current_exe().unwrap());
    believer.args(["--exact", "in_a_process_that_believes_the_authority", "--nocapture"]);
    believer.env("SSL_CERT_FILE", certificates.authority()).env(URL, &url);
    let output = believer.output().unwrap();
    let said =
        String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
    assert!(!server.contents("idem:").is_empty());

    // Without TLS there is nothing to be believed at that port.
    let error = RedisStore::open(&url.replace("rediss://", "redis://")).await.unwrap_err();
    assert!(error.kind() != StoreErrorKind::Corrupt, "{}", told(&error));
}
