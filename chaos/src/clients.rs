//! Clients: they send, give up, hang up, send again, send twice, and send what they should not.

use std::sync::Arc;
use std::time::Duration;

use reqwest::Client;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::book::{Book, Case};
use crate::clock::now;
use crate::dice::Dice;
use crate::history::{Fate, Request};
use crate::processes::Addresses;
use crate::recorder::Recorder;

/// How often a client tries before it leaves a key as it is.
const TRIES: u32 = 12;
/// How long a patient client waits for an answer.
const PATIENCE: Duration = Duration::from_secs(4);

/// What clients share.
#[derive(Debug, Clone)]
pub struct Clients {
    addresses: Addresses,
    book: Arc<Book>,
    recorder: Arc<Recorder>,
    http: Client,
    seed: u64,
}

/// How a client behaves while it sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// It waits.
    Patient,
    /// It hangs up after a while.
    HangsUp(Duration),
    /// It hangs up before it has said everything.
    SaysHalf,
}

impl Clients {
    /// Clients that know nobody yet.
    pub fn new(addresses: Addresses, book: Arc<Book>, recorder: Arc<Recorder>, seed: u64) -> Self {
        Self { addresses, book, recorder, http: Client::new(), seed }
    }

    /// Sends until it is told to stop.
    pub async fn run(self, client: u64, stop: watch::Receiver<bool>) {
        let mut dice = Dice::new(self.seed, 1_000 + client);
        while !*stop.borrow() {
            match dice.below(100) {
                0..55 => self.call(&self.book.open(&mut dice), &mut dice, &stop).await,
                55..72 => {
                    if let Some(case) = self.book.recent(&mut dice) {
                        self.send(&case, Manner::Patient, false, &mut dice).await;
                    }
                }
                72..80 => {
                    if let Some(case) = self.book.recent(&mut dice) {
                        self.send(&case.with_other_payload(), Manner::Patient, false, &mut dice).await;
                    }
                }
                _ => {
                    if let Some(case) = self.book.expired(&mut dice) {
                        self.call(&case, &mut dice, &stop).await;
                    }
                }
            }
            sleep(dice.between(10, 150)).await;
        }
    }

    /// Sends until there is a final answer, as a client with a retry policy does.
    async fn call(&self, case: &Case, dice: &mut Dice, stop: &watch::Receiver<bool>) {
        for attempt in 0..TRIES {
            let answer = if dice.chance(8) {
                self.send_at_once(case, dice).await
            } else {
                let manner = match dice.below(100) {
                    0..10 => Manner::HangsUp(dice.between(1, 200)),
                    10..13 => Manner::SaysHalf,
                    _ => Manner::Patient,
                };
                self.send(case, manner, false, dice).await
            };
            if answer.is_final() {
                // Some ask once more, be it by accident.
                if dice.chance(50) {
                    self.send(case, Manner::Patient, false, dice).await;
                }
                return;
            }
            if *stop.borrow() {
                return;
            }
            sleep(dice.between(30, 150 + 100 * u64::from(attempt))).await;
        }
    }

    /// Sends the same several times at once.
    async fn send_at_once(&self, case: &Case, dice: &mut Dice) -> Fate {
        let mut all = JoinSet::new();
        for _ in 0..2 + dice.below(3) {
            let (this, case, mut dice) = (self.clone(), case.clone(), Dice::new(dice.roll(), 0));
            all.spawn(async move { this.send(&case, Manner::Patient, false, &mut dice).await });
        }
        let fates = all.join_all().await;
        let found = fates.iter().find(|fate| fate.is_final()).or(fates.first());
        found.cloned().unwrap_or(Fate::Lost("nobody was sent".to_owned()))
    }

    /// After everything has healed: sends until the answer is final, or for too long.
    pub async fn settle(&self, case: &Case, give_up: Duration) {
        let mut dice = Dice::new(self.seed, case.number as u64);
        let begun = now();
        loop {
            let fate = self.send(case, Manner::Patient, true, &mut dice).await;
            if fate.is_final() || now() - begun > give_up.as_micros() as u64 {
                return;
            }
            sleep(dice.between(50, 200)).await;
        }
    }

    async fn send(&self, case: &Case, manner: Manner, is_last: bool, dice: &mut Dice) -> Fate {
        let process = dice.below(self.addresses.count() as u64) as usize;
        let Some(address) = self.addresses.of(process) else {
            // Who is refused a connection tries somebody else, after a moment.
            sleep(dice.between(20, 80)).await;
            return Fate::Lost("no such process".to_owned());
        };
        let sent = now();
        let fate = match manner {
            Manner::Patient => self.ask(case, address, PATIENCE).await,
            Manner::HangsUp(after) => self.ask(case, address, after).await,
            Manner::SaysHalf => self.say_half(case, address, dice).await,
        };
        if matches!(&fate, Fate::Answered { replayed: true, .. }) {
            self.book.replayed(case);
        }
        let (key, payload) = (case.key.clone(), case.payload.clone());
        self.recorder.request(Request {
            key,
            payload,
            process,
            sent,
            ended: now(),
            fate: fate.clone(),
            is_last,
        });
        fate
    }

    async fn ask(&self, case: &Case, address: std::net::SocketAddr, patience: Duration) -> Fate {
        let url = format!("http://{address}/{}", case.key.operation.name());
        let request = self.http.post(url).header("Idempotency-Key", &case.key.name);
        let sent = request.json(&case.ask(self.seed)).timeout(patience).send().await;
        let response = match sent {
            Ok(response) => response,
            Err(error) if error.is_timeout() => return Fate::Lost("hung up".to_owned()),
            Err(error) => return Fate::Lost(innermost(&error)),
        };
        let status = response.status().as_u16();
        let replayed = response.headers().contains_key("idempotent-replayed");
        match response.text().await {
            Ok(body) => {
                let problem: Option<serde_json::Value> = serde_json::from_str(&body).ok();
                let code = problem.as_ref().and_then(|problem| problem["code"].as_str()).unwrap_or_default();
                Fate::Answered { status, code: code.to_owned(), replayed, body }
            }
            Err(error) => Fate::Lost(innermost(&error)),
        }
    }

    async fn say_half(&self, case: &Case, address: std::net::SocketAddr, dice: &mut Dice) -> Fate {
        let body = serde_json::to_string(&case.ask(self.seed)).unwrap_or_default();
        let request = format!(
            "POST /{} HTTP/1.1\r\nHost: {address}\r\nIdempotency-Key: {}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            case.key.operation.name(),
            case.key.name,
            body.len(),
        );
        let half = 1 + dice.below(request.len() as u64 - 1) as usize;
        if let Ok(mut stream) = TcpStream::connect(address).await {
            let _ = stream.write_all(&request.as_bytes()[..half]).await;
        }
        Fate::Lost("hung up in the request".to_owned())
    }
}

fn innermost(error: &reqwest::Error) -> String {
    let mut innermost: &dyn std::error::Error = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}
