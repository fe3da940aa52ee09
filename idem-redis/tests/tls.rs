//! TLS: a server is believed that an authority vouches for, and no other.
#![cfg(feature = "tls-rustls")]

mod common;

use std::net::TcpListener;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use common::{DAY, completed, id, told};
use idem_core::store::StoreErrorKind;
use idem_redis::RedisStore;
use idem_testkit::{Certificates, Redis, RedisServer, Sentinel, Server};

const URL: &str = "IDEM_TEST_TLS_URL";

/// What the other tests run in a process of its own, since whom to believe is in its environment.
#[tokio::test]
async fn in_a_process_that_believes_the_authority() {
    let Ok(url) = std::env::var(URL) else { return };
    let store = RedisStore::open(&url).await.unwrap_or_else(|error| panic!("{}", told(&error)));
    for n in 0..8 {
        completed(&store, &id(&n.to_string()), DAY).await;
    }
}

/// Whether that process may write to the place of a URL.
fn is_believed(certificates: &Certificates, url: &str) {
    let mut believer = Command::new(std::env::current_exe().unwrap());
    believer.args(["--exact", "in_a_process_that_believes_the_authority", "--nocapture"]);
    believer.env("SSL_CERT_FILE", certificates.authority()).env(URL, url);
    let output = believer.output().unwrap();
    let said =
        String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

async fn is_not_believed(url: &str) {
    let error = RedisStore::open(url).await.expect_err(url);
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{}", told(&error));
    assert!(told(&error).contains("TLS"), "{}", told(&error));
}

/// The host and port of a URL.
fn place(url: &str) -> &str {
    url.split_once("://").unwrap().1
}

fn port(url: &str) -> &str {
    url.rsplit_once(':').unwrap().1
}

#[tokio::test]
async fn a_server_is_believed_only_if_an_authority_vouches_for_it() {
    let certificates = Certificates::for_a::<Redis>();
    let server = RedisServer::start_with_tls(&certificates, &[]);
    let url = server.tls_url();
    is_not_believed(&url).await;
    is_believed(&certificates, &url);
    assert_eq!(server.contents("idem:").len(), 8);

    // Without TLS there is nothing to be believed at that port.
    let error = RedisStore::open(&url.replace("rediss://", "redis://")).await.unwrap_err();
    assert!(error.kind() != StoreErrorKind::Corrupt, "{}", told(&error));
}

#[tokio::test]
async fn sentinels_and_the_primary_that_they_name_are_believed_in_the_same_way() {
    let certificates = Certificates::for_a::<Redis>();
    let primary = RedisServer::start_with_tls(&certificates, &["requirepass s3cret"]);
    let sentinel = Server::<Sentinel>::start_with_tls(&certificates, &["tls-replication yes"]);
    // A certificate is for a name, so that is what the Sentinel has to know and to tell.
    for what in ["resolve-hostnames", "announce-hostnames"] {
        sentinel.command(&["SENTINEL", "CONFIG", "SET", what, "yes"]);
    }
    sentinel.command(&["SENTINEL", "MONITOR", "main", "localhost", port(&primary.tls_url()), "1"]);
    sentinel.command(&["SENTINEL", "SET", "main", "auth-pass", "s3cret"]);
    let url = format!("rediss+sentinel://:s3cret@{}/main/0", place(&sentinel.tls_url()));
    is_not_believed(&url).await;
    is_believed(&certificates, &url);
    assert_eq!(primary.contents("idem:").len(), 8);
}

#[tokio::test]
async fn each_node_of_a_cluster_is_believed_in_the_same_way() {
    let certificates = Certificates::for_a::<Redis>();
    let nodes: Vec<_> = (0..2)
        .map(|_| {
            let bus = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let settings = [
                "cluster-enabled yes",
                &format!("cluster-port {bus}"),
                "tls-cluster yes",
                "cluster-announce-hostname localhost",
                "cluster-preferred-endpoint-type hostname",
            ];
            (RedisServer::start_with_tls(&certificates, &settings), bus.to_string())
        })
        .collect();
    for ((node, _), slots) in nodes.iter().zip([["0", "8191"], ["8192", "16383"]]) {
        node.command(&["CLUSTER", "ADDSLOTSRANGE", slots[0], slots[1]]);
    }
    let (second, bus) = &nodes[1];
    nodes[0].0.command(&["CLUSTER", "MEET", "127.0.0.1", port(&second.tls_url()), bus]);
    // Servers tell nobody when they agree.
    while nodes.iter().any(|(node, _)| node.command(&["CLUSTER", "INFO"]).fields()["cluster_state"] != "ok") {
        sleep(Duration::from_millis(10));
    }
    let url = format!("rediss+cluster://{}", place(&nodes[0].0.tls_url()));
    is_not_believed(&url).await;
    is_believed(&certificates, &url);
    for (node, _) in &nodes {
        assert!(!node.contents("idem:").is_empty(), "each has some");
    }
}
