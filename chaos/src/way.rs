//! The way to a store: a proxy that carries bytes, and can be cut, held, slowed and made to lose answers.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;

/// What a way does to what it carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mood {
    /// Nothing.
    #[default]
    Fair,
    /// It breaks every connection and takes no others.
    Cut,
    /// It carries nothing, and says nothing: later everything arrives.
    Hold,
    /// Everything arrives so much later.
    Slow(Duration),
    /// Of every so many answers one is lost, and the connection with it; what was asked has been done.
    Lose(u64),
}

/// A way to a server, for as long as it is not dropped.
#[derive(Debug)]
pub struct Way {
    port: u16,
    mood: watch::Sender<Mood>,
    task: JoinHandle<()>,
}

impl Way {
    /// Opens a way to `HOST:PORT`.
    ///
    /// # Errors
    ///
    /// When there is no free port.
    pub async fn to(server: String) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        let (mood, moods) = watch::channel(Mood::Fair);
        let answers = Arc::new(AtomicU64::new(0));
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(connect(client, server.clone(), moods.clone(), Arc::clone(&answers)));
            }
        });
        Ok(Self { port, mood, task })
    }

    /// Its port on the loopback interface.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Changes what it does, also to connections that there are.
    pub fn set(&self, mood: Mood) {
        self.mood.send_replace(mood);
    }
}

impl Drop for Way {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn connect(
    client: TcpStream,
    server: String,
    mut moods: watch::Receiver<Mood>,
    answers: Arc<AtomicU64>,
) {
    if *moods.borrow_and_update() == Mood::Cut {
        return;
    }
    let Ok(server) = TcpStream::connect(server).await else { return };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    tokio::select! {
        _ = carry(from_client, to_server, moods.clone(), None) => {}
        _ = carry(from_server, to_client, moods.clone(), Some(&answers)) => {}
        _ = moods.wait_for(|mood| *mood == Mood::Cut) => {}
    }
}

/// Carries one direction until it ends. Answers are counted, for some of them to be lost.
async fn carry(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut moods: watch::Receiver<Mood>,
    answers: Option<&AtomicU64>,
) -> io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let read = from.read(&mut buffer).await?;
        if read == 0 {
            return Ok(());
        }
        let mood = *moods.borrow_and_update();
        match mood {
            Mood::Slow(time) => sleep(time).await,
            Mood::Hold => {
                // Its sender is there as long as the way.
                let _ = moods.wait_for(|mood| *mood != Mood::Hold).await;
            }
            Mood::Lose(every)
                if answers.is_some_and(|seen| seen.fetch_add(1, Ordering::Relaxed).is_multiple_of(every)) =>
            {
                return Ok(());
            }
            Mood::Fair | Mood::Cut | Mood::Lose(_) => {}
        }
        to.write_all(&buffer[..read]).await?;
    }
}
