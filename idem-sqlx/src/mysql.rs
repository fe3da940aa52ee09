//! The store for MySQL and MariaDB.

mod builder;
mod fault;
mod line;
mod migrate;
mod session;
mod sweep;
mod text;
mod transaction;
#[cfg(test)]
mod without_returning;

use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use idem_core::record::{RecordId, State};
use idem_core::store::StoreError;
use sqlx::mysql::{MySql, MySqlPool};

pub use self::builder::MySqlBuilder;
use self::text::{Names, Text, Texts};
use self::transaction::Beginnings;
use crate::attempts::{Attempts, fate_unknown};
use crate::database::{Database, Found, Round};
use crate::dialect::Migration;
use crate::dialect::mysql::STATEMENTS;
use crate::fault::{Fault, misconfigured};
use crate::lines::{Done, Lines, Order};
use crate::pauses::Pauses;
use crate::record;
use crate::row::Row;
use crate::step::{Step, Value, Verb, id as record_id};
use crate::store::SqlStore;
use crate::table::TableName;

/// How long a claim looks again at a record that is locked. Steps of other stores lock it for the time of a commit;
/// whoever locks it longer is a transaction that runs its caller's work.
const PATIENCE: Duration = Duration::from_millis(100);
/// How often it looks at least, and how long at most that may take: the machine may be busy.
const LOOKS: u32 = 4;
const MOST_PATIENCE: Duration = Duration::from_millis(500);

/// A lease whose statement took longer than this is renewed at once: it began when the statement did.
const LATE: Duration = Duration::from_millis(100);

#[doc = include_str!("../MYSQL.md")]
pub type MySqlStore = SqlStore<MySqlServer>;

/// A server of MySQL or MariaDB, as [`MySqlStore`] uses it.
#[derive(Debug)]
pub struct MySqlServer {
    lines: Lines<MySql>,
    beginnings: Beginnings,
    names: Names,
    texts: Texts,
    prepared: bool,
    /// The most bytes that a statement may have.
    packet: AtomicUsize,
    /// Where the last sweep came to; the next begins there.
    swept: AtomicI64,
}

impl MySqlStore {
    /// Opens the database of a URL, `mysql://user:password@host/database`; makes its table if need be.
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
    pub async fn from_pool(pool: &MySqlPool) -> Result<Self, StoreError> {
        Self::builder().pool(pool).open().await
    }

    /// Starts to say which database it is, and how it is used.
    pub fn builder() -> MySqlBuilder {
        MySqlBuilder::default()
    }

    /// The migrations of a table in a database, oldest first, for those who run them with a tool of their own.
    ///
    /// For the default table they are the files in `migrations/mysql`. Each records its version in `idem_migrations`;
    /// [`migrate`](Self::migrate) then has nothing to do.
    pub fn migrations(database: Option<&TableName>, table: &TableName) -> Vec<Migration> {
        migrate::texts(&Names { database: database.cloned(), table: table.clone() })
    }

    /// Makes or upgrades the table; does nothing if it is up to date. Any number of processes may do so at once.
    ///
    /// # Errors
    ///
    /// When the database cannot be written, or has the table of a newer release. The server commits each definition by
    /// itself: what was left half done is completed by the next migration.
    pub async fn migrate(&self) -> Result<(), StoreError> {
        self.set_up(true).await
    }

    /// Waits for the steps in progress and closes the store's own connections; a pool is left open.
    ///
    /// Later calls fail as [`Unavailable`](idem_core::store::StoreErrorKind::Unavailable), on every clone.
    pub async fn close(&self) {
        let MySqlServer { lines, beginnings, .. } = self.database();
        lines.close().await;
        if !beginnings.is_lent {
            beginnings.pool.close().await;
        }
    }

    pub(crate) async fn set_up(&self, migrate: bool) -> Result<(), StoreError> {
        let MySqlServer { lines, names, texts, packet, .. } = self.database();
        let set_up = async {
            let mut line = lines.take().await?;
            packet.store(session::check(&mut line).await?, Ordering::Relaxed);
            if migrate {
                migrate::run(&mut line, names, texts).await?;
            }
            migrate::check_version(&mut line, names, texts).await?;
            line.give_back();
            Ok(())
        };
        self.in_time(async { set_up.await.map_err(Fault::into_error) }).await
    }
}

