//! The service: what a process of it does until it is killed.

mod app;
mod handlers;
mod late;
mod ledger;
mod opened;
mod stalls;
mod transaction;

use std::error::Error;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::sleep;

use crate::journal::Journal;
use crate::ping::Ping;
use app::App;
pub use app::{Ask, Pay};
use opened::Opened;
use stalls::Stalls;

/// What is wrong with the service, so that the checker has something to find.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Broken {
    /// Nothing.
    #[default]
    Not,
    /// Its handlers are not idempotent.
    WithoutIdem,
    /// Leases are a tenth of what a run takes, and cannot be renewed, since handlers block their thread.
    ShortLease,
    /// Answers and renewals reach the store half a lease after the lease, though nothing is slow.
    Late,
}

/// What a process is told.
#[derive(Debug, Clone, Args)]
pub struct ServiceOptions {
    /// Where the store is.
    #[arg(long)]
    pub store: String,
    /// Where what it does is written.
    #[arg(long)]
    pub journal: PathBuf,
    /// Where the system is that takes derived keys.
    #[arg(long)]
    pub downstream: SocketAddr,
    /// Which process it is.
    #[arg(long)]
    pub process: usize,
    /// Who has started it, and whose end is its own.
    #[arg(long)]
    pub parent: i32,
    /// The lease in milliseconds.
    #[arg(long)]
    pub lease_ms: u64,
    /// The time-out of a step of the store in milliseconds.
    #[arg(long)]
    pub time_out_ms: u64,
    /// What is wrong with it.
    #[arg(long, default_value = "not")]
    pub broken: Broken,
}

/// Serves until it is told to end, and says on standard output where.
///
/// # Errors
///
/// When there is nothing to listen on, or the journal cannot be opened.
pub async fn serve(options: ServiceOptions) -> Result<(), Box<dyn Error + Send + Sync>> {
    // Also if it is paused, and its parent killed.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    if getppid().is_none_or(|parent| parent.as_raw_nonzero().get() != options.parent) {
        return Ok(());
    }
    let mut terminate = signal(SignalKind::terminate())?;
    let journal = Arc::new(Journal::open(&options.journal)?);
    let stalls = Stalls::new(&options, Arc::clone(&journal));
    stalls.clone().watch_machine()?;
    let app = tokio::select! {
        app = open(&options, &journal) => app,
        _ = terminate.recv() => return Ok(()),
    };
    if let Some(ping) = Ping::of(&options.store) {
        stalls.watch_store(ping)?;
    }
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("listening on {}", listener.local_addr()?);
    let idem = app.idem.clone();
    let sweeper = idem::Sweeper::spawn(idem.store().clone(), Duration::from_secs(2));
    axum::serve(listener, handlers::routes(app))
        .with_graceful_shutdown(async move {
            terminate.recv().await;
        })
        .await?;
    sweeper.stop().await;
    idem.drain(Duration::from_secs(5)).await;
    Ok(())
}

/// Opens the store, which may be away just now.
async fn open(options: &ServiceOptions, journal: &Arc<Journal>) -> App {
    loop {
        match Opened::open(options).await {
            Ok(opened) => return App::new(options, opened, Arc::clone(journal)),
            Err(error) => eprintln!("process {}: {error}", options.process),
        }
        // A store tells nobody that it is back.
        sleep(Duration::from_millis(100)).await;
    }
}
