//! The journal: where all processes of the service write what they do, outside of the store that is broken.
//!
//! Each entry is one line and one write to the end of a file, so that it is whole and there also if the process is killed
//! right after it.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::clock::{Micros, now};
use crate::history::{Fault, Run};

/// One line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Entry {
    /// A run has begun.
    Begun(Run),
    /// It has had its effect: this line is the effect.
    Effect(String, Micros),
    /// It has ended, and whether it failed.
    Ended(String, Micros, bool),
    /// Something was not served for a long time.
    Stall(Fault),
}

/// A journal that is open for writing.
#[derive(Debug)]
pub struct Journal(File);

impl Journal {
    /// Opens it, or makes it.
    ///
    /// # Errors
    ///
    /// When the file cannot be opened.
    pub fn open(path: &Path) -> io::Result<Self> {
        OpenOptions::new().create(true).append(true).open(path).map(Self)
    }

    /// Adds a line.
    ///
    /// # Panics
    ///
    /// When it cannot be written: an effect that is not seen must not be.
    pub fn add(&self, entry: &Entry) {
        let mut line = serde_json::to_vec(entry).expect("an entry that can be written");
        line.push(b'\n');
        (&self.0).write_all(&line).expect("a journal that can be written");
    }

    /// Adds that a run has had its effect.
    pub fn effect(&self, run: &str) {
        self.add(&Entry::Effect(run.to_owned(), now()));
    }

    /// Adds that a run has ended.
    pub fn ended(&self, run: &str, failed: bool) {
        self.add(&Entry::Ended(run.to_owned(), now(), failed));
    }
}

/// What a journal tells: runs, and stalls.
///
/// # Errors
///
/// When it cannot be read, or holds what is no entry.
pub fn read(path: &Path) -> io::Result<(Vec<Run>, Vec<Fault>)> {
    let text = std::fs::read_to_string(path)?;
    let (mut runs, mut stalls) = (Vec::<Run>::new(), Vec::new());
    let mut places = std::collections::HashMap::new();
    for line in text.lines() {
        match serde_json::from_str(line)? {
            Entry::Begun(run) => {
                places.insert(run.id.clone(), runs.len());
                runs.push(run);
            }
            Entry::Effect(id, at) => {
                if let Some(run) = places.get(&id) {
                    runs[*run].effect = Some(at);
                }
            }
            Entry::Ended(id, at, failed) => {
                if let Some(run) = places.get(&id) {
                    runs[*run].ended = Some((at, failed));
                }
            }
            Entry::Stall(fault) => stalls.push(fault),
        }
    }
    Ok((runs, stalls))
}