impl MySqlServer {
    fn new(lines: Lines<MySql>, beginnings: Beginnings, names: Names, prepared: bool) -> Self {
        let texts = Texts::new(&STATEMENTS, &names);
        let (packet, swept) = (AtomicUsize::new(usize::MAX), AtomicI64::new(0));
        Self { lines, beginnings, names, texts, prepared, packet, swept }
    }

    /// Executes a statement, again if it met another transaction, and on another connection if its own broke off and it
    /// may be repeated: the first time may have been successful.
    async fn execute(
        &self,
        text: &Text,
        values: &[Value],
        attempts: &mut Attempts,
    ) -> Result<Done<MySql>, Fault> {
        loop {
            match self.once(self.order(text, values)?).await {
                Ok(done) => return Ok(done),
                Err(fault) => attempts.after(fault, || self.lines.forget_idle()).await?,
            }
        }
    }

    /// The attempts of a step that may be repeated.
    fn attempts(&self) -> Attempts {
        Attempts::new(self.lines.broken_at_most())
    }

    async fn once(&self, order: Order<MySql>) -> Result<Done<MySql>, Fault> {
        let mut line = self.lines.take().await?;
        let result = line.execute(order).await;
        if !matches!(result, Err(Fault::Broken(_))) {
            line.give_back();
        }
        result
    }

    fn order(&self, text: &Text, values: &[Value]) -> Result<Order<MySql>, Fault> {
        // A server that is sent too much closes the connection, often before it says why.
        let (most, bytes) =
            (self.packet.load(Ordering::Relaxed), values.iter().map(Value::len).sum::<usize>());
        let (order, len) = if self.prepared {
            (Order::Prepared(text.prepared(), text.bind(values).map_err(fault::of)?), bytes + 512)
        } else {
            let text = text.with_values(values);
            let len = text.len() + 1;
            (Order::Simple(text), len)
        };
        if len > most {
            return Err(Fault::Refused(misconfigured(format!(
                "a step of {bytes} bytes is more than the server's `max_allowed_packet` of {most} bytes lets through; \
                raise it, or lower `max_response_bytes`"
            ))));
        }
        Ok(order)
    }

    /// Takes a step. Whoever may wait for a lock tries until its caller's time is over.
    async fn step(&self, step: &Step) -> Result<Done<MySql>, Fault> {
        // An operator's decision cannot be repeated: the second time it would be refused.
        let may_repeat = !matches!(step.verb, Verb::Settle | Verb::Erase | Verb::Sweep);
        let mut attempts = if may_repeat { self.attempts() } else { Attempts::new(0) };
        self.step_after(step, &mut attempts).await
    }

    /// The same after other attempts.
    async fn step_after(&self, step: &Step, attempts: &mut Attempts) -> Result<Done<MySql>, Fault> {
        let may_wait = !matches!(step.verb, Verb::Claim | Verb::Reclaim | Verb::TakeOver);
        let mut pauses = Pauses::default();
        loop {
            match self.execute(self.texts.step(step.verb), &step.values, attempts).await {
                Err(Fault::Locked(_)) if may_wait => pauses.pause().await,
                result => return result,
            }
        }
    }

    /// Takes a step that grants a lease, and tells whether it was granted; not if the record stays locked.
    async fn grant(&self, step: &Step) -> Result<bool, StoreError> {
        let (mut pauses, mut attempts) = (Pauses::default(), self.attempts());
        loop {
            match self.step_after(step, &mut attempts).await {
                Ok(done) => return Ok(done.changed == 1 && self.made_fresh(&done, step).await?),
                Err(Fault::Locked(_)) if is_bearable(&pauses) => pauses.pause().await,
                Err(Fault::Locked(_)) => return Ok(false),
                Err(fault) => return Err(fault.into_error()),
            }
        }
    }

    /// Renews a lease that began long before its statement ended, and tells whether it still holds.
    async fn made_fresh(&self, done: &Done<MySql>, step: &Step) -> Result<bool, StoreError> {
        let (owner, lease) = match step.verb {
            Verb::Claim | Verb::Reclaim => (4, 6),
            Verb::TakeOver => (1, 5),
            _ => (1, 2),
        };
        if done.took <= LATE {
            return Ok(true);
        }
        let values = [0, owner, lease].map(|at| step.values[at].clone());
        let renewal = Step { verb: Verb::Renew, values: values.into() };
        let renewed = self.step(&renewal).await.map_err(|fault| fate_unknown(fault.into_error()))?;
        Ok(renewed.changed == 1)
    }

