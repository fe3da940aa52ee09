//! The PostgreSQL store.

mod builder;
mod combine;
mod ear;
mod fault;
mod found;
mod lines;
mod migrate;
mod mood;
mod queue;
mod text;
mod transaction;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use idem_core::record::RecordId;
use idem_core::store::StoreError;
use sqlx::postgres::PgPool;

pub use self::builder::PostgresBuilder;
use self::combine::waited;
use self::ear::Ear;
use self::found::found;
use self::lines::{Done, Line, Lines, Order, Together};
use self::mood::{Guess, Mood};
use self::queue::Reply;
use self::text::{Names, Text, Texts, bind};
use crate::attempts::{Attempts, fate_unknown};
use crate::database::{Database, Found, Round};
use crate::dialect::Migration;
use crate::dialect::postgres::{READ, STATEMENTS, TOGETHER};
use crate::fault::Fault;
use crate::record;
use crate::row::Row;
use crate::step::{Step, Value, Verb, id as record_id};
use crate::store::SqlStore;
use crate::table::TableName;
use crate::waiters::Waiters;

/// How many pages a sweep looks at in one statement: 8 MB.
const LOOK: i64 = 1_024;

/// A lease whose clock was read longer ago than this when it was granted, in microseconds, is renewed at once.
const LATE: i64 = 20_000;

#[doc = include_str!("../POSTGRES.md")]
pub type PostgresStore = SqlStore<Postgres>;

/// A PostgreSQL database, as [`PostgresStore`] uses it.
#[derive(Debug)]
pub struct Postgres {
    lines: Arc<Lines>,
    /// Where transactions are begun: sqlx makes them of a pool's connections.
    transactions: PgPool,
    names: Names,
    texts: Texts,
    prepared: bool,
    /// `None` where nothing can be heard.
    ear: Option<Ear>,
    mood: Mood,
    /// The page up to which the last sweep came; the next begins there.
    swept: AtomicI64,
}

impl PostgresStore {
    /// Opens the database of a URL, `postgres://user:password@host/database`; makes its table if need be.
    ///
    /// # Errors
    ///
    /// When the database cannot be reached, or has the table of a newer release.
    pub async fn open(url: &str) -> Result<Self, StoreError> {
        Self::builder().url(url).open().await
    }

    /// Uses the connections of a pool, and makes the table if need be.
    ///
    /// A step takes one connection for the time of one statement. The pool asks it before and after whether it is alive,
    /// which makes three trips of one: `test_before_acquire(false)` leaves two, and a store that
    /// [opens](Self::open) connections of its own makes one. While the database refuses connections, the pool tries on
    /// until the store's time-out; a store with its own says so at once.
    ///
    /// # Errors
    ///
    /// When the database cannot be reached, or has the table of a newer release.
    pub async fn from_pool(pool: &PgPool) -> Result<Self, StoreError> {
        Self::builder().pool(pool).open().await
    }

    /// Starts to say which database it is, and how it is used.
    pub fn builder() -> PostgresBuilder {
        PostgresBuilder::default()
    }

    /// The migrations of a table in a schema, oldest first, for those who run them with a tool of their own.
    ///
    /// For the default table they are the files in `migrations/postgres`. Each records its version in
    /// `idem_migrations`; [`migrate`](Self::migrate) then has nothing to do.
    pub fn migrations(schema: Option<&TableName>, table: &TableName) -> Vec<Migration> {
        migrate::texts(&Names { schema: schema.cloned(), table: table.clone() })
    }

    /// Makes or upgrades the table; does nothing if it is up to date. Any number of processes may do so at once.
    ///
    /// # Errors
    ///
    /// When the database cannot be written, or has the table of a newer release. A migration is done as a whole or not
    /// at all.
    pub async fn migrate(&self) -> Result<(), StoreError> {
        self.set_up(true).await
    }

