//! nginx: a gateway before several instances of an HTTP service.

use std::fs;
use std::process::Child;

use crate::account::Account;
use crate::process::program;
use crate::server::{free_port, start};
use crate::watchdog::Watchdog;

/// What it logs when another has its port.
const PORT_TAKEN: &str = "Address already in use";

/// An nginx that asks the next instance when one does not answer, also for requests that are not idempotent by themselves.
///
/// It runs until it is dropped or the test process ends.
#[derive(Debug)]
pub struct Nginx {
    // Dropped first: nobody is to be left when the folder is removed.
    _running: Child,
    _watchdog: Watchdog,
    port: u16,
}

impl Nginx {
    /// Starts one before these instances, each `HOST:PORT`, which are given up for the next after a second of silence.
    ///
    /// The first one is asked first, each time.
    ///
    /// # Panics
    ///
    /// When it cannot be started; says what to do.
    pub fn before(instances: &[&str]) -> Self {
        let program = program("nginx").expect("nginx's program: run `scripts/setup`");
        let account = Account::for_server("www-data");
        let watchdog = Watchdog::with_folder();
        account.own(watchdog.folder());
        let settings = watchdog.folder().join("nginx.conf");
        let mut attempts = 0;
        loop {
            let port = free_port();
            fs::write(&settings, text(port, instances)).expect("a file");
            let mut command = account.command(&program);
            command.arg("-p").arg(watchdog.folder()).arg("-c").arg(&settings).args(["-e", "stderr"]);
            match start(command, &watchdog, "event method") {
                Ok(running) => return Self { _running: running, _watchdog: watchdog, port },
                // Somebody else took the port meanwhile.
                Err(log) if log.contains(PORT_TAKEN) && attempts < 10 => attempts += 1,
                Err(log) => panic!("nginx does not start: {log}"),
            }
        }
    }

    /// `127.0.0.1:PORT`, where clients connect to.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }
}

/// One process, all of whose files are in its folder.
///
/// The second instance is asked only when the first one fails, so that tests know who has a request.
fn text(port: u16, instances: &[&str]) -> String {
    let servers: Vec<_> = (instances.iter().enumerate())
        .map(|(number, instance)| {
            let backup = if number == 0 { "" } else { " backup" };
            format!("server {instance} max_fails=0{backup};")
        })
        .collect();
    let servers = servers.join("\n        ");
    format!(
        "daemon off;
master_process off;
pid nginx.pid;
error_log stderr notice;
events {{ }}
http {{
    access_log off;
    client_body_temp_path client;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    upstream instances {{
        {servers}
    }}
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass http://instances;
            proxy_connect_timeout 1s;
            proxy_read_timeout 1s;
            proxy_next_upstream error timeout http_502 http_503 http_504 non_idempotent;
        }}
    }}
}}
"
    )
}
