//! Options of the machine.

use std::path::PathBuf;

use clap::Args;

use crate::service::Broken;

/// What the machine is told.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// `memory`, `sqlite`, `postgres`, `mysql`, `redis`, `redis-sentinel`, `redis-cluster`, whose servers are started, or
    /// the URL of one that is there: of that only the way to it is broken, and its data is added to.
    #[arg(long, default_value = "sqlite")]
    pub store: String,
    /// How long things are broken; 0.5 is 30 seconds.
    #[arg(long, default_value_t = 1.0)]
    pub minutes: f64,
    /// What is broken when, and what clients do, follows from this number.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// How many processes the service has; those of `memory` share nothing, so there it has one.
    #[arg(long, default_value_t = 3)]
    pub processes: usize,
    /// How many clients there are.
    #[arg(long, default_value_t = 16)]
    pub clients: usize,
    /// Where the report, the plot and the history go. Default: `target/chaos/STORE-SEED`.
    #[arg(long)]
    pub out: Option<PathBuf>,
    /// Breaks the service itself, to see the checker find it.
    #[arg(long, default_value = "not")]
    pub broken: Broken,
    /// Says nothing while it runs.
    #[arg(long)]
    pub quiet: bool,
}