    /// Waits for the steps in progress and closes the store's own connections; a pool is left open.
    ///
    /// Later calls fail as [`Unavailable`](idem_core::store::StoreErrorKind::Unavailable), on every clone.
    pub async fn close(&self) {
        let postgres = self.database();
        if let Some(ear) = &postgres.ear {
            ear.close().await;
        }
        postgres.lines.close().await;
        if !postgres.lines.is_lent() {
            postgres.transactions.close().await;
        }
    }

    pub(crate) async fn set_up(&self, migrate: bool) -> Result<(), StoreError> {
        let Postgres { lines, names, texts, .. } = self.database();
        self.in_time(async {
            let mut line = lines.take().await.map_err(Fault::into_error)?;
            if migrate {
                migrate::run(&mut line, names, texts).await.map_err(Fault::into_error)?;
            }
            migrate::check_version(&mut line, names, texts).await.map_err(Fault::into_error)?;
            line.give_back();
            Ok(())
        })
        .await
    }
}

impl Postgres {
    fn new(mut lines: Lines, transactions: PgPool, names: Names, prepared: bool, ear: Option<Ear>) -> Self {
        let texts = Texts::new(&STATEMENTS, &names);
        // With their values in them, many steps would be one long text to be planned each time.
        lines.together = prepared
            .then(|| Together { take: names.put_into(TOGETHER).into(), read: names.put_into(READ).into() });
        Self {
            lines: Arc::new(lines),
            transactions,
            names,
            texts,
            prepared,
            ear,
            mood: Mood::default(),
            swept: AtomicI64::new(0),
        }
    }

    /// Executes a statement, again if it met another transaction, and on another connection if its own broke off and it
    /// may be repeated: the first time may have been successful.
    async fn execute(
        &self,
        text: &Text,
        values: &[Value],
        mut attempts: Attempts,
    ) -> Result<Done, StoreError> {
        loop {
            match self.once(text, values).await {
                Ok(done) => return Ok(done),
                Err(fault) => self.after(&mut attempts, fault).await?,
            }
        }
    }

    /// The attempts of a step that may be repeated.
    fn attempts(&self) -> Attempts {
        Attempts::new(self.lines.broken_at_most())
    }

    async fn after(&self, attempts: &mut Attempts, fault: Fault) -> Result<(), StoreError> {
        attempts.after(fault, || self.lines.forget_idle()).await.map_err(Fault::into_error)
    }

    async fn once(&self, text: &Text, values: &[Value]) -> Result<Done, Fault> {
        let line = self.lines.take().await?;
        self.on(line, text, values).await
    }

    /// Executes a statement on a connection, which is given back.
    async fn on(&self, mut line: Line, text: &Text, values: &[Value]) -> Result<Done, Fault> {
        let result = match self.order(text, values) {
            Ok(order) => line.execute(order).await,
            Err(fault) => Err(fault),
        };
        give_back_if_sound(line, &result);
        result
    }

    /// The same for a step that is known to be blocked: it does not keep a connection for as long as it is.
    async fn execute_patiently(&self, step: &Step) -> Result<Done, StoreError> {
        let mut attempts = self.attempts();
        loop {
            let result = match self.lines.take().await {
                Ok(mut line) => {
                    let result = combine::execute(&mut line, &[step], combine::PATIENCE).await;
                    give_back_if_sound(line, &result);
                    result
                }
                Err(fault) => Err(fault),
            };
            match result {
                Ok(mut answers) => return Ok(answers.pop().unwrap_or_default()),
                Err(Fault::Locked(error)) => self.after(&mut attempts, Fault::Undone(error)).await?,
                Err(fault) => self.after(&mut attempts, fault).await?,
            }
        }
    }

    fn order(&self, text: &Text, values: &[Value]) -> Result<Order, Fault> {
        Ok(if self.prepared {
            Order::Prepared(text.prepared(), bind(values).map_err(fault::of)?)
        } else {
            Order::Simple(text.with_values(values))
        })
    }

