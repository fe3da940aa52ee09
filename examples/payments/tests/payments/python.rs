//! Programs in Python, for clients that are written in it.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::Command;
use tokio::time::timeout;

use crate::service::PATIENCE;

/// An interpreter that has this module: that of `IDEM_TEST_PYTHON`, or `python3`.
///
/// `None` if there is none. Then the test is left out, and says so even where the output of tests is captured.
pub async fn with(module: &str) -> Option<PathBuf> {
    let named = std::env::var_os("IDEM_TEST_PYTHON").map(PathBuf::from);
    let python = named.clone().unwrap_or_else(|| "python3".into());
    let mut import = Command::new(&python);
    import.args(["-c", &format!("import {module}")]).stdin(Stdio::null()).stderr(Stdio::null());
    match import.status().await {
        Ok(status) if status.success() => return Some(python),
        outcome => assert!(named.is_none(), "IDEM_TEST_PYTHON has no module `{module}`: {outcome:?}"),
    }
    let _ = writeln!(
        std::io::stderr(),
        "SKIPPED: no python3 with the module `{module}`; `pip install {module}` in a virtual environment, and name its \
         interpreter by IDEM_TEST_PYTHON"
    );
    None
}

/// Runs a program to its end; returns what it prints.
pub async fn run(python: &Path, program: &str, arguments: &[&str]) -> String {
    let mut command = Command::new(python);
    command.args(["-c", program]).args(arguments).stdin(Stdio::null()).kill_on_drop(true);
    let output = timeout(3 * PATIENCE, command.output()).await.unwrap().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
