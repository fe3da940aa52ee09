//! Servers: private ones for one program's tests or one test, or one that is there already.

use std::io::pipe;
use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::account::Account;
use crate::log::Log;
use crate::process::{family, signal, wait_until_gone};
use crate::watchdog::Watchdog;

/// What tells one server from another.
pub trait Product: Sized + 'static {
    /// What people call it.
    const NAME: &str;
    /// The account that its package makes.
    const ACCOUNT: &str;
    /// What it logs when it takes connections.
    const READY: &str;
    /// What it logs when another has its port.
    const PORT_TAKEN: &str;

    /// Makes the data of a new server in a folder.
    fn make_data(account: Account, folder: &Path);

    /// What runs the server on its data, with its log on standard output or error.
    fn program(account: Account, folder: &Path, port: u16, settings: &[String]) -> Command;

    /// Where it is, as a URL without a database.
    fn address(port: u16, settings: &[String]) -> String;
}

/// A server: one that was started for this program, or one that an environment variable names.
#[derive(Debug)]
pub struct Server<P> {
    address: String,
    ours: Option<Ours>,
    product: std::marker::PhantomData<P>,
}

/// A server of our own.
#[derive(Debug)]
struct Ours {
    running: Option<Child>,
    watchdog: Watchdog,
    account: Account,
    port: u16,
    settings: Vec<String>,
}

impl<P: Product> Server<P> {
    /// Starts a server for one test, with settings of its own such as `wal_level=minimal`.
    ///
    /// # Panics
    ///
    /// When it cannot be started; says what to do.
    pub fn start(settings: &[&str]) -> Self {
        Self::start_with(|| settings.iter().map(|setting| (*setting).to_owned()).collect())
    }

    /// Starts a server with settings that are made anew for each port that is tried, since they may name another.
    pub(crate) fn start_with(settings: impl Fn() -> Vec<String>) -> Self {
        let account = Account::for_server(P::ACCOUNT);
        let watchdog = Watchdog::with_folder();
        account.own(watchdog.folder());
        P::make_data(account, watchdog.folder());
        let mut ours = Ours { running: None, watchdog, account, port: 0, settings: Vec::new() };
        let mut attempts = 0;
        loop {
            ours.port = free_port();
            ours.settings = settings();
            match ours.run::<P>() {
                Ok(()) => break,
                // Somebody else took the port meanwhile.
                Err(log) if log.contains(P::PORT_TAKEN) && attempts < 10 => attempts += 1,
                Err(log) => panic!("{} does not start: {log}", P::NAME),
            }
        }
        Self::new(P::address(ours.port, &ours.settings), Some(ours))
    }

    /// A server that is there already.
    pub(crate) fn at(address: String) -> Self {
        Self::new(address, None)
    }

    fn new(address: String, ours: Option<Ours>) -> Self {
        Self { address, ours, product: std::marker::PhantomData }
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(crate) fn is_ours(&self) -> bool {
        self.ours.is_some()
    }

    /// What a server of our own was started with.
    pub(crate) fn settings(&self) -> &[String] {
        &self.ours().settings
    }

    /// Where a server of our own keeps its data.
    pub(crate) fn folder(&self) -> &Path {
        self.ours().watchdog.folder()
    }

    fn ours(&self) -> &Ours {
        self.ours.as_ref().expect("a server of our own")
    }

    /// The port of a server that was started here.
    ///
    /// # Panics
    ///
    /// When it was not.
    pub fn port(&self) -> u16 {
        self.ours().port
    }

    /// Stops the server and all its connections where they are: it accepts connections and answers none.
    ///
    /// # Panics
    ///
    /// When it does not run, or is not ours.
    pub fn pause(&mut self) {
        let pid = self.pid();
        signal("STOP", &[pid]);
        // It forks no more, so these are all.
        signal("STOP", &family(pid));
    }

    /// Lets a paused server go on.
    ///
    /// # Panics
    ///
    /// When it does not run, or is not ours.
    pub fn resume(&mut self) {
        signal("CONT", &family(self.pid()));
    }

    /// Kills the server and all its connections, as a power cut would.
    ///
    /// # Panics
    ///
    /// When it does not run, or is not ours.
    pub fn kill(&mut self) {
        let pid = self.pid();
        signal("STOP", &[pid]);
        let all = family(pid);
        signal("KILL", &all);
        self.bury(&all);
    }

    /// Asks the server to end, and waits until it has.
    pub(crate) fn terminate(&mut self) {
        let pid = self.pid();
        signal("TERM", &[pid]);
        self.bury(&[pid]);
    }

    fn bury(&mut self, all: &[u32]) {
        let ours = self.ours.as_mut().expect("a server of our own");
        ours.watchdog.watch(None);
        ours.running.take().expect("a running server").wait().expect("an end");
        // A new server refuses the data while one of the old is there.
        wait_until_gone(all);
    }

    /// Starts a server that was ended again, on the same data and port.
    ///
    /// # Panics
    ///
    /// When it runs, is not ours, or does not start.
    pub fn restart(&mut self) {
        let ours = self.ours.as_mut().expect("a server of our own");
        assert!(ours.running.is_none(), "the server runs");
        ours.run::<P>().expect("a server that starts again");
    }

    fn pid(&self) -> u32 {
        self.ours.as_ref().and_then(|ours| ours.running.as_ref()).expect("a running server of our own").id()
    }
}

impl Ours {
    fn run<P: Product>(&mut self) -> Result<(), String> {
        let program = P::program(self.account, self.watchdog.folder(), self.port, &self.settings);
        self.running = Some(start(program, &self.watchdog, P::READY)?);
        Ok(())
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        self.watchdog.end();
        if let Some(mut server) = self.running.take() {
            // When its first thread has ended the others may still have its port; when this returns nobody has.
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

/// Starts a server's program, and waits until it logs that it is ready; says what it logged if it ends before.
pub(crate) fn start(mut program: Command, watchdog: &Watchdog, ready: &'static str) -> Result<Child, String> {
    let (log, written) = pipe().expect("a pipe");
    let mut server = program
        .current_dir(watchdog.folder())
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(written.try_clone().expect("a pipe"))
        .stderr(written)
        .spawn()
        .expect("a server's program");
    // The log ends with the server only if nobody else might write.
    drop(program);
    watchdog.watch(Some(server.id()));
    let log = Log::read(log, ready);
    log.wait_until_ready().inspect_err(|_| {
        watchdog.watch(None);
        let _ = server.kill();
        let _ = server.wait();
    })?;
    Ok(server)
}

pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback interface");
    listener.local_addr().expect("an address").port()
}
