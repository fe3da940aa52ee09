//! The system behind the service: it takes a derived key, and does under each key what it is asked for once.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::extract::State;
use axum::routing::post;
use axum::{Json, Router};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::clock::now;
use crate::history::Payment;
use crate::recorder::Recorder;
use crate::service::Pay;

/// A running system.
#[derive(Debug)]
pub struct Downstream {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Downstream {
    /// Starts it.
    ///
    /// # Errors
    ///
    /// When there is no free port.
    pub async fn start(recorder: Arc<Recorder>) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let routes = Router::new().route("/pay", post(pay)).with_state(recorder);
        let task = tokio::spawn(async move {
            // It ends with its task only.
            let _ = axum::serve(listener, routes).await;
        });
        Ok(Self { address, task })
    }

    /// Where it is.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Downstream {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn pay(State(recorder): State<Arc<Recorder>>, Json(pay): Json<Pay>) -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let Pay { derived, key, payload } = pay;
    let id = format!("payment-{}", COUNT.fetch_add(1, Ordering::Relaxed));
    recorder.pay(Payment { derived, key, payload, id, at: now() })
}
