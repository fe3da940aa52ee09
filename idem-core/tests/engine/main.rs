//! The engine on the memory store, with time under the tests' control and a store that fails on command.
#![cfg(feature = "memory")]

mod calls;
mod disconnect;
mod doubt;
#[cfg(feature = "encryption")]
mod encryption;
mod failures;
mod faults;
mod faulty;
mod leases;
mod new_keys;
mod operators;
mod paused;
mod support;
