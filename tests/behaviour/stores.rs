//! The stores that the suite runs over. A new one is a variant here, and a line in `main.rs`.

use std::fmt::Debug;
use std::sync::Arc;

use idem::{MemoryStore, SqliteStore, Store};
use tempfile::TempDir;

/// A kind of store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Memory,
    Sqlite,
}

/// A store of its own for one test, and what has to live as long as it.
#[derive(Clone)]
pub(crate) struct Opened {
    pub(crate) store: Arc<dyn Store>,
    home: Option<Arc<TempDir>>,
}

impl Kind {
    pub(crate) async fn open(self) -> Opened {
        match self {
            Self::Memory => Opened::without_home(MemoryStore::new()),
            Self::Sqlite => {
                let home = tempfile::tempdir().unwrap();
                let store = SqliteStore::open(home.path().join("idem.db")).await.unwrap();
                Opened { store: Arc::new(store), home: Some(Arc::new(home)) }
            }
        }
    }
}

impl Opened {
    pub(crate) fn without_home(store: impl Store) -> Self {
        Self { store: Arc::new(store), home: None }
    }

    /// Everything that the store has written to disk.
    pub(crate) fn on_disk(&self) -> Vec<u8> {
        let files = self.home.iter().flat_map(|home| std::fs::read_dir(home.path()).unwrap());
        files.flat_map(|file| std::fs::read(file.unwrap().path()).unwrap()).collect()
    }
}