    /// Takes a step: at once while a connection is idle, together with others while none is.
    async fn step(&self, step: &Step) -> Result<Done, StoreError> {
        // An operator's decision cannot be repeated: the second time it would be refused.
        let may_repeat = !matches!(step.verb, Verb::Settle | Verb::Erase | Verb::Sweep);
        self.step_after(step, if may_repeat { self.attempts() } else { Attempts::new(0) }).await
    }

    /// The same after attempts by other means.
    async fn step_after(&self, step: &Step, mut attempts: Attempts) -> Result<Done, StoreError> {
        let text = self.texts.step(step.verb);
        if self.lines.together.is_some() && combine::joins(step.verb) {
            let result = match self.lines.take_now().await {
                Ok(Some(line)) => self.on(line, text, &step.values).await,
                Ok(None) => match self.lines.leave(step.clone(), false).await {
                    Ok(Reply::Done(done)) => Ok(done),
                    Ok(Reply::Blocked) => return self.execute_patiently(step).await,
                    Ok(Reply::Failed(fault)) | Err(fault) => Err(fault),
                },
                Err(fault) => Err(fault),
            };
            match result {
                // Alone, it is told what is its own fault and not another's.
                Err(Fault::Undone(_)) => {}
                Err(ref fault @ Fault::Broken(_)) => {
                    attempts.note(fault);
                    self.lines.forget_idle();
                }
                result => return result.map_err(|fault| attempts.told(fault).into_error()),
            }
        }
        self.execute(text, &step.values, attempts).await
    }

    /// Claims by what costs least, if it is clear what will be found; `None` if it was not.
    async fn claim_as_guessed(
        &self,
        id: &RecordId,
        step: &Step,
        attempts: &mut Attempts,
    ) -> Result<Option<(Done, Found)>, StoreError> {
        let guess = self.mood.guess();
        if guess == Guess::Either {
            return Ok(None);
        }
        let result = match self.lines.take_now().await.map_err(Fault::into_error)? {
            Some(line) if guess == Guess::Fresh => self.on(line, &self.texts.insert, &step.values).await,
            Some(line) => self.on(line, &self.texts.look_up, &[record_id(id), Value::Int(1)]).await,
            None if guess == Guess::Replay && self.lines.together.is_some() => {
                let sought = Step { verb: Verb::Claim, values: vec![record_id(id)] };
                match self.lines.leave(sought, true).await {
                    Ok(Reply::Done(done)) => Ok(done),
                    Ok(Reply::Blocked) => return Ok(None),
                    Ok(Reply::Failed(fault)) | Err(fault) => Err(fault),
                }
            }
            None => return Ok(None),
        };
        match result {
            // A record that is free may be locked by a transaction, which only the claim itself can tell.
            Ok(done) => {
                let found = found(done.rows.first())?;
                let is_answer = match &found {
                    Found::Record(row) => !row.is_free(),
                    found => matches!(found, Found::Nothing),
                };
                Ok(is_answer.then_some((done, found)))
            }
            // The claim itself is repeated.
            Err(Fault::Undone(_)) => Ok(None),
            Err(fault @ Fault::Broken(_)) => {
                // Who was only looking has claimed nothing.
                if guess == Guess::Fresh {
                    attempts.note(&fault);
                }
                self.lines.forget_idle();
                Ok(None)
            }
            Err(fault) => Err(fault.into_error()),
        }
    }

    /// Renews a lease that began before its step had what lock it needed, and tells whether it still holds.
    async fn made_fresh(&self, mut done: Done, step: &Step) -> Result<bool, StoreError> {
        let (owner, lease) = match step.verb {
            Verb::Claim | Verb::Reclaim => (4, 6),
            Verb::TakeOver => (1, 5),
            Verb::Renew => (1, 2),
            _ => return Ok(done.changed == 1),
        };
        let renewal =
            || Step { verb: Verb::Renew, values: [0, owner, lease].map(|at| step.values[at].clone()).into() };
        while let Some(row) = done.rows.first() {
            if waited(&done, row)?.is_none_or(|waited| waited <= LATE) {
                return Ok(true);
            }
            done = self.step(&renewal()).await.map_err(fate_unknown)?;
        }
        Ok(false)
    }
}

