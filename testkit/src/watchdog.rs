//! Watchdogs: processes that end a server when the test process is no more.

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

/// Waits for the end of its input, which comes with the end of the test process, be it a return, a panic or a kill. Then
/// ends the server, woken if it was stopped, and removes its folder.
const SCRIPT: &str = r#"
trap '' INT TERM HUP
folder=$1
server=
while read -r line; do server=$line; done
if [ -n "$server" ]; then
    # Not awk: some stop at the first process that ends meanwhile.
    all="$server $(grep -ls "^PPid:[[:space:]]*$server\$" /proc/[0-9]*/status | cut -d / -f 3)"
    kill -s QUIT "$server"
    for pid in $all; do kill -s CONT "$pid"; done
    for tenth in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        # What has ended is there until its parent looks, which waits for this here.
        grep -q "^State:[[:space:]]*[^Z[:space:]]" "/proc/$server/status" || break
        sleep 0.1
    done
    for pid in $all; do kill -s KILL "$pid"; done
fi 2>/dev/null
rm -rf "$folder"
"#;

/// Ends a server and removes its folder when it is dropped, or its process ends.
#[derive(Debug)]
pub(crate) struct Watchdog {
    dog: Child,
    told: Option<ChildStdin>,
    folder: PathBuf,
}

impl Watchdog {
    /// Makes a folder, and sees to it that it is removed.
    pub(crate) fn with_folder() -> Self {
        let folder = tempfile::Builder::new().prefix("idem-test-").tempdir().expect("a folder").keep();
        let mut dog = Command::new("sh")
            .args(["-c", SCRIPT, "sh"])
            .arg(&folder)
            // It must outlive an interrupt at the terminal, and hold none of the test's pipes open.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("a shell");
        let told = dog.stdin.take();
        Self { dog, told, folder }
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Tells it which process to end; `None` if there is none.
    pub(crate) fn watch(&self, server: Option<u32>) {
        let line = server.map_or_else(String::new, |pid| pid.to_string());
        writeln!(self.told.as_ref().expect("open until it is dropped"), "{line}")
            .expect("a watchdog that listens");
    }

    /// Ends the server and removes the folder, now.
    pub(crate) fn end(&mut self) {
        self.told = None;
        let _ = self.dog.wait();
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.end();
    }
}
