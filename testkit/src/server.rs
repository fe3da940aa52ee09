//! Servers: private ones for one program's tests or one test, or one that is there already.

use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::account::Account;
use crate::database::Database;
use crate::log::Log;
use crate::process::{family, signal, wait_until_gone};
use crate::watchdog::Watchdog;

/// The user of a server of our own, who may do everything and has no password.
pub(crate) const USER: &str = "idem";

/// What tells one database server from another.
pub trait Product: Sized + 'static {
    /// What people call it.
    const NAME: &str;
    /// How its URLs begin.
    const SCHEME: &str;
    /// The environment variable that names a server to use instead of a shared one of our own.
    const VARIABLE: &str;
    /// The account that its package makes.
    const ACCOUNT: &str;
    /// The database that is always there.
    const ADMIN: &str;
    /// What it logs when it takes connections.
    const READY: &str;
    /// What it logs when another has its port.
    const PORT_TAKEN: &str;

    /// Where this program's server is kept.
    fn shared() -> &'static OnceLock<Server<Self>>;

    /// Makes the data of a new server in a folder.
    fn make_data(account: Account, folder: &Path);

    /// What runs the server on its data, with its log on standard error.
    fn program(account: Account, folder: &Path, port: u16, settings: &[String]) -> Command;

    /// Connects and executes one statement.
    fn execute(url: String, sql: String) -> impl Future<Output = sqlx::Result<()>> + Send;

    /// Drops a database, and whoever is connected to it.
    fn drop_database(name: &str) -> String;

    /// Reads all that a table holds, byte for byte.
    fn contents(url: String, table: String) -> impl Future<Output = sqlx::Result<Vec<u8>>> + Send;
}

/// A server: one that was started for this program, or one that an environment variable names.
#[derive(Debug)]
pub struct Server<P> {
    /// Without the database's name, and what came after it.
    address: (String, String),
    ours: Option<Ours>,
    product: std::marker::PhantomData<P>,
}

/// A server of our own.
#[derive(Debug)]
struct Ours {
    // Dropped first: nobody is to be left when the folder is removed.
    running: Option<Child>,
    watchdog: Watchdog,
    account: Account,
    port: u16,
    settings: Vec<String>,
}

impl<P: Product> Server<P> {
    /// The server of this program's tests: started by the first who asks, ended with the process.
    ///
    /// # Panics
    ///
    /// When it cannot be started; says what to do.
    pub fn shared() -> &'static Self {
        P::shared().get_or_init(|| match std::env::var(P::VARIABLE) {
            Ok(url) if !url.is_empty() => Self::new(without_database(&url), None),
            _ => Self::start(&[]),
        })
    }

    /// Starts a server for one test, with settings of its own such as `wal_level=minimal`.
    ///
    /// # Panics
    ///
    /// When it cannot be started; says what to do.
    pub fn start(settings: &[&str]) -> Self {
        let account = Account::for_server(P::ACCOUNT);
        let watchdog = Watchdog::with_folder();
        account.own(watchdog.folder());
        P::make_data(account, watchdog.folder());
        let settings = settings.iter().map(|setting| (*setting).to_owned()).collect();
        let mut ours = Ours { running: None, watchdog, account, port: 0, settings };
        let mut attempts = 0;
        loop {
            ours.port = free_port();
            match ours.run::<P>() {
                Ok(()) => break,
                // Somebody else took the port meanwhile.
                Err(log) if log.contains(P::PORT_TAKEN) && attempts < 10 => attempts += 1,
                Err(log) => panic!("{} does not start: {log}", P::NAME),
            }
        }
        let address = format!("{}://{USER}@127.0.0.1:{}", P::SCHEME, ours.port);
        Self::new((address, String::new()), Some(ours))
    }

    fn new(address: (String, String), ours: Option<Ours>) -> Self {
        Self { address, ours, product: std::marker::PhantomData }
    }

    /// The URL of a database on this server.
    pub fn url(&self, database: &str) -> String {
        let (before, after) = &self.address;
        format!("{before}/{database}{after}")
    }

    /// The port of a server that was started here.
    ///
    /// # Panics
    ///
    /// When it was not.
    pub fn port(&self) -> u16 {
        self.ours.as_ref().expect("a server of our own").port
    }

    /// Makes an empty database.
    ///
    /// # Panics
    ///
    /// When the server does not let us.
    pub async fn database(&self) -> Database {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("idem_{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let admin = self.url(P::ADMIN);
        P::execute(admin.clone(), format!("CREATE DATABASE {name}")).await.expect("a new database");
        // A server of our own takes its databases with it.
        Database::new::<P>(self.url(&name), name, self.ours.is_none().then_some(admin))
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
        let ours = self.ours.as_mut().expect("a server of our own");
        ours.watchdog.watch(None);
        ours.running.take().expect("a running server").wait().expect("an end");
        // A new server refuses the data while one of the old is there.
        wait_until_gone(&all);
    }

    /// Starts a killed server again, on the same data and port.
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

/// Starts a server's program, and waits until it logs that it is ready; says what it logged if it ends before.
pub(crate) fn start(mut program: Command, watchdog: &Watchdog, ready: &'static str) -> Result<Child, String> {
    let mut server = program
        .current_dir(watchdog.folder())
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a server's program");
    watchdog.watch(Some(server.id()));
    let log = Log::read(server.stderr.take().expect("its log"), ready);
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

/// Takes a URL apart at its database.
fn without_database(url: &str) -> (String, String) {
    let (address, options) = url.split_once('?').map_or((url, String::new()), |(a, o)| (a, format!("?{o}")));
    let authority = address.find("://").map_or(0, |at| at + 3);
    let end = address[authority..].find('/').map_or(address.len(), |at| authority + at);
    (address[..end].to_owned(), options)
}
