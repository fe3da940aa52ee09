//! The desk: where the one writing connection is, for whoever holds its lock.

use std::sync::Arc;

use sqlx::sqlite::SqliteArguments;

use super::fault::Fault;
use super::source::{Done, Link, Role, Source};
use super::text::SIZES;
use crate::fault::unavailable;
use crate::step::Step;

/// The writing connection. Its holder may vanish at any await: the next one clears up.
#[derive(Debug)]
pub(super) struct Desk {
    source: Arc<Source>,
    link: Option<Link>,
    /// Whether a transaction may be open.
    in_batch: bool,
}

impl Desk {
    pub(super) fn new(source: Arc<Source>, link: Link) -> Self {
        Self { source, link: Some(link), in_batch: false }
    }

    /// Executes one text, which is a transaction of its own.
    pub(super) async fn execute(
        &mut self,
        text: Arc<str>,
        arguments: SqliteArguments,
    ) -> Result<Done, Fault> {
        let result = match self.link().await {
            Ok(link) => link.execute(text, arguments).await,
            Err(fault) => Err(fault),
        };
        self.keep_if_sound(&result);
        result
    }

    /// Takes one step and tells how many rows it changed.
    pub(super) async fn step(&mut self, step: &Step) -> Result<u64, Fault> {
        let source = Arc::clone(&self.source);
        let text = source.texts.step(step.verb);
        let mut arguments = SqliteArguments::default();
        text.bind(&step.values, &mut arguments).map_err(Fault::of)?;
        let done = self.execute(text.once(), arguments).await?;
        Ok(done.changed.first().copied().unwrap_or(0))
    }

    /// Takes several steps in one transaction, all or none, and tells how many rows each changed.
    pub(super) async fn batch(&mut self, steps: &[&Step]) -> Result<Vec<u64>, Fault> {
        let result = self.in_transaction(steps).await;
        self.keep_if_sound(&result);
        if result.is_err() {
            // Also where the transaction did not begin: then there is nothing to roll back.
            self.clear_up().await;
        }
        result
    }

    async fn in_transaction(&mut self, steps: &[&Step]) -> Result<Vec<u64>, Fault> {
        let source = Arc::clone(&self.source);
        self.link().await?;
        let Some(link) = &mut self.link else { return Err(Fault::Busy) };
        // Steps of one kind go together: one text repeats their statement.
        let mut order: Vec<usize> = (0..steps.len()).collect();
        order.sort_by_key(|at| steps[*at].verb);
        let mut changed = vec![0; steps.len()];
        self.in_batch = true;
        link.command("BEGIN IMMEDIATE").await?;
        for alike in order.chunk_by(|a, b| steps[*a].verb == steps[*b].verb) {
            let text = source.texts.step(steps[alike[0]].verb);
            let mut rest = alike;
            for (size, times) in SIZES.into_iter().enumerate() {
                while let Some((group, others)) = rest.split_at_checked(times) {
                    rest = others;
                    let mut arguments = SqliteArguments::default();
                    for at in group {
                        text.bind(&steps[*at].values, &mut arguments).map_err(Fault::of)?;
                    }
                    let done = link.execute(text.times(size), arguments).await?;
                    for (at, rows) in group.iter().zip(done.changed) {
                        changed[*at] = rows;
                    }
                }
            }
        }
        link.command("COMMIT").await?;
        self.in_batch = false;
        Ok(changed)
    }

    /// The connection, in order and on the file that is there now.
    async fn link(&mut self) -> Result<&mut Link, Fault> {
        self.source.check_open().map_err(Fault::Refused)?;
        self.clear_up().await;
        if self.link.as_ref().is_some_and(|link| !self.source.still_in_place(link)) {
            self.link = None;
        }
        match &mut self.link {
            Some(_) => {}
            None if self.source.in_memory() => {
                return Err(Fault::Refused(unavailable("the database in memory is gone")));
            }
            empty => *empty = Some(self.source.reconnect(Role::Write).await?),
        }
        self.link.as_mut().ok_or(Fault::Busy)
    }

    /// Rolls back what a vanished holder, or an error, left open.
    async fn clear_up(&mut self) {
        if !self.in_batch {
            return;
        }
        if let Some(link) = &mut self.link {
            // It fails if there is no transaction, which is as well.
            let _ = link.command("ROLLBACK").await;
        }
        self.in_batch = false;
    }

    /// Gives up a broken connection, but never a database in memory, which is nowhere else.
    fn keep_if_sound<T>(&mut self, result: &Result<T, Fault>) {
        if matches!(result, Err(Fault::Broken(_))) && !self.source.in_memory() {
            self.link = None;
            self.in_batch = false;
        }
    }

    pub(super) async fn close(&mut self) {
        self.clear_up().await;
        if let Some(link) = self.link.take() {
            link.close().await;
        }
    }
}
