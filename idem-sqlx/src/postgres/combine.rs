//! Combining: many steps in one statement, while all connections are busy.

use std::sync::Arc;
use std::time::Duration;

use idem_core::store::{StoreError, StoreErrorKind};
use sqlx::Arguments as _;
use sqlx::Row as _;
use sqlx::postgres::{PgArguments, PgRow};
use tokio::task::yield_now;
use tokio::time::timeout;

use super::fault;
use super::lines::{Done, Line, Order, Together};
use super::queue::{Job, Reply};
use crate::fault::Fault;
use crate::pauses::Pauses;
use crate::step::{Step, Verb};

/// How long steps that are taken together wait for one that is blocked.
pub(super) const PATIENCE: Duration = Duration::from_millis(200);
/// How long it is waited for when it is known that one of them is.
const BRIEF: Duration = Duration::from_millis(5);

/// The column of the record's id in the statement's rows.
const ID: usize = 15;

/// Whether steps of this kind are taken together with others.
pub(super) fn joins(verb: Verb) -> bool {
    matches!(verb, Verb::Claim | Verb::Complete | Verb::Undo | Verb::Fail | Verb::Renew)
}

/// Takes steps, and then those that came meanwhile, until none is left.
pub(super) async fn lead(mut line: Line, mut jobs: Vec<Job>) {
    let Some(lines) = line.lines() else { return };
    loop {
        let taken = jobs.len();
        let is_sound = timeout(lines.timeout, together(&mut line, &mut jobs)).await.unwrap_or(false);
        for job in jobs.drain(..) {
            job.answer(Reply::Failed(Fault::Refused(StoreError::new(StoreErrorKind::TimedOut))));
        }
        if !is_sound {
            return;
        }
        if line.is_shared() {
            return line.give_back();
        }
        // Those who were just answered are likely to be back at once: let them be in the next statement.
        for _ in 0..2 {
            if lines.waiting() < taken {
                yield_now().await;
            }
        }
        jobs = lines.next_batch();
        if jobs.is_empty() {
            return line.give_back();
        }
    }
}

/// Takes steps in one statement, or one by one if one of them does not go, and answers each. Tells whether the connection
/// is sound; what it leaves is not answered.
async fn together(line: &mut Line, jobs: &mut Vec<Job>) -> bool {
    if let Err(fault) = line.connect().await {
        return broken(jobs, &fault);
    }
    // Two processes that take the same steps do not wait for each other if both take them in one order.
    jobs.sort_unstable_by(|a, b| a.step.id().cmp(b.step.id()));
    let reads = jobs.first().is_some_and(|job| job.reads);
    let mut pauses = Pauses::default();
    while jobs.len() > 1 {
        let steps: Vec<_> = jobs.iter().map(|job| &job.step).collect();
        match all(line, reads, &steps, PATIENCE).await {
            Ok(answers) => {
                for (job, done) in jobs.drain(..).zip(answers) {
                    job.answer(Reply::Done(done));
                }
                return true;
            }
            Err(Fault::Undone(_)) => {
                pauses.pause().await;
                jobs.retain(Job::is_wanted);
            }
            Err(Fault::Locked(_) | Fault::Refused(_)) => break,
            Err(fault) => return broken(jobs, &fault),
        }
    }
    let patience = if jobs.len() > 1 { BRIEF } else { PATIENCE };
    while let Some(job) = jobs.pop() {
        if !job.is_wanted() {
            continue;
        }
        match all(line, reads, &[&job.step], patience).await {
            Ok(mut answers) => job.answer(Reply::Done(answers.pop().unwrap_or_default())),
            Err(Fault::Locked(_)) => job.answer(Reply::Blocked),
            Err(fault @ (Fault::Undone(_) | Fault::Refused(_))) => job.answer(Reply::Failed(fault)),
            Err(fault) => {
                jobs.push(job);
                return broken(jobs, &fault);
            }
        }
    }
    true
}

/// Tells all of a connection that is of no use; each may try again, by itself.
fn broken(jobs: &mut Vec<Job>, fault: &Fault) -> bool {
    for job in jobs.drain(..) {
        job.answer(Reply::Failed(fault.again()));
    }
    false
}

async fn all(line: &mut Line, reads: bool, steps: &[&Step], patience: Duration) -> Result<Vec<Done>, Fault> {
    if reads { read(line, steps).await } else { execute(line, steps, patience).await }
}

