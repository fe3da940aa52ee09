//! Rounds of failovers under load: in each a primary behind Sentinels fails, and what was acknowledged is counted.

use std::fmt;
use std::time::{Duration, Instant};

use idem_redis::{RedisBuilder, RedisStore};
use idem_testkit::stores::claims::{DAY, completed, id};
use idem_testkit::stores::writers::{Writers, Written};
use idem_testkit::{History, RedisSentinels, RedisServer};

/// Longer than a failover takes on a machine that does a lot else.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
pub(crate) const PASSWORD: &str = "requirepass s3cret";
const SERVERS: usize = 3;

pub(crate) fn behind(all: &RedisSentinels) -> RedisBuilder {
    RedisStore::sentinel(all.name(), all.urls()).primary_like("redis://:s3cret@primary").timeout(PATIENCE)
}

/// Waits until a replica has what its primary has.
pub(crate) fn catch_up(replica: &RedisServer, primary: &RedisServer) {
    let all = primary.history();
    loop {
        let has = replica.history();
        if (has.id, has.offset >= all.offset) == (all.id.clone(), true) {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// What was lost of what was acknowledged.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Lost {
    claims: usize,
    of_claims: usize,
    answers: usize,
    of_answers: usize,
}

impl Lost {
    pub(crate) async fn of(written: &Written, store: &RedisStore) -> Self {
        Self {
            answers: written.answers_missing_in(store).await.len(),
            claims: written.claims_missing_in(store).await.len(),
            of_claims: written.answered.len() + written.held.len() + written.lost.len(),
            of_answers: written.answered.len(),
        }
    }

    fn add(&mut self, other: Self) {
        self.claims += other.claims;
        self.of_claims += other.of_claims;
        self.answers += other.answers;
        self.of_answers += other.of_answers;
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { claims, of_claims, answers, of_answers } = self;
        write!(f, "{answers} of {of_answers} answers and {claims} of {of_claims} claims lost")
    }
}

/// What becomes of a primary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It comes back empty, and is made a replica.
    Killed,
    /// It goes on after another has taken over, and for a moment knows nothing of it.
    Hung,
}

/// The servers just before the primary fails.
struct Before {
    primary: usize,
    histories: Vec<History>,
}

impl Before {
    fn look(all: &RedisSentinels) -> Self {
        Self {
            primary: all.primary(),
            histories: (0..SERVERS).map(|server| all.server(server).history()).collect(),
        }
    }

    /// Whether what came after is the one failover that was brought about: whoever is the primary was a replica of the one
    /// that failed, and was promoted since.
    fn is_followed_by(&self, successor: usize, after: &History) -> bool {
        let failed = &self.histories[self.primary].id;
        successor != self.primary
            && self.histories[successor].id == *failed
            && after.before.as_ref().is_some_and(|(id, _)| id == failed)
    }

    /// Says what came after.
    fn tell(&self, successor: usize, after: &History) -> String {
        let failed = &self.histories[self.primary];
        let replicas = (0..SERVERS).filter(|server| *server != self.primary);
        let replicas: Vec<_> =
            replicas.map(|server| format!("server {server} at {}", self.histories[server].offset)).collect();
        let what = match &after.before {
            Some((id, offset)) if *id == failed.id => format!("was promoted at {offset}"),
            Some((_, offset)) => format!("was promoted at {offset} of another's history"),
            None => "has another's history".to_owned(),
        };
        format!(
            "server {} failed at {} ({}), server {successor} {what}",
            self.primary,
            failed.offset,
            replicas.join(", ")
        )
    }
}

/// What came of many rounds.
#[derive(Default)]
struct Sum {
    rounds: usize,
    lost: Lost,
}

impl Sum {
    fn add(&mut self, lost: Lost) {
        self.rounds += 1;
        self.lost.add(lost);
    }
}

/// Lets primaries fail under load, one after the other, and counts. `IDEM_TEST_ROUNDS` says how many, one if it is not set.
///
/// Where a failover too many comes in between, because a Sentinel took a healthy primary for down, that is told and counted
/// apart: a primary that nobody has told goes on to acknowledge what is lost then.
pub(crate) async fn fail(fate: Fate, all: &mut RedisSentinels, replicas: u32) {
    let rounds = std::env::var("IDEM_TEST_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(1);
    let store = behind(all).wait_replicas(replicas).open().await.unwrap();
    let looking = behind(all).open().await.unwrap();
    let (mut good, mut false_ones) = (Sum::default(), Sum::default());
    for round in 0..rounds {
        let name = format!("{fate:?}-{replicas}-{round}");
        let first = Before::look(all);
        let writers = Writers::start(&store, &name).await;
        let before = Before::look(all);
        let begun = Instant::now();
        match fate {
            Fate::Killed => {
                all.kill(before.primary);
                all.settle();
                all.restart(before.primary);
            }
            Fate::Hung => {
                all.pause(before.primary);
                all.settle();
                all.resume(before.primary);
            }
        }
        all.settle();
        let took = begun.elapsed();
        let written = writers.stop().await;
        let successor = all.primary();
        let after = all.server(successor).history();
        // The next round begins with three servers that have the same.
        for server in (0..SERVERS).filter(|server| *server != successor) {
            catch_up(all.server(server), all.server(successor));
        }
        // Where replicas are waited for, one is missing for a while; else there was always somebody to ask in the end.
        if replicas == 0 {
            assert_eq!(written.errors.iter().collect::<Vec<_>>(), [""; 0], "round {round}");
        }
        let lost = Lost::of(&written, &looking).await;
        let is_good = first.primary == before.primary && before.is_followed_by(successor, &after);
        println!(
            "{fate:?}, {replicas} waited for, round {round}: {}{}, all in order after {took:?}; {lost}",
            before.tell(successor, &after),
            if is_good { "" } else { " (NOT THE ONE FAILOVER)" }
        );
        if is_good { &mut good } else { &mut false_ones }.add(lost);
        assert!(lost.of_answers >= 100 && lost.of_claims > lost.of_answers, "round {round}: {lost}");
        if replicas == 2 {
            assert_eq!((lost.claims, lost.answers), (0, 0), "round {round}: {lost}");
        }
        completed(&store, &id(&name), DAY).await;
    }
    println!("{fate:?}, {replicas} waited for: {} failovers: {}", good.rounds, good.lost);
    if false_ones.rounds > 0 {
        println!("and {} rounds with another failover: {}", false_ones.rounds, false_ones.lost);
    }
}
