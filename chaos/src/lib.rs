//! A machine that breaks services and stores under load, and a checker that judges what became of every key.
//!
//! `cargo run -p chaos -- --store postgres --minutes 1 --seed 7`. Begin reading at `machine.rs`; `checker.rs` says what is
//! right, and `docs/reliability.md` what came of it.

pub mod book;
pub mod checker;
pub mod clients;
pub mod clock;
pub mod dice;
pub mod downstream;
pub mod history;
pub mod journal;
pub mod machine;
pub mod nemesis;
pub mod options;
pub mod ping;
pub mod plot;
pub mod processes;
pub mod progress;
pub mod recorder;
pub mod report;
pub mod service;
pub mod victim;
pub mod way;
