//! The command line.

use std::net::SocketAddr;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use idem::{Builder, InFlight};

use crate::store::StoreUrl;

/// A payment service whose charges happen once.
#[derive(Debug, Parser)]
#[command(version)]
pub struct Options {
    /// Where to listen; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:3000")]
    pub listen: SocketAddr,

    /// Where records and ledger are kept: `memory:`, `sqlite:PATH`, `postgres://USER:PASSWORD@HOST/DATABASE`,
    /// `mysql://USER:PASSWORD@HOST/DATABASE`, `redis://USER:PASSWORD@HOST/NUMBER`,
    /// `redis+sentinel://USER:PASSWORD@HOST,HOST/NAME/NUMBER` or `redis+cluster://USER:PASSWORD@HOST,HOST`; `rediss` instead of
    /// `redis` is with TLS.
    #[arg(long, value_name = "URL", default_value = "sqlite:payments.db")]
    pub store: StoreUrl,

    /// How long a crash blocks its key; requests may take longer.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = humantime::parse_duration)]
    pub lease: Duration,

    /// What becomes of a key whose request crashed or failed.
    #[arg(long, value_enum, default_value_t = OnCrash::Retry)]
    pub on_crash: OnCrash,

    /// Lets a duplicate wait so long for the first to finish; without it, it gets 409 at once.
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub wait: Option<Duration>,
}

impl Options {
    /// An engine as it is asked for.
    pub fn configure<S>(&self, engine: Builder<S>) -> Builder<S> {
        engine
            .lease(self.lease)
            .on_crash(self.on_crash.into())
            .in_flight(self.wait.map_or(InFlight::Reject, InFlight::Wait))
    }
}

/// What becomes of a key whose request crashed or failed.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum OnCrash {
    /// The next retry runs again: at least once.
    Retry,
    /// The key is refused until somebody has settled it: at most once.
    Reject,
}

impl From<OnCrash> for idem::OnCrash {
    fn from(choice: OnCrash) -> Self {
        match choice {
            OnCrash::Retry => Self::Retry,
            OnCrash::Reject => Self::Reject,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_arguments_it_listens_on_loopback_and_keeps_a_file() {
        let options = Options::parse_from(["payments"]);
        assert_eq!(options.listen.to_string(), "127.0.0.1:3000");
        assert_eq!(options.store, StoreUrl::Sqlite("payments.db".into()));
        assert_eq!(options.lease, Duration::from_secs(10));
    }

    #[test]
    fn a_store_that_the_example_does_not_have_is_refused_with_what_there_is() {
        let refused = Options::try_parse_from(["payments", "--store", "mongodb://localhost"]);
        let message = refused.unwrap_err().to_string();
        assert!(message.contains("there is no such store"), "{message}");
        assert!(message.contains("sqlite:PATH") && message.contains("postgres://"), "{message}");
    }
}
