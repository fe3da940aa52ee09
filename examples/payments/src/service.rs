//! The running service, and how it ends.

use std::time::Duration;

use idem::Sweeper;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::app::App;

/// How long requests may take to finish once the service was told to end.
const GRACE: Duration = Duration::from_secs(30);

/// Serves until SIGTERM or ctrl-c, then lets every handler finish.
pub async fn serve(listener: TcpListener, app: App) {
    let idem = app.idem.clone();
    let sweeper = Sweeper::spawn(idem.store().clone(), Duration::from_mins(1));
    let (stop, stopped) = oneshot::channel::<()>();
    let server = axum::serve(listener, app.routes()).with_graceful_shutdown(async {
        let _ = stopped.await;
    });
    let mut server = tokio::spawn(server.into_future());
    told_to_end().await;

    tracing::info!("ending: no new requests, those under way finish");
    drop(stop);
    if timeout(GRACE, &mut server).await.is_err() {
        // A client that never ends its request must not keep us for ever.
        server.abort();
    }
    sweeper.stop().await;
    // Handlers whose callers have gone away are not the server's any more, but idem knows of them.
    match idem.drain(GRACE).await {
        0 => tracing::info!("ended"),
        left => tracing::warn!(left, "ended with work under way; its keys are free when their leases end"),
    }
}

async fn told_to_end() {
    let ctrl_c = async {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let Ok(mut terminate) = signal(SignalKind::terminate()) else {
            return ctrl_c.await;
        };
        tokio::select! {
            () = ctrl_c => {}
            _ = terminate.recv() => {}
        }
    }
    #[cfg(not(unix))]
    ctrl_c.await;
}
