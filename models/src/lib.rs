//! The protocol in a model checker, and the mutants that it refutes.
//!
//! See the README for what is modelled and how to read a counterexample.

pub mod caller;
mod claim;
pub mod config;
mod fence;
pub mod model;
pub mod mutant;
pub mod properties;
pub mod protocol;
pub mod reach;
pub mod record;
pub mod search;
pub mod transaction;
pub mod truth;
pub mod world;
