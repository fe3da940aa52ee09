//! The running service, and how it ends.

use std::io;
use std::time::Duration;

use idem::Sweeper;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::app::App;

/// How long requests may take to finish once the service was told to end.
const GRACE: Duration = Duration::from_secs(30);

/// Serves until it is told to end, then lets every handler finish.
pub async fn serve(listener: TcpListener, app: App, end: impl Future<Output = ()>) {
    let idem = app.idem.clone();
    let open = app.clone();
    let sweeper = Sweeper::spawn(idem.store().clone(), Duration::from_mins(1));
    let (stop, stopped) = oneshot::channel::<()>();
    let server = axum::serve(listener, app.routes()).with_graceful_shutdown(async {
        let _ = stopped.await;
    });
    let mut server = tokio::spawn(server.into_future());
    end.await;

    tracing::info!("ending: no new requests, those under way finish");
    drop(stop);
    if timeout(GRACE, &mut server).await.is_err() {
        // A client that never ends its request must not keep us for ever.
        server.abort();
    }
    sweeper.stop().await;
    // Handlers whose callers have gone away are not the server's any more, but idem knows of them.
    match idem.drain(GRACE).await {
        0 => tracing::info!("every answer is stored"),
        left => tracing::warn!(left, "cut off work under way; its keys are free when their leases end"),
    }
    // Last: until here somebody may have had something to store.
    open.close().await;
    tracing::info!("ended");
}

/// Waits for SIGTERM or ctrl-c. From now on, not only from the first poll: they no longer end the process by themselves.
#[cfg(unix)]
pub fn told_to_end() -> io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// Waits for ctrl-c.
#[cfg(not(unix))]
pub fn told_to_end() -> io::Result<impl Future<Output = ()>> {
    Ok(async {
        let _ = tokio::signal::ctrl_c().await;
    })
}
