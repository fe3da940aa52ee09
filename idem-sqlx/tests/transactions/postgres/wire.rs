//! Wires: ways to a server that can be cut, or go dead without anybody being told.

use std::time::Duration;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// A way to a server on this machine, for as long as it is not dropped.
pub(crate) struct Wire {
    url: String,
    state: watch::Sender<State>,
    task: JoinHandle<()>,
}

#[derive(Clone, Copy, Default)]
struct State {
    cuts: u32,
    is_dead: bool,
}

impl Wire {
    pub(crate) async fn to(database: &str) -> Self {
        let (address, name) = database.rsplit_once('/').expect("a database");
        let (user, port) = address.rsplit_once(':').expect("a port");
        let port: u16 = port.parse().expect("a port");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let own = listener.local_addr().expect("an address").port();
        let (state, seen) = watch::channel(State::default());
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(carry(client, port, seen.clone()));
            }
        });
        Self { url: format!("{user}:{own}/{name}?sslmode=disable"), state, task }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Closes the connections that there are, on both sides.
    pub(crate) fn cut(&self) {
        self.state.send_modify(|state| state.cuts += 1);
    }

    /// Carries nothing any more, and closes nothing.
    pub(crate) fn go_dead(&self) {
        self.state.send_modify(|state| state.is_dead = true);
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn carry(mut client: TcpStream, port: u16, mut seen: watch::Receiver<State>) {
    let Ok(mut server) = TcpStream::connect(("127.0.0.1", port)).await else { return };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let cuts = seen.borrow().cuts;
    tokio::select! {
        _ = copy_bidirectional(&mut client, &mut server) => return,
        _ = seen.wait_for(|state| state.cuts > cuts || state.is_dead) => {}
    }
    if seen.borrow().is_dead {
        // Longer than any test.
        tokio::time::sleep(Duration::from_hours(1)).await;
    }
}
