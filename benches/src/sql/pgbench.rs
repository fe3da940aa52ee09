//! The bare pair as `pgbench` runs it, if it is there: what the server can do for a client that costs nothing.

use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use super::ANSWER;
use super::bare::{INSERT, UPDATE};

/// A program of the newest installation, as on Debian, or of the search path.
fn program() -> PathBuf {
    let installed = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut found: Vec<_> =
        installed.map(|version| version.path().join("bin/pgbench")).filter(|path| path.is_file()).collect();
    found.sort();
    found.pop().unwrap_or_else(|| "pgbench".into())
}

/// Prints how many pairs a second it makes, with a connection for each client.
pub(super) fn pair(url: &str, clients: usize) {
    let id = "sha256(convert_to(:n || ' ' || :client_id, 'UTF8'))";
    let owner = "substr(sha256(convert_to(:n || ' ' || :client_id, 'UTF8')), 1, 16)";
    let answer = format!("'{}'::bytea", "x".repeat(ANSWER));
    let filled = |statement: &str, values: &[&str]| {
        let mut parts = statement.split('?');
        let first = parts.next().unwrap_or_default().to_owned();
        let text = parts.zip(values).fold(first, |text, (part, value)| text + value + part);
        text.replace('\n', " ")
    };
    let script = format!(
        "\\set n random(1, 1000000000000000)\n{};\n{};\n",
        filled(INSERT, &[id, id, owner, "1", "1", "1", "1"]),
        filled(UPDATE, &[&answer, "2", "2", id, owner])
    );
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("pair.sql");
    std::fs::write(&file, script).expect("a script");
    let count = clients.to_string();
    let ran = Command::new(program())
        .args(["--no-vacuum", "--protocol=prepared", "--jobs=2", "--time=2", "--client", &count, "--file"])
        .arg(&file)
        .arg(url)
        .output();
    let Ok(ran) = ran else {
        println!("\nthere is no pgbench");
        return;
    };
    let told = String::from_utf8_lossy(&ran.stdout);
    let rate = told.lines().find(|line| line.starts_with("tps"));
    let failed = String::from_utf8_lossy(&ran.stderr);
    println!("pgbench, {clients} clients on as many connections: {}", rate.unwrap_or(&failed));
}
