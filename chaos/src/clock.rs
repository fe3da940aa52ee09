//! The clock: one for all processes of a machine, which nobody sets.

use rustix::time::{ClockId, clock_gettime};

/// Milliseconds and their fractions are too coarse to tell what came first; microseconds since some moment are not.
pub type Micros = u64;

/// So many of them are a millisecond.
pub const MILLI: Micros = 1_000;

/// So many of them are a second.
pub const SECOND: Micros = 1_000_000;

/// The time.
pub fn now() -> Micros {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as Micros * SECOND + time.tv_nsec as Micros / MILLI
}
