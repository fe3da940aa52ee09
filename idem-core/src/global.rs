//! The engine of the process, for those who do not want to pass one around.

use std::sync::OnceLock;

use crate::engine::Idempotency;
use crate::error::{Error, ErrorKind};

static GLOBAL: OnceLock<Idempotency> = OnceLock::new();

/// Sets the engine that annotated functions without `engine = ..` use. Once, at start.
///
/// # Errors
///
/// When it is already set; the first one stays.
pub fn set_global(engine: Idempotency) -> Result<(), Error> {
    GLOBAL.set(engine).map_err(|_| {
        Error::new(ErrorKind::Misuse).with_detail("the global engine is already set; the first one stays")
    })
}

/// The engine of the process.
///
/// # Errors
///
/// When [`set_global`] has not been called.
pub fn global() -> Result<&'static Idempotency, Error> {
    GLOBAL.get().ok_or_else(|| {
        Error::new(ErrorKind::Misuse).with_detail(
            "there is no global engine; call `idem::set_global(..)` at start, or name one with `engine = ..`",
        )
    })
}
