//! The book: which keys there are, and what clients know of each.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::clock::{Micros, SECOND, now};
use crate::dice::Dice;
use crate::history::{Key, Operation};
use crate::service::Ask;

/// How long most answers are kept: longer than any run of the machine.
const LONG: Micros = 24 * 3_600 * SECOND;
/// How long those are kept whose keys are used again.
const BRIEF: Micros = 3 * SECOND;
/// How many keys back a late duplicate is.
const RECENT: u64 = 400;

/// A key, with the name of its payload.
#[derive(Debug, Clone)]
pub struct Case {
    /// Where it is in the book.
    pub number: usize,
    /// The key.
    pub key: Key,
    /// Which payload.
    pub payload: String,
}

#[derive(Debug)]
struct Page {
    key: Key,
    /// How often the key was used anew.
    life: u32,
    /// When a replay of this life was seen: it expires no later than the `ttl` after that.
    replayed: Option<Micros>,
}

/// What all clients know.
#[derive(Debug)]
pub struct Book {
    operations: Vec<Operation>,
    pages: Mutex<Vec<Page>>,
}

impl Book {
    /// An empty one, for a store with or without transactions.
    pub fn new(transactions: bool) -> Self {
        let all = Operation::ALL.into_iter();
        let operations =
            all.filter(|operation| transactions || *operation != Operation::Transaction).collect();
        Self { operations, pages: Mutex::default() }
    }

    /// A new key.
    pub fn open(&self, dice: &mut Dice) -> Case {
        let operation = self.operations[dice.below(self.operations.len() as u64) as usize];
        // A system behind us knows derived keys for ever, and what is unknown stays so.
        let is_brief = matches!(operation, Operation::Plain | Operation::Transaction) && dice.chance(40);
        let mut pages = self.lock();
        let number = pages.len();
        let key = Key { operation, name: format!("key-{number}"), ttl: if is_brief { BRIEF } else { LONG } };
        pages.push(Page { key, life: 0, replayed: None });
        case(number, &pages[number])
    }

    /// A key that was used not long ago.
    pub fn recent(&self, dice: &mut Dice) -> Option<Case> {
        let pages = self.lock();
        let back = dice.below(RECENT.min(pages.len() as u64).max(1)) as usize;
        let number = pages.len().checked_sub(1 + back)?;
        Some(case(number, &pages[number]))
    }

    /// A key whose answer has expired, for its next life.
    pub fn expired(&self, dice: &mut Dice) -> Option<Case> {
        let mut pages = self.lock();
        let some = dice.below(pages.len().max(1) as u64) as usize;
        let gone = |page: &Page| page.replayed.is_some_and(|at| at + page.key.ttl + SECOND / 2 < now());
        let number = (some..pages.len()).chain(0..some).find(|number| gone(&pages[*number]))?;
        let page = &mut pages[number];
        page.life += 1;
        page.replayed = None;
        Some(case(number, page))
    }

    /// Every key in its last life.
    pub fn all(&self) -> Vec<Case> {
        self.lock().iter().enumerate().map(|(number, page)| case(number, page)).collect()
    }

    /// Notes that the answer to a payload was replayed.
    pub fn replayed(&self, case: &Case) {
        let page = &mut self.lock()[case.number];
        if payload(page.life) == case.payload {
            page.replayed.get_or_insert_with(now);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Page>> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn payload(life: u32) -> String {
    format!("{life}.own")
}

fn case(number: usize, page: &Page) -> Case {
    Case { number, key: page.key.clone(), payload: payload(page.life) }
}

impl Case {
    /// The same key with a payload of somebody else.
    #[must_use]
    pub fn with_other_payload(&self) -> Self {
        Self { payload: self.payload.replace("own", "other"), ..self.clone() }
    }

    /// What is asked for, which is the same for the same seed, key and payload.
    pub fn ask(&self, seed: u64) -> Ask {
        let life = self.payload.split_once('.').map_or(0, |(life, _)| life.bytes().map(u64::from).sum());
        let mut dice = Dice::new(seed ^ self.number as u64, life + self.payload.len() as u64);
        // A transaction keeps a connection, and SQLite's only writer.
        let longest = if self.key.operation == Operation::Transaction { 30 } else { 2_500 };
        let mut time = || match dice.below(20) {
            0 => dice.below(longest),
            1..=5 => dice.below(longest.min(400)),
            _ => dice.below(15),
        };
        let (before_ms, after_ms) = (time(), time());
        let fails = u32::from(dice.chance(6));
        Ask { key: self.key.clone(), payload: self.payload.clone(), before_ms, after_ms, fails }
    }
}
