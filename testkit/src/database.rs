//! Databases of one test each.

use std::future::Future;

use crate::sql::SqlProduct;

/// A database of one test.
#[derive(Debug)]
pub struct Database {
    name: String,
    url: String,
    /// Where to have it dropped, if it has to be.
    admin: Option<String>,
    contents: fn(String, String) -> Option<Vec<u8>>,
    drop: fn(String, &str),
}

impl Database {
    pub(crate) fn new<P: SqlProduct>(url: String, name: String, admin: Option<String>) -> Self {
        Self {
            name,
            url,
            admin,
            contents: |url, table| apart(P::contents(url, table)),
            drop: |admin, name| {
                // Left behind it harms nobody.
                let _ = apart(P::execute(admin, P::drop_database(name)));
            },
        }
    }

    /// Where it is.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// All that a table holds, byte for byte, one value after the other.
    ///
    /// # Panics
    ///
    /// When it cannot be read.
    pub fn contents(&self, table: &str) -> Vec<u8> {
        (self.contents)(self.url.clone(), table.to_owned()).expect("a table that can be read")
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        if let Some(admin) = self.admin.take() {
            (self.drop)(admin, &self.name);
        }
    }
}

/// Does something on a runtime of its own, since the test's cannot be waited for everywhere.
fn apart<T: Send>(work: impl Future<Output = sqlx::Result<T>> + Send) -> Option<T> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?.block_on(work).ok()
        });
        thread.join().ok()?
    })
}
