//! `redis-benchmark`, if it is there: what the server can do for a client that costs little.

use std::process::Command;

use idem_testkit::RedisServer;

/// Prints how many values it sets and gets in a second, with a connection for each client.
pub(super) fn run(server: &RedisServer, clients: usize, len: usize) {
    let requests = if len > 10_000 { 20_000 } else { 60_000 };
    let ran = Command::new("redis-benchmark")
        .args(["-p", &server.port().to_string(), "-c", &clients.to_string(), "-d", &len.to_string()])
        .args(["-t", "set,get", "-r", "2000", "-n", &requests.to_string(), "-q", "--csv"])
        .output();
    let Ok(ran) = ran else {
        println!("\nthere is no redis-benchmark");
        return;
    };
    let told = String::from_utf8_lossy(&ran.stdout);
    let rates: Vec<_> = told
        .lines()
        .filter_map(|line| {
            let mut columns = line.split(',').map(|column| column.trim_matches('"'));
            let (test, rate) = (columns.next()?, columns.next()?.parse::<f64>().ok()?);
            Some(format!("{test} {rate:.0}/s"))
        })
        .collect();
    println!("redis-benchmark, {clients} clients on as many connections: {}", rates.join(", "));
}
