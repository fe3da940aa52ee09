//! Dialects: the same statements, in the same order, in the words of each database.

#[cfg(feature = "mysql")]
pub(crate) mod mysql;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
#[cfg(feature = "sqlite")]
pub(crate) mod sqlite;

/// The statements of one dialect, with `idem_records` for the table's name and `?N` or `$N` for the N-th value.
///
/// A step is one statement, and its answer is the number of rows that it changed. All times are made by the database's
/// own clock, read after the statement has what locks it needs; spans are whole microseconds, [`NEVER`] for none. So
/// that a record past its end is absent, each statement asks for `gone_at` itself.
///
/// [`NEVER`]: crate::span::NEVER
#[derive(Debug, Clone, Copy)]
pub(crate) struct Statements {
    /// Inserts the record at its first attempt, unless there is one that is not gone.
    ///
    /// `id, operation, key_hint, fingerprint, owner, on_crash, lease, lease + binding`
    pub(crate) claim: &'static str,
    /// As `claim`, in a transaction of its own that keeps rivals out until it ends, and gives up by itself when its holder
    /// has vanished; empty where that needs no other words.
    ///
    /// The values of `claim`, and how long it may wait for a lock, in milliseconds.
    pub(crate) claim_alone: &'static str,
    /// As `claim_alone`, in a transaction that is the caller's: its time-outs are left as they are.
    ///
    /// The values of `claim`.
    pub(crate) claim_joined: &'static str,
    /// Whether no transaction holds the record; empty where that cannot be asked.
    ///
    /// `id`
    pub(crate) is_free: &'static str,
    /// Puts a new record in the place of one that is gone; empty where `claim` does that itself.
    ///
    /// The values of `claim`.
    pub(crate) reclaim: &'static str,
    /// Grants a record that is there, if it is still as it was found.
    ///
    /// `id, owner, fingerprint, attempt, on_crash, lease, lease + binding; found state, owner, attempt, lease_until`
    pub(crate) take_over: &'static str,
    /// Stores the answer, if the record is in flight under this owner.
    ///
    /// `id, owner, answer, ttl, ttl + tombstone_ttl`
    pub(crate) complete: &'static str,
    /// Takes back a claim under which nothing ran, if the record is in flight under this owner: a first attempt is gone
    /// at once, a later one failed.
    ///
    /// `id, owner, binding`
    pub(crate) undo: &'static str,
    /// Ends the lease as failed or unknown, if the record is in flight under this owner.
    ///
    /// `id, owner, state, binding`
    pub(crate) fail: &'static str,
    /// Moves the end of the lease, and the record's end by as much, if it is in flight under this owner.
    ///
    /// `id, owner, lease`
    pub(crate) renew: &'static str,
    /// Notes that somebody waits for the end of the flight, so that who ends it tells; empty where nobody can be told.
    ///
    /// `id`
    pub(crate) expect: &'static str,
    /// Stores an operator's answer, if the record is unknown, failed or lapsed. The owner is replaced, so that a holder
    /// that comes late is told that it lost.
    ///
    /// `id, answer, ttl, ttl + tombstone_ttl`
    pub(crate) settle: &'static str,
    /// Deletes the record, whatever it is.
    ///
    /// `id`
    pub(crate) erase: &'static str,
    /// Deletes those of some rows that are gone.
    ///
    /// `rows`, as the dialect finds them
    pub(crate) sweep: &'static str,
    /// Reads a record that is not gone, and the database's now.
    ///
    /// `id, whether the answer is wanted`
    pub(crate) look_up: &'static str,
    /// Finds rows to sweep, as the dialect goes about it.
    pub(crate) find_gone: &'static str,
    /// Reads the version of the table.
    ///
    /// `table`
    pub(crate) version: &'static str,
}

/// One step in the history of the tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Migration {
    /// Its number, from 1; the version of the table after it.
    pub version: u32,
    /// What it does, in a word.
    pub name: &'static str,
    /// Its statements. They record the version in `idem_migrations` themselves.
    pub sql: String,
}

/// A migration before the table's name is put in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MigrationText {
    pub(crate) version: u32,
    pub(crate) name: &'static str,
    pub(crate) sql: &'static str,
}
