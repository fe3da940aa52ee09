//! The servers start, obey, and leave nothing behind.

use std::env;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use idem_testkit::PostgresServer;
use sqlx::Connection as _;
use sqlx::postgres::PgConnection;

async fn answers(url: &str) -> bool {
    let asked = async { PgConnection::connect(url).await?.ping().await };
    matches!(tokio::time::timeout(Duration::from_secs(1), asked).await, Ok(Ok(())))
}

#[tokio::test]
async fn each_test_has_a_database_of_its_own_on_one_server() {
    let server = PostgresServer::shared();
    let (one, other) = (server.database().await, server.database().await);
    assert_ne!(one.name(), other.name());
    assert!(answers(one.url()).await && answers(other.url()).await);
    let mut connection = PgConnection::connect(one.url()).await.unwrap();
    let fsync: String = sqlx::query_scalar("SHOW fsync").fetch_one(&mut connection).await.unwrap();
    assert_eq!(fsync, "on");
}

#[tokio::test]
async fn a_server_is_paused_killed_and_restarted_on_its_data() {
    let mut server = PostgresServer::start(&["work_mem=5MB"]);
    let url = server.url("postgres");
    let mut connection = PgConnection::connect(&url).await.unwrap();
    let setting: String = sqlx::query_scalar("SHOW work_mem").fetch_one(&mut connection).await.unwrap();
    assert_eq!(setting, "5MB");
    sqlx::query("CREATE TABLE kept (n int)").execute(&mut connection).await.unwrap();

    server.pause();
    let asked = tokio::time::timeout(Duration::from_millis(300), connection.ping()).await;
    assert!(asked.is_err(), "a paused server says nothing: {asked:?}");
    assert!(!answers(&url).await);
    server.resume();
    assert!(answers(&url).await);

    server.kill();
    assert!(!answers(&url).await);
    server.restart();
    let mut connection = PgConnection::connect(&url).await.unwrap();
    sqlx::query("SELECT n FROM kept").fetch_all(&mut connection).await.unwrap();
}

/// Not a test by itself: what is killed below.
#[test]
#[ignore = "started by another test"]
fn the_killed_process() {
    let Ok(paused) = env::var("IDEM_TEST_PAUSED") else { return };
    let mut server = PostgresServer::start(&[]);
    if paused == "yes" {
        server.pause();
    }
    println!("@{}", server.port());
    std::thread::sleep(Duration::from_hours(1));
}

#[test]
fn a_killed_test_leaves_no_server_behind() {
    for paused in ["no", "yes"] {
        let mut test = Command::new(env::current_exe().unwrap())
            .args(["--exact", "the_killed_process", "--ignored", "--nocapture"])
            .env("IDEM_TEST_PAUSED", paused)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(test.stdout.take().unwrap()).lines();
        let port =
            lines.find_map(|line| line.unwrap().split_once('@').map(|(_, port)| port.to_owned())).unwrap();
        let connects = || std::net::TcpStream::connect(format!("127.0.0.1:{port}")).is_ok();
        assert!(connects());
        test.kill().unwrap();
        test.wait().unwrap();
        let killed = Instant::now();
        while connects() {
            assert!(
                killed.elapsed() < Duration::from_secs(30),
                "the server is still there (paused: {paused})"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
