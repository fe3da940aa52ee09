//! Other processes: this test program again, led over its standard input.

use std::env;
use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

const PLAY: &str = "IDEM_TEST_PLAY";
const PLACE: &str = "IDEM_TEST_PLACE";

/// What this process was started to do, and with which database.
pub fn play() -> Option<(String, String)> {
    Some((env::var(PLAY).ok()?, env::var(PLACE).ok()?))
}

/// Another process, which says a line for each line that it is told.
#[derive(Debug)]
pub struct Process {
    child: Child,
    told: ChildStdin,
    says: BufReader<ChildStdout>,
}

impl Process {
    /// Starts it to play something at a place.
    ///
    /// # Panics
    ///
    /// When it cannot be started.
    pub fn start(play: &str, place: impl AsRef<OsStr>) -> Self {
        Self::start_with(play, place, |_| {})
    }

    /// Starts it after something was done to its surroundings.
    ///
    /// # Panics
    ///
    /// As [`start`](Self::start).
    pub fn start_with(play: &str, place: impl AsRef<OsStr>, prepare: impl FnOnce(&mut Command)) -> Self {
        let mut program = Command::new(env::current_exe().expect("a program"));
        prepare(&mut program);
        let mut child = program
            .args(["--exact", "the_other_process", "--ignored", "--nocapture"])
            .env(PLAY, play)
            .env(PLACE, place)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("another process");
        let told = child.stdin.take().expect("a pipe");
        let says = BufReader::new(child.stdout.take().expect("a pipe"));
        Self { child, told, says }
    }

    /// Tells it a line.
    ///
    /// # Panics
    ///
    /// When it has ended.
    pub fn tell(&mut self, line: &str) {
        writeln!(self.told, "{line}").expect("another process");
    }

    /// The next line of the play; the test harness prints others.
    ///
    /// # Panics
    ///
    /// When it has ended.
    pub fn hear(&mut self) -> String {
        loop {
            let mut line = String::new();
            assert_ne!(self.says.read_line(&mut line).expect("text"), 0, "the other process has ended");
            if let Some((_, line)) = line.trim_end().split_once('@') {
                return line.to_owned();
            }
        }
    }

    /// Tells it a line, and hears what it says to it.
    ///
    /// # Panics
    ///
    /// As [`hear`](Self::hear).
    pub fn ask(&mut self, line: &str) -> String {
        self.tell(line);
        self.hear()
    }

    /// What the system calls it.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills it where it is.
    ///
    /// # Panics
    ///
    /// When it cannot be.
    pub fn kill(mut self) {
        self.child.kill().expect("a process");
        self.child.wait().expect("an end");
    }

    /// Tells it that there is no more to do, and waits until it has ended well.
    ///
    /// # Panics
    ///
    /// When it did not.
    pub fn end(mut self) {
        drop(self.told);
        assert!(self.child.wait().expect("an end").success());
    }
}

/// The next line that this process is told; `None` when there will be none.
///
/// # Panics
///
/// When it cannot be read.
pub fn hear_line() -> Option<String> {
    let mut line = String::new();
    (std::io::stdin().read_line(&mut line).expect("text") > 0).then(|| line.trim_end().to_owned())
}

/// Says a line to whoever has started this process.
///
/// # Panics
///
/// When nobody listens any more.
pub fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "@{line}").expect("a listener");
    out.flush().expect("a listener");
}

/// A runtime for a test or a play that is not asynchronous as a whole.
///
/// # Panics
///
/// When there are no threads to be had.
pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("threads")
}
