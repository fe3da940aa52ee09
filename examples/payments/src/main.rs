//! A payment service whose charges happen once.
//!
//! `cargo run -p payments`, then send the same `POST /charges` twice with one `Idempotency-Key`: one charge, one
//! replay. Begin reading at `charges.rs`; `app.rs` shows how the pieces are put together.

mod account;
mod app;
mod charges;
mod created;
mod ledger;
mod money;
mod options;
mod payouts;
mod problem;
mod refunds;
mod service;
mod source;
mod store;
mod stripe;
mod transfers;
mod user;

use std::error::Error;
use std::io::IsTerminal as _;
use std::process::ExitCode;

use clap::Parser as _;
use tokio::net::TcpListener;
use tracing_subscriber::EnvFilter;

use crate::app::App;
use crate::options::Options;

#[tokio::main]
async fn main() -> ExitCode {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    // Standard output is for the address alone.
    let log = std::io::stderr;
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(log().is_terminal()).with_writer(log).init();

    match run(&Options::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            let mut source = error.source();
            while let Some(cause) = source {
                eprintln!("  because: {cause}");
                source = cause.source();
            }
            ExitCode::FAILURE
        }
    }
}

async fn run(options: &Options) -> Result<(), Box<dyn Error + Send + Sync>> {
    let app = App::open(options).await?;
    let listener = TcpListener::bind(options.listen)
        .await
        .map_err(|error| format!("cannot listen on {}: {error}", options.listen))?;
    // Before anybody knows that we are here.
    let end = service::told_to_end()?;
    println!("listening on http://{}", listener.local_addr()?);
    service::serve(listener, app, end).await;
    Ok(())
}
