//! Other processes: this test program again, led over its standard input.

use std::env;
use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

const PLAY: &str = "IDEM_TEST_PLAY";
const PLACE: &str = "IDEM_TEST_PLACE";

/// What this process was started to do, and with which database.
pub(crate) fn play() -> Option<(String, String)> {
    Some((env::var(PLAY).ok()?, env::var(PLACE).ok()?))
}

/// Another process, which says a line for each line that it is told.
pub(crate) struct Process {
    pub(crate) child: Child,
    told: ChildStdin,
    says: BufReader<ChildStdout>,
}

impl Process {
    pub(crate) fn start(play: &str, place: impl AsRef<OsStr>) -> Self {
        Self::start_with(play, place, |_| {})
    }

    /// Starts it after something was done to its surroundings.
    pub(crate) fn start_with(
        play: &str,
        place: impl AsRef<OsStr>,
        prepare: impl FnOnce(&mut Command),
    ) -> Self {
        let mut program = Command::new(env::current_exe().unwrap());
        prepare(&mut program);
        let mut child = program
            .args(["--exact", "the_other_process", "--ignored", "--nocapture"])
            .env(PLAY, play)
            .env(PLACE, place)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (told, says) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, told, says }
    }

    pub(crate) fn tell(&mut self, line: &str) {
        writeln!(self.told, "{line}").unwrap();
    }

    /// The next line of the play; the test harness prints others.
    pub(crate) fn hear(&mut self) -> String {
        loop {
            let mut line = String::new();
            assert_ne!(self.says.read_line(&mut line).unwrap(), 0, "the other process has ended");
            if let Some((_, line)) = line.trim_end().split_once('@') {
                return line.to_owned();
            }
        }
    }

    pub(crate) fn ask(&mut self, line: &str) -> String {
        self.tell(line);
        self.hear()
    }

    pub(crate) fn end(mut self) {
        drop(self.told);
        assert!(self.child.wait().unwrap().success());
    }
}

pub(crate) fn hear_line() -> Option<String> {
    let mut line = String::new();
    (std::io::stdin().read_line(&mut line).unwrap() > 0).then(|| line.trim_end().to_owned())
}

pub(crate) fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "@{line}").unwrap();
    out.flush().unwrap();
}

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}
