//! Servers of Redis start, obey, and leave nothing behind.

use std::time::{Duration, Instant};

use idem_testkit::{Certificates, Redis, RedisServer, Reply, redis_namespace};

#[test]
fn each_test_has_a_namespace_of_its_own_on_one_server() {
    let server = RedisServer::shared();
    let (one, other) = (redis_namespace(), redis_namespace());
    server.command(&["SET", &format!("{one}:a"), "first"]);
    server.command(&["HSET", &format!("{one}:b"), "field", "second"]);
    server.command(&["SET", &format!("{other}:a"), "third"]);
    let expected = [(format!("{one}:a"), "first"), (format!("{one}:b"), "fieldsecond")];
    let expected = expected.map(|(key, value)| (key.into_bytes(), value.as_bytes().to_vec()));
    assert_eq!(server.contents(&format!("{one}:")), expected);
    assert_eq!(RedisServer::shared().url(), server.url());
}

#[test]
fn what_is_asked_is_counted_by_its_command() {
    let server = RedisServer::start(&[]);
    server.command(&["SET", "a", "1"]);
    server.forget_commandstats();
    let mut connection = server.connect().unwrap();
    for _ in 0..3 {
        assert_eq!(connection.command(&["GET", "a"]).text(), "1");
    }
    assert_eq!(connection.command(&["EVAL", "return redis.call('INCR', KEYS[1])", "1", "a"]).integer(), 2);
    let counted = server.commandstats();
    assert_eq!(counted.get("get"), Some(&3));
    assert_eq!((counted.get("eval"), counted.get("incr"), counted.get("set")), (Some(&1), Some(&1), None));
}

#[test]
fn a_server_is_paused_killed_and_restarted_on_its_data() {
    let mut server = RedisServer::start(&["appendonly yes", "appendfsync always"]);
    server.command(&["SET", "kept", "7"]);

    server.pause();
    let mut connected = std::net::TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    connected.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    std::io::Write::write_all(&mut connected, b"PING\r\n").unwrap();
    let said = std::io::Read::read(&mut connected, &mut [0; 8]);
    assert!(said.is_err(), "a paused server says nothing: {said:?}");
    server.resume();
    connected.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    assert_eq!(Reply::Status("PONG".into()), server.command(&["PING"]));

    server.kill();
    assert!(server.ask(&["PING"]).is_err());
    server.restart();
    assert_eq!(server.command(&["GET", "kept"]).text(), "7");
    server.stop();
    assert!(server.ask(&["PING"]).is_err());
    server.restart();
    assert_eq!(server.command(&["GET", "kept"]).text(), "7");
}

#[test]
fn a_server_without_persistence_forgets_what_it_had_when_it_is_killed() {
    let mut server = RedisServer::start(&[]);
    server.command(&["SET", "lost", "7"]);
    server.kill();
    server.restart();
    assert_eq!(server.command(&["GET", "lost"]), Reply::Nil);
}

#[test]
fn settings_are_those_that_were_asked_for() {
    let server = RedisServer::start(&["requirepass s3cret", "maxmemory 5mb", "maxmemory-policy allkeys-lru"]);
    assert!(server.url().starts_with("redis://:s3cret@127.0.0.1:"));
    let asked = server.command(&["CONFIG", "GET", "maxmemory*"]).fields();
    assert_eq!((asked["maxmemory"].as_str(), asked["maxmemory-policy"].as_str()), ("5242880", "allkeys-lru"));
}

#[test]
fn a_server_takes_tls_and_a_socket_besides_its_port() {
    let certificates = Certificates::for_a::<Redis>();
    let server = RedisServer::start_with_tls(&certificates, &["requirepass s3cret"]);
    let url = server.tls_url();
    let port = url.strip_prefix("rediss://:s3cret@localhost:").unwrap();
    let shown = std::process::Command::new("openssl")
        .args(["s_client", "-verify_return_error", "-verify_hostname", "localhost", "-CAfile"])
        .arg(certificates.authority())
        .args(["-connect", &format!("127.0.0.1:{port}")])
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&shown.stdout);
    assert!(said.contains("Verify return code: 0 (ok)"), "{said}");
    assert!(std::os::unix::net::UnixStream::connect(server.socket()).is_ok());
}

#[test]
fn a_dropped_server_is_gone_at_once() {
    let server = RedisServer::start(&[]);
    let port = server.port();
    let dropped = Instant::now();
    drop(server);
    assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_err());
    assert!(dropped.elapsed() < Duration::from_millis(1_500), "{:?}", dropped.elapsed());
}