impl Database for Postgres {
    const SWEEP_BATCH: u32 = 1_000;

    async fn claim(&self, id: &RecordId, step: Step) -> Result<Found, StoreError> {
        debug_assert_eq!(step.verb, Verb::Claim, "for {id:?}");
        let mut attempts = self.attempts();
        let (done, found) = if let Some(guessed) = self.claim_as_guessed(id, &step, &mut attempts).await? {
            guessed
        } else {
            let done = self.step_after(&step, attempts).await?;
            let found = found(done.rows.first())?;
            (done, found)
        };
        self.mood.note(matches!(found, Found::Nothing));
        let step = match found {
            Found::Nothing => step,
            Found::Record(ref row) if row.gone_at <= row.now => Step { verb: Verb::Reclaim, ..step },
            found => return Ok(found),
        };
        let done = if step.verb == Verb::Reclaim { self.step(&step).await? } else { done };
        Ok(if self.made_fresh(done, &step).await? { Found::Nothing } else { Found::Vanished })
    }

    async fn take(&self, step: Step) -> Result<u64, StoreError> {
        let done = self.step(&step).await?;
        match step.verb {
            Verb::TakeOver | Verb::Renew => Ok(self.made_fresh(done, &step).await?.into()),
            _ => Ok(done.changed),
        }
    }

    async fn look_up(&self, id: &RecordId, with_answer: bool) -> Result<Option<Row>, StoreError> {
        let values = [record_id(id), Value::Int(with_answer.into())];
        let done = self.execute(&self.texts.look_up, &values, self.attempts()).await?;
        done.rows.first().map(|row| record::read(row, 1)).transpose()
    }

    async fn is_locked(&self, id: &RecordId) -> Result<bool, StoreError> {
        let done = self.execute(&self.texts.is_free, &[record_id(id)], self.attempts()).await?;
        let free: bool = done
            .rows
            .first()
            .map_or(Ok(true), |row| sqlx::Row::try_get(row, 0))
            .map_err(|error| fault::of(error).into_error())?;
        Ok(!free)
    }

    async fn expect(&self, id: &RecordId, waiters: &Arc<Waiters>) -> bool {
        let Some(ear) = &self.ear else { return false };
        ear.hears(waiters).await && self.step(&Step::expect(id)).await.is_ok()
    }

    async fn sweep(&self, round: &mut Round, limit: u32) -> Result<u64, StoreError> {
        let start = match round.start {
            Some(start) => start,
            None => self.start(round).await?,
        };
        let end = if round.wrapped { start } else { round.end };
        let next = (round.at + LOOK).min(end);
        let page = |page: i64| Value::Text(format!("({page},0)").into());
        let values = vec![page(round.at), page(next), Value::Int(limit.into())];
        let deleted = self.take(Step { verb: Verb::Sweep, values }).await?;
        if deleted < limit.into() {
            round.at = next;
            if next >= end {
                round.over = round.wrapped || start == 0;
                round.wrapped = true;
                round.at = 0;
            }
        }
        self.swept.store(round.at, Ordering::Relaxed);
        Ok(deleted)
    }
}

impl Postgres {
    /// Starts a round of sweeping where the last one ended.
    async fn start(&self, round: &mut Round) -> Result<i64, StoreError> {
        let done = self.execute(&self.texts.find_gone, &[], self.attempts()).await?;
        let pages = done.rows.first().map_or(Ok(0), |row| sqlx::Row::try_get(row, 0));
        round.end = pages.map_err(|error| fault::of(error).into_error())?;
        let swept = self.swept.load(Ordering::Relaxed);
        round.at = if swept < round.end { swept } else { 0 };
        round.start = Some(round.at);
        Ok(round.at)
    }
}

/// A broken connection is closed.
fn give_back_if_sound<T>(line: Line, result: &Result<T, Fault>) {
    if !matches!(result, Err(Fault::Broken(_))) {
        line.give_back();
    }
}