    /// Reads the record that stood in the way of a claim, and makes it the claim's if it is gone.
    async fn found(&self, id: &RecordId, step: &Step) -> Result<Found, StoreError> {
        if let Some(row) = self.look_up(id, true).await? {
            return Ok(Found::Record(Box::new(row)));
        }
        self.reclaimed(step).await
    }

    async fn reclaimed(&self, claim: &Step) -> Result<Found, StoreError> {
        let step = Step { verb: Verb::Reclaim, values: claim.values.clone() };
        Ok(if self.grant(&step).await? { Found::Nothing } else { Found::Vanished })
    }
}

impl Database for MySqlServer {
    const SWEEP_BATCH: u32 = 1_000;

    async fn claim(&self, id: &RecordId, step: Step) -> Result<Found, StoreError> {
        debug_assert_eq!(step.verb, Verb::Claim, "for {id:?}");
        let (mut pauses, mut attempts) = (Pauses::default(), self.attempts());
        loop {
            let done = match self.step_after(&step, &mut attempts).await {
                Ok(done) => done,
                // MySQL: there is one.
                Err(Fault::Taken(_)) => {
                    return self.found(id, &step).await.map_err(|error| attempts.tell(error));
                }
                Err(Fault::Locked(_)) => {
                    let row =
                        self.look_up(id, true).await.map_err(|error| attempts.tell(error))?.map(Box::new);
                    let is_decided = row.as_ref().is_some_and(|row| is_decided(row, &step));
                    if is_decided || !is_bearable(&pauses) {
                        return Ok(Found::Locked(row));
                    }
                    pauses.pause().await;
                    continue;
                }
                Err(fault) => return Err(fault.into_error()),
            };
            if let Some(row) = done.rows.first() {
                let row = record::read(row, 0)?;
                if !is_new(&row, &step) {
                    return if row.gone_at > row.now {
                        Ok(Found::Record(Box::new(row)))
                    } else {
                        self.reclaimed(&step).await
                    };
                }
            }
            let holds = self.made_fresh(&done, &step).await?;
            return Ok(if holds { Found::Nothing } else { Found::Vanished });
        }
    }

    async fn take(&self, step: Step) -> Result<u64, StoreError> {
        if step.verb == Verb::TakeOver {
            return Ok(self.grant(&step).await?.into());
        }
        let done = self.step(&step).await.map_err(Fault::into_error)?;
        if step.verb == Verb::Renew && done.changed == 1 {
            return Ok(self.made_fresh(&done, &step).await?.into());
        }
        Ok(done.changed)
    }

    async fn look_up(&self, id: &RecordId, with_answer: bool) -> Result<Option<Row>, StoreError> {
        let values = [record_id(id), Value::Int(with_answer.into())];
        let done = self
            .execute(&self.texts.look_up, &values, &mut self.attempts())
            .await
            .map_err(Fault::into_error)?;
        done.rows.first().map(|row| record::read(row, 0)).transpose()
    }

    async fn is_locked(&self, id: &RecordId) -> Result<bool, StoreError> {
        match self.execute(&self.texts.is_free, &[record_id(id)], &mut self.attempts()).await {
            Ok(_) => Ok(false),
            Err(Fault::Locked(_)) => Ok(true),
            Err(fault) => Err(fault.into_error()),
        }
    }

    async fn sweep(&self, round: &mut Round, limit: u32) -> Result<u64, StoreError> {
        self.sweep_page(round, limit).await
    }
}

/// Whether a row that a claim returned is its own: one that it found was made earlier, or by another.
fn is_new(row: &Row, claim: &Step) -> bool {
    row.created_at == row.now && is_owner(row, claim)
}

/// Whether a record is what it is whoever has locked it: its lease runs, or it has ended.
fn is_decided(row: &Row, claim: &Step) -> bool {
    !is_owner(row, claim) && !matches!(row.state(), State::Lapsed | State::Failed)
}

fn is_owner(row: &Row, claim: &Step) -> bool {
    matches!(&claim.values[4], Value::Bytes(owner) if owner[..] == row.owner.as_bytes()[..])
}

/// Whether a claim may go on trying to get a locked record.
fn is_bearable(pauses: &Pauses) -> bool {
    let spent = pauses.spent();
    spent < PATIENCE || (pauses.count() < LOOKS && spent < MOST_PATIENCE)
}
