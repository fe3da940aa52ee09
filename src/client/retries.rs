//! How often and how long a request is tried.

use std::future::Future;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};

/// Longer than anybody waits, and short enough to be added to any instant.
const AGES: Duration = Duration::from_hours(24 * 365);

/// How often and how long a request is tried.
///
/// After the first failure it waits for up to `first_wait`, then twice as long each time, up to `longest_wait`. Each wait is
/// drawn at random from the upper half of that span, so that clients that failed together do not come back together. A
/// server that asks by `Retry-After` for longer is waited for longer.
///
/// ```
/// use std::time::Duration;
///
/// let patient = idem::client::Retries::default()
///     .attempt_timeout(Duration::from_secs(10))
///     .give_up_after(Duration::from_mins(10));
/// # drop(patient);
/// ```
#[derive(Debug, Clone)]
pub struct Retries {
    first_wait: Duration,
    longest_wait: Duration,
    attempt_timeout: Duration,
    give_up_after: Duration,
}

impl Default for Retries {
    fn default() -> Self {
        Self {
            first_wait: Duration::from_millis(250),
            longest_wait: Duration::from_secs(10),
            attempt_timeout: Duration::from_secs(30),
            give_up_after: Duration::from_mins(2),
        }
    }
}

impl Retries {
    /// Sets the longest wait after the first failed attempt. Default: 250 ms.
    #[must_use]
    pub fn first_wait(self, first_wait: Duration) -> Self {
        Self { first_wait, ..self }
    }

    /// Sets the longest wait between two attempts, unless the server asks for more. Default: 10 s.
    #[must_use]
    pub fn longest_wait(self, longest_wait: Duration) -> Self {
        Self { longest_wait, ..self }
    }

    /// Sets how long an attempt may take until its response has been read. Default: 30 s.
    ///
    /// Work that takes longer than this is not lost: the server goes on, further attempts are told that it runs, and the
    /// first one after its end gets its answer.
    #[must_use]
    pub fn attempt_timeout(self, attempt_timeout: Duration) -> Self {
        Self { attempt_timeout, ..self }
    }

    /// Sets how long all attempts together may take, waits included. Default: 2 min.
    ///
    /// An attempt under way is cut off then, and a wait that would end later does not begin.
    #[must_use]
    pub fn give_up_after(self, give_up_after: Duration) -> Self {
        Self { give_up_after, ..self }
    }

    /// How long to wait after so many failures, at least 1, with a die that is in `0.0..1.0`.
    fn wait(&self, failures: u32, asked: Option<Duration>, die: f64) -> Duration {
        let doublings = failures.saturating_sub(1).min(31);
        let span = self.first_wait.saturating_mul(1 << doublings).min(self.longest_wait).min(AGES);
        let own = span / 2 + (span / 2).mul_f64(die);
        // Those who were asked for the same time spread over a little more.
        let asked = asked.map(|asked| asked.min(AGES) + self.first_wait.min(AGES).mul_f64(die));
        own.max(asked.unwrap_or_default())
    }

    /// Makes attempts until one is final, or time is over. Each is given its number, from 1.
    pub(super) async fn drive<T, W, F>(
        &self,
        mut attempt: impl FnMut(u32) -> F,
        mut die: impl FnMut() -> f64,
    ) -> Driven<T, W>
    where
        F: Future<Output = Tried<T, W>>,
    {
        let end = Instant::now() + self.give_up_after.min(AGES);
        let mut attempts = 0_u32;
        loop {
            attempts = attempts.saturating_add(1);
            let at_most = Instant::now() + self.attempt_timeout.min(AGES);
            let (why, asked) = match timeout_at(at_most.min(end), attempt(attempts)).await {
                Ok(Tried::Final(result)) => return Driven::Final(result),
                Ok(Tried::Again { why, after }) => (Some(why), after),
                Err(_) => (None, None),
            };
            let wait = self.wait(attempts, asked, die());
            if Instant::now() + wait >= end {
                return Driven::GaveUp { why, attempts };
            }
            tracing::debug!(attempts, wait_ms = wait.as_millis() as u64, "no final answer yet; trying again");
            sleep(wait).await;
        }
    }
}

/// What came of one attempt.
pub(super) enum Tried<T, W> {
    Final(T),
    Again { why: W, after: Option<Duration> },
}

