//! Operations: the name of the work, and the place in the source that does it.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Names the work, independent of where its code stands.
///
/// Records of two operations never meet, even under the same key. Renaming an operation orphans its live records.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Operation(Name);

#[derive(Clone)]
enum Name {
    Static(&'static str),
    Shared(Arc<str>),
}

impl Operation {
    /// The longest operation name, in bytes.
    pub const MAX_LEN: usize = 255;

    /// Names an operation by a constant.
    pub const fn from_static(name: &'static str) -> Self {
        Self(Name::Static(name))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Name::Static(name) => name,
            Name::Shared(name) => name,
        }
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl Eq for Name {}

impl std::hash::Hash for Name {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.text().hash(state);
    }
}

impl Name {
    fn text(&self) -> &str {
        match self {
            Self::Static(name) => name,
            Self::Shared(name) => name,
        }
    }
}

impl From<&'static str> for Operation {
    fn from(name: &'static str) -> Self {
        Self::from_static(name)
    }
}

impl From<String> for Operation {
    fn from(name: String) -> Self {
        Self(Name::Shared(name.into()))
    }
}

impl From<Cow<'static, str>> for Operation {
    fn from(name: Cow<'static, str>) -> Self {
        match name {
            Cow::Borrowed(name) => name.into(),
            Cow::Owned(name) => name.into(),
        }
    }
}

impl fmt::Debug for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Operation({})", self.as_str())
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One annotated function: its operation and its place in the source. The attribute makes one per function.
///
/// An operation that is not pinned takes its name from the module path, which nested functions share; an engine refuses
/// such a name from a second place, since the two would answer each other's requests.
#[derive(Debug)]
pub struct Site {
    operation: &'static str,
    pinned: bool,
    file: &'static str,
    line: u32,
    column: u32,
    /// The engine that checked this site last; spares the look-up in its register.
    checked_by: AtomicU64,
}

impl Site {
    /// A site whose operation was named by its author.
    pub const fn pinned(operation: &'static str, file: &'static str, line: u32, column: u32) -> Self {
        Self { operation, pinned: true, file, line, column, checked_by: AtomicU64::new(0) }
    }

    /// A site whose operation is its module path and function name.
    pub const fn unpinned(operation: &'static str, file: &'static str, line: u32, column: u32) -> Self {
        Self { operation, pinned: false, file, line, column, checked_by: AtomicU64::new(0) }
    }

    /// The operation that this site does.
    pub const fn operation(&self) -> Operation {
        Operation::from_static(self.operation)
    }

    pub(crate) fn is_pinned(&self) -> bool {
        self.pinned
    }

    pub(crate) fn place(&self) -> Place {
        Place { file: self.file, line: self.line, column: self.column }
    }

    pub(crate) fn was_checked_by(&self, engine: u64) -> bool {
        self.checked_by.load(Ordering::Relaxed) == engine
    }

    pub(crate) fn checked_by(&self, engine: u64) {
        self.checked_by.store(engine, Ordering::Relaxed);
    }
}

/// A place in the source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    file: &'static str,
    line: u32,
    column: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}