/// Reads the records of steps, sorted by their ids, in one statement. A record that is not there has no row.
async fn read(line: &mut Line, steps: &[&Step]) -> Result<Vec<Done>, Fault> {
    let text = text(line, |texts| &texts.read);
    let mut arguments = PgArguments::default();
    let ids: Vec<_> = steps.iter().map(|step| &step.id()[..]).collect();
    arguments.add(ids).map_err(|error| fault::of(sqlx::Error::Encode(error)))?;
    told_apart(line.execute(Order::Prepared(text, arguments)).await?, steps).map_err(fault::of)
}

fn text(line: &Line, which: impl Fn(&Together) -> &Arc<str>) -> Arc<str> {
    line.lines()
        .and_then(|lines| lines.together.as_ref().map(|texts| Arc::clone(which(texts))))
        .unwrap_or_default()
}

/// Executes steps of different records, sorted by their ids, in one statement.
pub(super) async fn execute(
    line: &mut Line,
    steps: &[&Step],
    patience: Duration,
) -> Result<Vec<Done>, Fault> {
    let text = text(line, |texts| &texts.take);
    let arguments = bind(steps, patience).map_err(|error| fault::of(sqlx::Error::Encode(error)))?;
    let done = line.execute(Order::Prepared(text, arguments)).await?;
    told_apart(done, steps).map_err(fault::of)
}

/// Gives each step its own rows.
fn told_apart(done: Done, steps: &[&Step]) -> Result<Vec<Done>, sqlx::Error> {
    let mut answers: Vec<Done> = steps.iter().map(|_| Done::default()).collect();
    let mut ended = None;
    for row in done.rows {
        let Some(id) = row.try_get::<Option<&[u8]>, _>(ID)? else {
            ended = row.try_get(0)?;
            continue;
        };
        let at = steps.binary_search_by(|step| step.id()[..].cmp(id)).ok();
        // Of a record that came after the statement began, the first row tells what was inserted.
        if let Some(answer) = at.map(|at| &mut answers[at]).filter(|answer| answer.rows.is_empty()) {
            answer.changed = 1;
            answer.rows.push(row);
        }
    }
    for answer in &mut answers {
        answer.ended = ended;
    }
    Ok(answers)
}

/// The values of the statement, one list for each column.
fn bind(steps: &[&Step], patience: Duration) -> Result<PgArguments, sqlx::error::BoxDynError> {
    let of = |claims: bool| steps.iter().copied().filter(move |step| (step.verb == Verb::Claim) == claims);
    let bytes = |claims, at: usize| of(claims).map(|step| &step.values[at].bytes()[..]).collect::<Vec<_>>();
    let texts = |at: usize| of(true).map(|step| step.values[at].text()).collect::<Vec<_>>();
    let ints = |at: usize| of(true).map(|step| step.values[at].int()).collect::<Vec<_>>();
    let ends: Vec<_> = of(false).map(end).collect();
    let mut arguments = PgArguments::default();
    arguments.reserve(15, steps.iter().map(|step| step.len() + 64).sum());
    arguments.add(format!("{}ms", patience.as_millis()))?;
    arguments.add(bytes(true, 0))?;
    arguments.add(texts(1))?;
    arguments.add(texts(2))?;
    arguments.add(bytes(true, 3))?;
    arguments.add(bytes(true, 4))?;
    arguments.add(texts(5))?;
    arguments.add(ints(6))?;
    arguments.add(ints(7))?;
    arguments.add(bytes(false, 0))?;
    arguments.add(bytes(false, 1))?;
    arguments.add(ends.iter().map(|end| end.what).collect::<Vec<_>>())?;
    arguments.add(ends.iter().map(|end| end.answer).collect::<Vec<_>>())?;
    arguments.add(ends.iter().map(|end| end.span).collect::<Vec<_>>())?;
    arguments.add(ends.iter().map(|end| end.gone).collect::<Vec<_>>())?;
    Ok(arguments)
}

/// What a step that is no claim does to the flight.
struct End<'a> {
    what: &'a str,
    answer: Option<&'a [u8]>,
    span: i64,
    gone: i64,
}

fn end(step: &Step) -> End<'_> {
    let values = &step.values;
    let (what, answer, span, gone) = match step.verb {
        Verb::Complete => ("complete", Some(&values[2].bytes()[..]), 3, 4),
        Verb::Fail => (values[2].text(), None, 3, 3),
        Verb::Undo => ("undo", None, 2, 2),
        _ => ("renew", None, 2, 2),
    };
    End { what, answer, span: values[span].int(), gone: values[gone].int() }
}

/// How long ago the clock of a granted lease was read, in microseconds; `None` if there was nothing to grant.
pub(super) fn waited(done: &Done, row: &PgRow) -> Result<Option<i64>, StoreError> {
    let told = super::found::waited(row)?;
    // Together with others it tells when that was.
    Ok(done.ended.map_or(told, |ended| told.map(|began| ended - began)))
}