/// What came of all of them.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Driven<T, W> {
    Final(T),
    /// Why the last one was not final; `None` if it took too long.
    GaveUp {
        why: Option<W>,
        attempts: u32,
    },
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn retries() -> Retries {
        Retries::default().first_wait(ms(100)).longest_wait(ms(1000)).give_up_after(Duration::from_secs(10))
    }

    #[test]
    fn waits_double_until_they_are_capped() {
        let waits = |die| (1..=6).map(|failures| retries().wait(failures, None, die)).collect::<Vec<_>>();
        assert_eq!(waits(0.0), [50, 100, 200, 400, 500, 500].map(ms));
        assert_eq!(waits(0.5), [75, 150, 300, 600, 750, 750].map(ms));
        assert_eq!(retries().wait(u32::MAX, None, 0.0), ms(500));
    }

    #[test]
    fn a_server_that_asks_for_longer_is_waited_for_and_not_by_all_at_once() {
        assert_eq!(retries().wait(1, Some(ms(3000)), 0.0), ms(3000));
        assert_eq!(retries().wait(1, Some(ms(3000)), 0.5), ms(3050));
        assert_eq!(retries().wait(5, Some(ms(10)), 0.0), ms(500));
    }

    #[test]
    fn no_duration_is_too_long_to_be_added() {
        let endless = Retries::default().first_wait(Duration::MAX).longest_wait(Duration::MAX);
        assert!(endless.wait(40, Some(Duration::MAX), 0.999) <= AGES * 2);
    }

    /// What an attempt does, and when it is begun.
    struct Script<'a> {
        tries: RefCell<Vec<Tried<&'a str, &'a str>>>,
        begun: RefCell<Vec<Duration>>,
    }

    impl<'a> Script<'a> {
        fn new(tries: impl IntoIterator<Item = Tried<&'a str, &'a str>>) -> Self {
            let mut tries: Vec<_> = tries.into_iter().collect();
            tries.reverse();
            Self { tries: RefCell::new(tries), begun: RefCell::default() }
        }

        /// Attempts beyond the script hang.
        async fn play(&self, retries: Retries) -> Driven<&'a str, &'a str> {
            let start = Instant::now();
            let attempt = |_| async {
                self.begun.borrow_mut().push(start.elapsed());
                let tried = self.tries.borrow_mut().pop();
                match tried {
                    Some(tried) => tried,
                    None => std::future::pending().await,
                }
            };
            retries.drive(attempt, || 0.0).await
        }
    }

    fn fails(after: Option<Duration>) -> Tried<&'static str, &'static str> {
        Tried::Again { why: "busy", after }
    }

    #[tokio::test(start_paused = true)]
    async fn attempts_go_on_until_one_is_final() {
        let script = Script::new([fails(None), fails(Some(ms(2000))), fails(None), Tried::Final("done")]);
        assert_eq!(script.play(retries()).await, Driven::Final("done"));
        assert_eq!(*script.begun.borrow(), [0, 50, 2050, 2250].map(ms));
    }

    #[tokio::test(start_paused = true)]
    async fn an_attempt_that_hangs_is_cut_off_and_the_next_one_begins() {
        let script = Script::new([]);
        let driven = script.play(retries().attempt_timeout(ms(3000))).await;
        assert_eq!(driven, Driven::GaveUp { why: None, attempts: 4 });
        // The last one is cut off at the end.
        assert_eq!(*script.begun.borrow(), [0, 3050, 6150, 9350].map(ms));
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_for_what_begins_too_late() {
        let script = Script::new([fails(None), fails(Some(Duration::from_mins(1)))]);
        let begun = Instant::now();
        assert_eq!(script.play(retries()).await, Driven::GaveUp { why: Some("busy"), attempts: 2 });
        assert_eq!(begun.elapsed(), ms(50));
    }

    #[tokio::test(start_paused = true)]
    async fn it_gives_up_in_time_whatever_fails() {
        let script = Script::new((0..100).map(|_| fails(None)));
        let begun = Instant::now();
        assert!(matches!(script.play(retries()).await, Driven::GaveUp { why: Some("busy"), attempts: 20.. }));
        assert!(begun.elapsed() <= Duration::from_secs(10));
    }
}
