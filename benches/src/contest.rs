//! Contests: contenders that wait for a database, in turn, round after round.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cpu_time::ProcessTime;
use tokio::runtime::{Builder, Runtime};

/// How many rounds a contest takes.
const ROUNDS: usize = 7;
/// How long a contender has in each.
const TURN: Duration = Duration::from_millis(400);

type Call = dyn Fn(u64) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync;

/// Something that can be done any number of times at once. It asserts its own results.
pub(crate) struct Contender {
    name: String,
    call: Arc<Call>,
    count: Arc<AtomicU64>,
    tidy: Option<Arc<dyn Fn() + Send + Sync>>,
}

/// One turn of one contender.
struct Turn {
    per_second: f64,
    /// Processor time of this process, not the server's.
    client: Duration,
    median: Duration,
    late: Duration,
}

impl Contender {
    /// Each call is given a number that it never had before.
    pub(crate) fn new<F>(name: impl Into<String>, call: impl Fn(u64) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Self {
            name: name.into(),
            call: Arc::new(move |n| Box::pin(call(n))),
            count: Arc::default(),
            tidy: None,
        }
    }

    /// The same once more, for another table.
    pub(crate) fn again(&self) -> Self {
        let (call, count) = (Arc::clone(&self.call), Arc::clone(&self.count));
        Self { name: self.name.clone(), call, count, tidy: self.tidy.clone() }
    }

    /// Does something after each turn that is not counted, such as removing what was made in it.
    pub(crate) fn tidy(mut self, tidy: impl Fn() + Send + Sync + 'static) -> Self {
        self.tidy = Some(Arc::new(tidy));
        self
    }

    fn turn(&self, runtime: &Runtime, callers: usize) -> Turn {
        let (begun, busy) = (Instant::now(), ProcessTime::now());
        let mut took: Vec<Duration> = runtime.block_on(async {
            let callers: Vec<_> = (0..callers)
                .map(|_| {
                    let (call, count) = (Arc::clone(&self.call), Arc::clone(&self.count));
                    tokio::spawn(async move {
                        let mut took = Vec::new();
                        while begun.elapsed() < TURN {
                            let called = Instant::now();
                            call(count.fetch_add(1, Ordering::Relaxed)).await;
                            took.push(called.elapsed());
                        }
                        took
                    })
                })
                .collect();
            let mut took = Vec::new();
            for caller in callers {
                took.extend(caller.await.expect("a call that succeeds"));
            }
            took
        });
        let (elapsed, client) = (begun.elapsed(), busy.elapsed());
        if let Some(tidy) = &self.tidy {
            tidy();
        }
        took.sort_unstable();
        let calls = took.len();
        Turn {
            per_second: calls as f64 / elapsed.as_secs_f64(),
            client: client / calls as u32,
            median: took[calls / 2],
            late: took[calls * 99 / 100],
        }
    }
}

/// What contests run on: as many threads as the machine of our figures has.
pub(crate) fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
}

/// How many call at once: `usual`, such as `1,16`, unless `IDEM_BENCH_CALLERS` says something else.
pub(crate) fn callers(usual: &str) -> Vec<usize> {
    let named = std::env::var("IDEM_BENCH_CALLERS").unwrap_or_else(|_| usual.into());
    named.split(',').map(|callers| callers.parse().expect("a number of callers")).collect()
}

/// A record's id: any 32 bytes that differ.
pub(crate) fn id(kind: u8, n: u64) -> [u8; 32] {
    use sha2::Digest as _;
    sha2::Sha256::digest([&[kind][..], &n.to_be_bytes()].concat()).into()
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

/// Prints a table: how often each was done, and the ratio to the first one in the same round. More is better.
pub(crate) fn contest(runtime: &Runtime, title: &str, callers: usize, contenders: &[Contender]) {
    println!("\n{title}, {callers} caller(s)");
    println!(
        "  {:<44} {:>8} {:>6} {:>13} {:>8} {:>8} {:>8}",
        "", "calls/s", "ratio", "range", "p50 ms", "p99 ms", "cpu us"
    );
    for contender in contenders {
        contender.turn(runtime, callers);
    }
    let mut turns: Vec<Vec<Turn>> = contenders.iter().map(|_| Vec::new()).collect();
    for _ in 0..ROUNDS {
        for (turns, contender) in turns.iter_mut().zip(contenders) {
            turns.push(contender.turn(runtime, callers));
        }
    }
    for (own, contender) in turns.iter().zip(contenders) {
        let mut ratios: Vec<_> =
            own.iter().zip(&turns[0]).map(|(turn, first)| turn.per_second / first.per_second).collect();
        ratios.sort_by(f64::total_cmp);
        let of = |value: fn(&Turn) -> f64| median(own.iter().map(value).collect());
        println!(
            "  {:<44} {:>8.0} {:>6.2} {:>5.2} .. {:>4.2} {:>8.2} {:>8.2} {:>8.1}",
            contender.name,
            of(|turn| turn.per_second),
            ratios[ratios.len() / 2],
            ratios[0],
            ratios[ratios.len() - 1],
            of(|turn| turn.median.as_secs_f64() * 1e3),
            of(|turn| turn.late.as_secs_f64() * 1e3),
            of(|turn| turn.client.as_secs_f64() * 1e6),
        );
    }
}
