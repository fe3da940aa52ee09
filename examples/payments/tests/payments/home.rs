//! Where a service keeps its things: in memory, or in a file of its own.

use tempfile::TempDir;

/// A store, empty at first; as long as this lives, services may be started on it again.
pub struct Home {
    pub store: String,
    directory: TempDir,
}

impl Home {
    pub fn memory() -> Self {
        Self { store: "memory:".into(), directory: tempfile::tempdir().unwrap() }
    }

    pub fn sqlite() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("payments.db");
        Self { store: format!("sqlite:{}", file.display()), directory }
    }

    /// The files that SQLite keeps beside an open database.
    pub fn files_of_an_open_database(&self) -> Vec<String> {
        let files = std::fs::read_dir(self.directory.path()).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.contains(".db-")).collect()
    }

    /// A file for what a service logs.
    pub fn log(&self) -> std::path::PathBuf {
        self.directory.path().join(format!("{}.log", fresh_key()))
    }
}

/// A key that was never used.
pub fn fresh_key() -> String {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(1);
    format!("key-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Makes each test one on memory and one on SQLite.
macro_rules! on_each_store {
    ($(async fn $name:ident($home:ident) $body:block)*) => {
        mod memory {
            use super::*;
            $(#[tokio::test(flavor = "multi_thread")] async fn $name() { let $home = Home::memory(); $body })*
        }
        mod sqlite {
            use super::*;
            $(#[tokio::test(flavor = "multi_thread")] async fn $name() { let $home = Home::sqlite(); $body })*
        }
    };
}
pub(crate) use on_each_store;
