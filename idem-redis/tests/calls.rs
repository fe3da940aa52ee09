//! Calls whose server fails at one of their steps: how often the work runs, and what its callers and retries get.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use idem_core::engine::Idempotency;
use idem_core::error::{Error, ErrorKind};
use idem_core::outcome::Outcome;
use idem_redis::RedisStore;
use idem_testkit::RedisServer;

const SECOND: Duration = Duration::from_secs(1);
const KEPT: &[&str] = &["appendonly yes", "appendfsync always"];

/// How a server is away for a while.
#[derive(Debug, Clone, Copy)]
enum Away {
    Hung,
    Killed,
}

impl Away {
    const BOTH: [Self; 2] = [Self::Hung, Self::Killed];

    fn begins(self, server: &mut RedisServer) {
        match self {
            Self::Hung => server.pause(),
            Self::Killed => server.kill(),
        }
    }

    fn ends(self, server: &mut RedisServer) {
        match self {
            Self::Hung => server.resume(),
            Self::Killed => server.restart(),
        }
    }
}

/// A service, and the runs of its work.
#[derive(Clone)]
struct Service {
    idem: Idempotency,
    runs: Arc<AtomicU32>,
}

impl Service {
    async fn on(server: &RedisServer) -> Self {
        let part = SECOND / 5;
        let store = RedisStore::builder()
            .url(server.url())
            .response_timeout(part)
            .connect_timeout(part)
            .timeout(2 * part);
        let store = store.open().await.unwrap();
        let idem = Idempotency::builder(store).store_timeout(SECOND).build().unwrap();
        Self { idem, runs: Arc::default() }
    }

    /// Calls with a key; the work does something, and its answer is at which attempt it ran.
    async fn call(
        &self,
        key: &str,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> Result<Outcome<Result<u32, String>>, Error> {
        let runs = Arc::clone(&self.runs);
        let call = self.idem.call("charge").key(key).fingerprint(&7);
        call.run(|run| async move {
            runs.fetch_add(1, Ordering::SeqCst);
            work.await;
            Ok::<u32, String>(run.attempt())
        })
        .await
    }

    /// Calls until it is not refused, and tells how often it was.
    async fn retry(&self, key: &str) -> (Outcome<Result<u32, String>>, u32) {
        let since = Instant::now();
        for refused in 0.. {
            match self.call(key, async {}).await {
                Ok(outcome) => return (outcome, refused),
                Err(error) => assert!(error.is_retryable() && since.elapsed() < 10 * SECOND, "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        unreachable!()
    }

    fn runs(&self) -> u32 {
        self.runs.load(Ordering::SeqCst)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_could_not_be_claimed_is_not_run_and_its_retry_runs_once() {
    let mut server = RedisServer::start(KEPT);
    let service = Service::on(&server).await;
    for away in Away::BOTH {
        let before = service.runs();
        let key = format!("{away:?}");
        away.begins(&mut server);
        let refused = service.call(&key, async {}).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::StoreUnavailable, "{away:?}");
        assert_eq!(service.runs(), before, "{away:?}");
        away.ends(&mut server);
        let back = Instant::now();
        // Claims that come late are taken back: nobody has to wait for their lease.
        let (outcome, _) = service.retry(&key).await;
        assert!(back.elapsed() < 3 * SECOND, "{away:?}: {:?}", back.elapsed());
        assert_eq!((outcome.is_replayed(), outcome.into_inner()), (false, Ok(1)), "{away:?}");
        assert_eq!(service.runs(), before + 1, "{away:?}");
        assert!(service.retry(&key).await.0.is_replayed());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_cannot_be_stored_is_given_to_its_caller_and_stored_later() {
    let mut server = RedisServer::start(KEPT);
    let service = Service::on(&server).await;
    for away in Away::BOTH {
        let before = service.runs();
        let key = format!("{away:?}");
        let (claimed, is_claimed) = tokio::sync::oneshot::channel();
        let (go_on, goes_on) = tokio::sync::oneshot::channel();
        let call = tokio::spawn({
            let (service, key) = (service.clone(), key.clone());
            async move {
                let work = async move {
                    claimed.send(()).unwrap();
                    goes_on.await.unwrap();
                };
                service.call(&key, work).await
            }
        });
        is_claimed.await.unwrap();
        away.begins(&mut server);
        go_on.send(()).unwrap();
        let outcome = call.await.unwrap().unwrap();
        assert_eq!((outcome.is_replayed(), outcome.into_inner()), (false, Ok(1)), "{away:?}");
        away.ends(&mut server);
        let (replayed, refused) = service.retry(&key).await;
        println!("{away:?}: refused {refused} times until the answer was stored");
        assert_eq!((replayed.is_replayed(), replayed.into_inner()), (true, Ok(1)), "{away:?}");
        assert_eq!(service.runs(), before + 1, "{away:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_forgets_lets_work_run_twice_and_tells_the_first() {
    let mut server = RedisServer::start(&[]);
    let service = Service::on(&server).await;
    let (claimed, is_claimed) = tokio::sync::oneshot::channel();
    let (go_on, goes_on) = tokio::sync::oneshot::channel();
    let first = tokio::spawn({
        let service = service.clone();
        async move {
            let work = async move {
                claimed.send(()).unwrap();
                goes_on.await.unwrap();
            };
            service.call("k", work).await
        }
    });
    is_claimed.await.unwrap();
    assert_eq!(service.call("k", async {}).await.unwrap_err().kind(), ErrorKind::InFlight);
    server.kill();
    server.restart();
    let (second, _) = service.retry("k").await;
    assert_eq!((second.is_replayed(), second.into_inner()), (false, Ok(1)), "as if there had been no first");
    go_on.send(()).unwrap();
    // The first learns it at its end, and answers what the record says.
    let first = first.await.unwrap().unwrap();
    assert_eq!((first.is_replayed(), first.into_inner()), (true, Ok(1)));
    assert_eq!(service.runs(), 2);
}
